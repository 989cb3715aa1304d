/*
 * arena_pairs.c - what an allocation and its free cost the host, at several thread counts.
 *
 *     arena_pairs async|torch|plain [ROUNDS [SECONDS [MOST [THREADS]]]]
 *
 * async: cuMemAllocAsync on a stream of each thread's own; torch: vramscope_torch_malloc of the preloaded
 * library; plain: cuMemAlloc. Blocks are 512 B to 8 MiB and come from what is cached. MOST pairs a round,
 * 0.2 s apart, so that what records them keeps up.
 */
#define _GNU_SOURCE
#include "arena_torch.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS      64
#define THREADS_MAX 16
#define ROUNDS_MAX  31

#define OK(call)                                                                                             \
    do {                                                                                                     \
        CUresult status_ = (call);                                                                           \
        if (status_ != CUDA_SUCCESS) {                                                                       \
            printf("FAIL  %s:%d: %s gave %d\n", __FILE__, __LINE__, #call, (int)status_);                    \
            fflush(stdout);                                                                                  \
            _exit(3);                                                                                        \
        }                                                                                                    \
    } while (0)

enum how { ASYNC, TORCH, PLAIN };

static struct {
    enum how how;
    struct torch_allocator torch;
    CUcontext context;
    double seconds; /* that all measuring may take */
    int rounds;
    unsigned most;
} bench = {.rounds = 5, .seconds = 10};

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    CUstream stream;
    CUdeviceptr block[BLOCKS];
    size_t size[BLOCKS];
    uint32_t random;
    unsigned pairs;
    double ns;
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint32_t rnd(struct worker *w, uint32_t below)
{
    w->random = w->random * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)w->random * below >> 32);
}

static CUdeviceptr take(struct worker *w, size_t size)
{
    CUdeviceptr p = 0;
    if (bench.how == ASYNC)
        OK(cuMemAllocAsync(&p, size, w->stream));
    else if (bench.how == PLAIN)
        OK(cuMemAlloc(&p, size));
    else
        p = (CUdeviceptr)bench.torch.allocate((ssize_t)size, 0, w->stream);
    return p;
}

static void give(struct worker *w, CUdeviceptr p, size_t size)
{
    if (bench.how == ASYNC)
        OK(cuMemFreeAsync(p, w->stream));
    else if (bench.how == PLAIN)
        OK(cuMemFree(p));
    else
        bench.torch.release((void *)p, (ssize_t)size, 0, w->stream); // NOLINT: what the driver calls a number
}

static void turn_over(struct worker *w, unsigned pairs)
{
    for (unsigned n = 0; n < pairs; n++) {
        unsigned i = rnd(w, BLOCKS);
        give(w, w->block[i], w->size[i]);
        w->block[i] = take(w, w->size[i]);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    OK(cuCtxSetCurrent(bench.context));
    OK(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < BLOCKS; i++) {
        w->size[i] = (512u << rnd(w, 14)) + 512u * rnd(w, 4);
        w->block[i] = take(w, w->size[i]);
    }
    turn_over(w, w->pairs / 4);
    pthread_barrier_wait(w->barrier);
    double begin = now_ns();
    turn_over(w, w->pairs);
    w->ns = (now_ns() - begin) / w->pairs;
    pthread_barrier_wait(w->barrier);
    for (unsigned i = 0; i < BLOCKS; i++)
        give(w, w->block[i], w->size[i]);
    OK(cuStreamSynchronize(w->stream));
    OK(cuStreamDestroy(w->stream));
    return NULL;
}

/* ns a pair and thread, of the slowest one. */
static double one_round(unsigned threads, unsigned pairs)
{
    static struct worker w[THREADS_MAX];
    pthread_barrier_t barrier;
    double slowest = 0;
    pthread_barrier_init(&barrier, NULL, threads);
    for (unsigned t = 0; t < threads; t++) {
        w[t] = (struct worker){.barrier = &barrier, .random = t + 1, .pairs = pairs};
        pthread_create(&w[t].thread, NULL, work, &w[t]);
    }
    for (unsigned t = 0; t < threads; t++) {
        pthread_join(w[t].thread, NULL);
        slowest = w[t].ns > slowest ? w[t].ns : slowest;
    }
    pthread_barrier_destroy(&barrier);
    return slowest;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(unsigned threads)
{
    double ns[ROUNDS_MAX];
    double trial = one_round(threads, 200); /* how many pairs there is time for */
    double share = bench.seconds * 1e9 / 4 / bench.rounds / 1.25;
    double fit = share / (trial > 1 ? trial : 1);
    unsigned pairs = fit < 100 ? 100 : fit > 200000 ? 200000 : (unsigned)fit;
    if (bench.most && pairs > bench.most / threads)
        pairs = bench.most / threads;
    for (int r = 0; r < bench.rounds; r++) {
        usleep(bench.most ? 200000 : 0);
        ns[r] = one_round(threads, pairs);
    }
    qsort(ns, (size_t)bench.rounds, sizeof *ns, ascending);
    double median = ns[bench.rounds / 2];
    printf("%2u threads  %9.1f ns a pair (%.1f .. %.1f)  %7.2f million pairs a second in all, %u pairs a "
           "round\n",
           threads, median, ns[0], ns[bench.rounds - 1], threads / median * 1000, pairs);
    fflush(stdout);
}

/* 0; 2 where it cannot be measured so. */
static int choose(const char *how)
{
    CUmemoryPool pool;
    cuuint64_t all = UINT64_MAX;
    bench.how = !strcmp(how, "async") ? ASYNC : !strcmp(how, "torch") ? TORCH : PLAIN;
    if (bench.how == PLAIN && strcmp(how, "plain") != 0)
        return 2;
    if (bench.how == TORCH && !torch_allocator_find(&bench.torch)) {
        puts("vramscope_torch_malloc is not in this process");
        return 2;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&bench.context, 0));
    OK(cuCtxSetCurrent(bench.context));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                             &all)); /* the driver's own keeps what is freed */
    return 0;
}

int main(int argc, char **argv)
{
    static const unsigned counts[] = {1, 2, 8, 16};
    if (argc < 2)
        return 2;
    if (argc > 2)
        bench.rounds = atoi(argv[2]);
    if (argc > 3)
        bench.seconds = atof(argv[3]);
    if (argc > 4)
        bench.most = (unsigned)atoi(argv[4]);
    if (bench.rounds < 1 || bench.rounds > ROUNDS_MAX || bench.seconds <= 0)
        return 2;
    int status = choose(argv[1]);
    unsigned only = argc > 5 ? (unsigned)atoi(argv[5]) : 0;
    if (only > THREADS_MAX)
        return 2;
    if (only && status == 0)
        measure(only);
    for (size_t i = 0; !only && status == 0 && i < sizeof counts / sizeof *counts; i++)
        measure(counts[i]);
    return status;
}
