/*
 * bench_stacks.c - what a captured call stack costs: bench_stacks [ROUNDS]. Warm: the whole stack was seen
 * before. New pc: a stack of addresses that this thread has never unwound.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/options.h"
#include "record/record.h"
#include "stacks/block.h"
#include "stacks/stacks.h"

#if __has_attribute(noclone) /* gcc: no copies for constant arguments */
#define NOINLINE __attribute__((noinline, noclone))
#else
#define NOINLINE __attribute__((noinline))
#endif
enum { BATCHES = 15 };

static struct vs_journal *journal;
static long rounds = 20000;

void vs_record_enter_internal(void) {}
void vs_record_leave_internal(void) {}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

static int depth_of(uint32_t stack)
{
    int depth = 0;
    for (; stack; depth++)
        stack = vs_journal_get_stack(journal, stack)->parent;
    return depth;
}

static NOINLINE double leaf(int *depth)
{
    double batch[BATCHES];
    uint32_t stack = 0;
    for (int b = 0; b < BATCHES; b++) {
        double start = now();
        for (long i = 0; i < rounds; i++)
            stack = vs_stack_capture(journal, 0);
        batch[b] = (now() - start) / (double)rounds;
    }
    *depth = depth_of(stack);
    return median(batch, BATCHES);
}

static NOINLINE double deeper(int n, int *depth)
{
    double result = n > 0 ? deeper(n - 1, depth) : leaf(depth);
    __asm__ volatile("" ::: "memory");
    return result;
}

/* 256 functions: pcs that no thread has unwound before. */
#define SITE(n)                                                                                              \
    static NOINLINE uint32_t site_##n(void)                                                                  \
    {                                                                                                        \
        uint32_t stack = vs_stack_capture(journal, 0);                                                       \
        __asm__ volatile("" ::: "memory");                                                                   \
        return stack;                                                                                        \
    }
#define ENTRY(n)     site_##n,
#define EACH4(X, n)  X(n##0) X(n##1) X(n##2) X(n##3)
#define EACH16(X, n) EACH4(X, n##0) EACH4(X, n##1) EACH4(X, n##2) EACH4(X, n##3)
#define EACH64(X, n) EACH16(X, n##0) EACH16(X, n##1) EACH16(X, n##2) EACH16(X, n##3)
#define EACH256(X)   EACH64(X, 0) EACH64(X, 1) EACH64(X, 2) EACH64(X, 3)
EACH256(SITE)
static uint32_t (*const sites[])(void) = {EACH256(ENTRY)};
enum { SITES = sizeof sites / sizeof *sites };

/* Medians: a round that meets a page fault or the scheduler says nothing about the unwinder. */
static double new_pcs(void)
{
    static double each[SITES];
    for (volatile int i = 0; i < SITES; i++) {
        double start = now();
        sites[i]();
        each[i] = now() - start;
    }
    return median(each, SITES);
}

static void *first_of_thread(void *result)
{
    double start = now();
    vs_stack_capture(journal, 0);
    *(double *)result = now() - start;
    return NULL;
}

int main(int argc, char **argv)
{
    char path[64];
    struct vs_journal_config config = {.ring_slots = 1024,
                                       .frames = 1024,
                                       .stacks = 2048,
                                       .database = "/nowhere.db"}; /* small: few page faults */
    if (argc > 1)
        rounds = atol(argv[1]);
    snprintf(path, sizeof path, "/tmp/bench-stacks-%d.vsj", getpid());
    if (vs_journal_create(&journal, path, &config) != 0)
        return 1;
    unlink(path);
    vs_options.stacks = VS_STACKS_DRIVER;
    vs_stack_prepare();
    if (vs_stack_why_off()[0]) {
        fprintf(stderr, "bench_stacks: %s\n", vs_stack_why_off());
        return 1;
    }
    vs_stack_capture(journal, 0);
    double threads[BATCHES], round[3];
    for (volatile int i = 0; i < 3; i++)
        round[i] = new_pcs();
    int depth[2];
    double ten = deeper(5, &depth[0]), fifty = deeper(45, &depth[1]);
    for (int i = 0; i < BATCHES; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, first_of_thread, &threads[i]);
        pthread_join(thread, NULL);
    }
    printf("capture_warm_ns frames=%d %.0f\n", depth[0], ten);
    printf("capture_warm_ns frames=%d %.0f\n", depth[1], fifty);
    printf("capture_new_pc_ns %.0f (the same again %.0f)\n", round[0], round[2]);
    printf("capture_first_of_thread_ns %.0f\n", median(threads, BATCHES));
    return 0;
}
