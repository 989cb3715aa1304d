/*
 * work.h - what every program of the roads does once it has found the driver, so that every road has the
 * same list of events.
 */
#ifndef TESTS_GPU_ROADS_WORK_H
#define TESTS_GPU_ROADS_WORK_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

struct road {
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set_current)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
    CUresult (*host_alloc)(void **, size_t, unsigned);
    CUresult (*host_free)(void *);
};

/* X(member, symbol, base, version) */
#define ROAD_FUNCTIONS(X)                                                                                    \
    X(init, cuInit, cuInit, 2000)                                                                            \
    X(retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                                      \
    X(set_current, cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                                   \
    X(alloc, cuMemAlloc_v2, cuMemAlloc, 3020)                                                                \
    X(free, cuMemFree_v2, cuMemFree, 3020)                                                                   \
    X(host_alloc, cuMemHostAlloc, cuMemHostAlloc, 2020)                                                      \
    X(host_free, cuMemFreeHost, cuMemFreeHost, 2000)

#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)

static inline void work(const struct road *r)
{
    CUcontext context;
    CUdeviceptr a, b;
    void *host;
    MUST(r->init(0) == CUDA_SUCCESS);
    MUST(r->retain(&context, 0) == CUDA_SUCCESS && r->set_current(context) == CUDA_SUCCESS);
    MUST(r->alloc(&a, 1000) == CUDA_SUCCESS);
    MUST(r->free(a) == CUDA_SUCCESS);
    MUST(r->alloc(&b, 2000) == CUDA_SUCCESS);
    MUST(r->host_alloc(&host, 4096, 0) == CUDA_SUCCESS);
    MUST(r->alloc(&a, (size_t)1 << 44) == CUDA_ERROR_OUT_OF_MEMORY);
    MUST(r->host_free(host) == CUDA_SUCCESS);
    puts("worked");
}

#endif
