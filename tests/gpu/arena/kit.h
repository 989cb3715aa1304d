/*
 * kit.h - what the programs of arena_driver.sh share: CU(function, ...) calls the driver's function by name,
 * and is ABSENT where the driver has none, as the simulated one.
 */
#ifndef TESTS_GPU_ARENA_KIT_H
#define TESTS_GPU_ARENA_KIT_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB    (1ull << 20)
#define ABSENT ((CUresult)-1)

#define STR_(s) #s
#define STR(s)  STR_(s)
#define CU(f, ...)                                                                                           \
    ({                                                                                                       \
        static __typeof__(&f) p_;                                                                            \
        if (!p_)                                                                                             \
            p_ = (__typeof__(&f))look(STR(f));                                                               \
        p_ ? p_(__VA_ARGS__) : ABSENT;                                                                       \
    })
#define OK(f, ...)                                                                                           \
    do {                                                                                                     \
        CUresult r_ = CU(f, __VA_ARGS__);                                                                    \
        if (r_)                                                                                              \
            die(STR(f), r_, __LINE__);                                                                       \
    } while (0)

static inline void *look(const char *name)
{
    static void *driver;
    if (!driver && !(driver = dlopen("libcuda.so.1", RTLD_NOW))) {
        printf("SKIP: no libcuda.so.1\n");
        exit(77);
    }
    return dlsym(driver, name);
}

static inline void die(const char *what, CUresult status, int line)
{
    printf("FAIL line %d: %s gave %d\n", line, what, (int)status);
    fflush(stdout);
    _exit(1);
}

static inline CUcontext begin(void)
{
    CUcontext context;
    setvbuf(stdout, NULL, _IOLBF, 0);
    OK(cuInit, 0);
    OK(cuDevicePrimaryCtxRetain, &context, 0);
    OK(cuCtxSetCurrent, context);
    return context;
}

static inline uint64_t free_bytes(void)
{
    size_t left = 0, total = 0;
    OK(cuMemGetInfo, &left, &total);
    return left;
}

static inline double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static inline void verdict(bool good, const char *what)
{
    printf("%s %s\n", good ? "PASS" : "FAIL", what);
}

#endif
