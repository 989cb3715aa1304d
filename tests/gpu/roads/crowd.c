/*
 * crowd.c - 32 threads, which never hold more than 1 MiB, keep a small ring full, beside one that holds 1280
 * MiB at its peak.
 */
#define _GNU_SOURCE
#include "work.h"

#include <pthread.h>
#include <time.h>

#define MIB    ((size_t)1 << 20)
#define CROWD  32
#define PIECES 20

static CUcontext context;
static _Atomic int stop;

static void *one(void *unused)
{
    CUdeviceptr p;
    MUST(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (size_t i = 0; !stop; i++)
        MUST(cuMemAlloc_v2(&p, 512 + i % 9 * 512) == CUDA_SUCCESS && cuMemFree_v2(p) == CUDA_SUCCESS);
    return NULL;
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

int main(void)
{
    pthread_t crowd[CROWD];
    CUdeviceptr piece[PIECES];
    MUST(cuInit(0) == CUDA_SUCCESS);
    MUST(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (int i = 0; i < CROWD; i++)
        MUST(pthread_create(&crowd[i], NULL, one, NULL) == 0);
    pause_ms(300);
    for (int i = 0; i < PIECES; i++, pause_ms(10))
        MUST(cuMemAlloc_v2(&piece[i], 64 * MIB) == CUDA_SUCCESS);
    for (int i = 0; i < PIECES; i++, pause_ms(5))
        MUST(cuMemFree_v2(piece[i]) == CUDA_SUCCESS);
    stop = 1;
    for (int i = 0; i < CROWD; i++)
        MUST(pthread_join(crowd[i], NULL) == 0);
    return 0;
}
