/*
 * bench_cold.c - what a recorded block of PyTorch's allocator costs a program whose caches hold other things.
 *
 *      VRAMSCOPE_STACKS=driver LD_PRELOAD=.../lib/libvramscope.so .../tests/bench_cold [turns]
 *      bench_cold count N       N reports alone, to count instructions
 *
 * In a loop that does nothing else a report costs some 25 ns, in a training step several times that: between
 * two reports the program runs microseconds of other code over other data, and everything that the report
 * touches has to come back from a farther cache.  Here each report comes after a walk over DATA bytes and
 * through CODE bytes of instructions.  Turns with the recording on and off (pause.c) alternate in one process
 * with the drain at work; a turn's figure is the median of its reports, each timed by itself, and printed is
 * the median of the differences between neighbouring turns.
 *
 * x86-64 alone: the walk through code is made of its jumps.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)

#include <sys/mman.h>
#include <sys/resource.h>
#include <x86intrin.h>

#define REPORTS   200
#define TURNS_MAX 401
#define LINE      64u
#define KIB       1024u

/* reports to libvramscope, which stands before libc10; the stream that blocks are for (bench_c10.c) */
extern void bench_report(void *, int64_t, size_t, size_t);
extern void bench_stream(int64_t id);
extern void vramscope_benchmark_pause(void) __attribute__((weak));
extern void vramscope_benchmark_resume(void) __attribute__((weak));

static const struct work {
    const char *name;
    size_t data, code;
} works[] = {{"caches warm", 0, 0},
             {"first level gone", 256 * KIB, 128 * KIB},
             {"second level gone", 4096 * KIB, 512 * KIB}};
enum { WORKS = sizeof works / sizeof *works };

static unsigned char *data, *code;

/* CODE's bytes are a jump in every line, to the next line; the last returns. */
static void make_code(size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE)
        memcpy(code + at, at + LINE < bytes ? "\xeb\x3e" : "\xc3\x90", 2);
}

static void do_other_things(const struct work *w)
{
    for (size_t at = 0; at < w->data; at += LINE)
        data[at]++;
    if (w->code)
        ((void (*)(void))(uintptr_t)code)();
}

static uint64_t sequence;

/* Blocks come and go in pairs, sixteen alive at a time. */
static void one_report(void)
{
    uint64_t n = sequence++;
    int64_t size = n & 16 ? -4096 : 4096;
    bench_report((char *)0x7f0000000000 + (n & 15) * 4096, size, 1 << 20, 1 << 21);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

/* The locked addition stands for the unlock of the allocator's mutex, which waits for our stores. */
static double turn(const struct work *w)
{
    static double ticks[REPORTS];
    static int mutex;
    for (int i = 0; i < REPORTS; i++) {
        unsigned core;
        do_other_things(w);
        __atomic_fetch_add(&mutex, 1, __ATOMIC_SEQ_CST);
        _mm_lfence();
        uint64_t start = __rdtsc();
        _mm_lfence();
        one_report();
        __atomic_fetch_add(&mutex, -1, __ATOMIC_SEQ_CST);
        ticks[i] = (double)(__rdtscp(&core) - start);
        _mm_lfence();
    }
    return median(ticks, REPORTS);
}

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double ns_of_a_tick(void)
{
    uint64_t ns = clock_ns(), ticks = __rdtsc();
    while (clock_ns() - ns < 20000000)
        ;
    return (double)(clock_ns() - ns) / (double)(__rdtsc() - ticks);
}

static long faults(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_minflt;
}

static void measure(const struct work *w, int turns, double tick)
{
    static double on[TURNS_MAX], off[TURNS_MAX], extra[TURNS_MAX];
    long before = faults();
    make_code(w->code);
    for (int i = 0; i < turns; i++) {
        on[i] = turn(w);
        vramscope_benchmark_pause();
        off[i] = turn(w);
        vramscope_benchmark_resume();
        extra[i] = on[i] - off[i];
    }
    qsort(extra, (size_t)turns, sizeof *extra, by_value);
    printf("%-18s %6.1f ns a report (middle half %.1f to %.1f): %.1f recorded, %.1f paused; %ld faults\n",
           w->name, extra[turns / 2] * tick, extra[turns / 4] * tick, extra[turns * 3 / 4] * tick,
           median(on, (size_t)turns) * tick, median(off, (size_t)turns) * tick, faults() - before);
}

int main(int argc, char **argv)
{
    int turns = argc > 1 ? atoi(argv[1]) : 101;
    if (!vramscope_benchmark_pause) {
        fprintf(stderr, "bench_cold: runs with libvramscope.so preloaded\n");
        return 2;
    }
    if (argc > 2 && strcmp(argv[1], "count") == 0) {
        for (int i = 0, n = atoi(argv[2]); i < n; i++)
            one_report();
        return 0;
    }
    data = mmap(NULL, 4096 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    code = mmap(NULL, 512 * KIB, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (turns < 1 || turns > TURNS_MAX || data == MAP_FAILED || code == MAP_FAILED)
        return 2;
    double tick = ns_of_a_tick();
    one_report();
    for (int i = 0; i < WORKS; i++)
        measure(&works[i], turns, tick);
    bench_stream(0x123);
    puts("on a stream that is not the default one:");
    for (int i = 0; i < WORKS; i++)
        measure(&works[i], turns, tick);
    return 0;
}

#else

int main(void)
{
    puts("bench_cold: for x86-64 alone");
    return 77;
}

#endif
