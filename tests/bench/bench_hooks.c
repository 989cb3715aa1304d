/*
 * bench_hooks.c - what hooked calls cost on top of the driver's own.
 *
 *     LD_PRELOAD=build/release/lib/libvramscope.so build/release/tests/bench_hooks
 *     bench_hooks NUMBER TIMES    the hooked calls of the NUMBERth subject alone, to count instructions
 *
 * Rounds of the hooked functions, and of the same under names that nobody hooks, take turns; the median
 * difference is the cost. Preload build/release/tests/hooks/libhooks_preload.so instead, and the recording
 * is a double: what is left is the wrapper.
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "unit/hooks/fake_driver.h"

#define ROUNDS 201
#define PAIRS  2000

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- what is measured: PAIRS calls, or pairs of them, of the hooked or of the plain function ---- */

static void allocations(bool hooked)
{
    CUresult (*take)(CUdeviceptr *, size_t) = hooked ? cuMemAlloc_v2 : fake_alloc;
    CUresult (*give)(CUdeviceptr) = hooked ? cuMemFree_v2 : fake_free;
    for (int i = 0; i < PAIRS; i++) {
        CUdeviceptr p = 0;
        take(&p, 4096);
        give(p);
    }
}

static void launches(bool hooked)
{
    __typeof__(fake_launch) *launch = hooked ? cuLaunchKernel : fake_launch;
    for (int i = 0; i < PAIRS; i++)
        launch((CUfunction)(uintptr_t)0x7700, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void kernel_functions(bool hooked)
{
    __typeof__(fake_kernel_function) *get = hooked ? cuKernelGetFunction : fake_kernel_function;
    CUfunction f;
    for (int i = 0; i < PAIRS; i++)
        get(&f, (CUkernel)(uintptr_t)0x7700);
}

static void graph_launches(bool hooked)
{
    __typeof__(fake_graph_launch) *launch = hooked ? cuGraphLaunch : fake_graph_launch;
    for (int i = 0; i < PAIRS; i++)
        launch((CUgraphExec)(uintptr_t)0x7700, NULL);
}

static void *libc;
static void *(*plain_dlsym)(void *, const char *);

static void look_ups(bool hooked)
{
    void *(*look_up)(void *, const char *) = hooked ? dlsym : plain_dlsym;
    for (int i = 0; i < PAIRS; i++)
        look_up(libc, "strlen");
}

struct subject {
    const char *what;
    void (*calls)(bool hooked);
    int per_pair;
    double plain[ROUNDS], extra[ROUNDS];
};

static double one_round(const struct subject *s, bool hooked)
{
    double start = now_ns();
    s->calls(hooked);
    return (now_ns() - start) / (s->per_pair * PAIRS);
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

static void print(struct subject *s)
{
    qsort(s->plain, ROUNDS, sizeof(s->plain[0]), ascending);
    qsort(s->extra, ROUNDS, sizeof(s->extra[0]), ascending);
    printf("%-16s alone %6.1f ns, hooked, on top of it %6.1f ns a call (quartiles %.1f, %.1f; %d rounds)\n",
           s->what, s->plain[ROUNDS / 2], s->extra[ROUNDS / 2], s->extra[ROUNDS / 4],
           s->extra[ROUNDS * 3 / 4], ROUNDS);
}

int main(int argc, char **argv)
{
    static struct subject subjects[] = {{.what = "alloc and free", .calls = allocations, .per_pair = 2},
                                        {.what = "known launch", .calls = launches, .per_pair = 1},
                                        {.what = "known function", .calls = kernel_functions, .per_pair = 1},
                                        {.what = "graph launch", .calls = graph_launches, .per_pair = 1},
                                        {.what = "unrelated dlsym", .calls = look_ups, .per_pair = 1}};
    size_t n = sizeof subjects / sizeof *subjects;
    fake_set_context(0x10000);
    libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    plain_dlsym = (void *(*)(void *, const char *))dlvsym(libc, "dlsym", "GLIBC_2.34");
    if (!plain_dlsym)
        n--;
    for (size_t k = 0; k < n; k++)
        subjects[k].calls(true);
    if (argc == 3 && strtoul(argv[1], NULL, 10) < n) {
        for (unsigned long i = strtoul(argv[2], NULL, 10); i > 0; i--)
            subjects[strtoul(argv[1], NULL, 10)].calls(true);
        return 0;
    }
    for (int i = 0; i < ROUNDS; i++)
        for (size_t k = 0; k < n; k++) {
            subjects[k].plain[i] = one_round(&subjects[k], false);
            subjects[k].extra[i] = one_round(&subjects[k], true) - subjects[k].plain[i];
            pause_between_rounds();
        }
    for (size_t k = 0; k < n; k++)
        print(&subjects[k]);
    return 0;
}
