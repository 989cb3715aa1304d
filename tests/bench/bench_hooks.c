/*
 * bench_hooks.c - what a hooked allocation and free cost on top of the driver's own.
 *
 *      LD_PRELOAD=build/release/lib/libvramscope.so build/release/tests/bench_hooks
 *
 * The driver is one that does nearly nothing (tests/unit/hooks/fake_driver.c).  Rounds of the hooked
 * functions and of the same functions under names that nobody hooks take turns in one process; the median of
 * the rounds' differences is the cost.  With LD_PRELOAD=build/release/tests/hooks/libhooks_preload.so the
 * recording itself is a double: what is left is the wrapper.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "hooks/fake_driver.h"

#define ROUNDS 201
#define PAIRS  2000

typedef CUresult alloc_function(CUdeviceptr *, size_t);
typedef CUresult free_function(CUdeviceptr);

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns for an allocation or a free, the mean over PAIRS of each */
static double one_round(alloc_function *take, free_function *give)
{
    double start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        CUdeviceptr p = 0;
        take(&p, 4096);
        give(p);
    }
    return (now_ns() - start) / (2.0 * PAIRS);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* 5 ms: lets a drain thread empty the ring, so that rounds measure recording and not waiting */
static void pause_between_rounds(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

int main(void)
{
    static double plain[ROUNDS], extra[ROUNDS];
    fake_set_context(0x10000);
    one_round(cuMemAlloc_v2, cuMemFree_v2);
    for (int i = 0; i < ROUNDS; i++) {
        plain[i] = one_round(fake_alloc, fake_free);
        extra[i] = one_round(cuMemAlloc_v2, cuMemFree_v2) - plain[i];
        pause_between_rounds();
    }
    qsort(plain, ROUNDS, sizeof(plain[0]), ascending);
    qsort(extra, ROUNDS, sizeof(extra[0]), ascending);
    printf("driver alone          %6.1f ns a call\n", plain[ROUNDS / 2]);
    printf("hooked, on top of it  %6.1f ns a call (quartiles %.1f, %.1f; %d rounds of %d calls)\n",
           extra[ROUNDS / 2], extra[ROUNDS / 4], extra[ROUNDS * 3 / 4], ROUNDS, 2 * PAIRS);
    return 0;
}
