/*
 * bench_arena.c - what a malloc and a free of the arena cost where no call of the driver is needed.
 *
 *      bench_arena [rounds]
 *
 * One thread: the same block over and over; a working set of random sizes out of heaps; large blocks out of
 * alias mappings; and that working set while ten queues take turns.  Then 1 to 16 threads, each on its own
 * queue with a working set of its own: wall time of a pair as its thread sees it, processor time of a pair
 * (with more threads than cores the first one says little), and what all make together.  Beside it the locks
 * alone, the arena's and glibc's, around some ten nanoseconds of work.  Medians of the rounds, least and most
 * in brackets.  The backing is counters.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "arena/core/arena.h"
#include "arena/core/backing_count.h"
#include "core/lock.h"

#define PAIRS       200000
#define SET         512
#define ROUNDS_MAX  51
#define THREADS_MAX 16
#define MIB         (1u << 20)

static struct vs_backing_count counters;
static struct vs_arena *arena;

struct set {
    uint64_t address[SET];
    uint64_t size[SET];
    uint32_t queue[SET];
    uint64_t random;
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t rnd(struct set *s, uint32_t below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(s->random >> 33) % below;
}

static uint64_t take(uint32_t queue, uint64_t size)
{
    uint64_t address;
    if (vs_arena_malloc(arena, queue, size, &address) != 0)
        exit(2);
    return address;
}

static void give(uint64_t address, uint32_t queue)
{
    if (vs_arena_free(arena, address, queue, 0) != 0)
        exit(3);
}

/* As tensors are: mostly small, some of many MiB. */
static uint64_t random_size(struct set *s)
{
    uint32_t kind = rnd(s, 10);
    return kind < 5 ? 1 + rnd(s, 64u << 10) : kind < 8 ? 1 + rnd(s, 4 * MIB) : 1 + rnd(s, 64 * MIB);
}

static void fill(struct set *s, uint32_t queues, uint32_t first)
{
    for (uint32_t i = 0; i < SET; i++) {
        s->size[i] = random_size(s);
        s->queue[i] = first + i % queues;
        s->address[i] = take(s->queue[i], s->size[i]);
    }
}

static void empty(struct set *s)
{
    for (uint32_t i = 0; i < SET; i++)
        give(s->address[i], s->queue[i]);
}

/* Two random blocks of a queue are freed and taken again, each in the other's size. */
static void turn_over(struct set *s, uint32_t turns, uint32_t queues)
{
    for (uint32_t n = 0; n < turns; n++) {
        uint32_t i = rnd(s, SET - 2 * queues), j = i + queues * (1 + rnd(s, (SET - 1 - i) / queues));
        uint64_t size = s->size[i];
        give(s->address[i], s->queue[i]);
        give(s->address[j], s->queue[j]);
        s->size[i] = s->size[j];
        s->size[j] = size;
        s->address[i] = take(s->queue[i], s->size[i]);
        s->address[j] = take(s->queue[j], s->size[j]);
    }
}

static void begin(uint32_t queues)
{
    uint32_t queue;
    struct vs_arena_config config = {.capacity = 192ull << 30};
    counters = (struct vs_backing_count){0};
    struct vs_backing b = vs_backing_of_counters(&counters, 2 * MIB);
    if (vs_arena_create(&arena, &b, &config) != 0)
        exit(1);
    for (uint32_t i = 0; i < queues; i++)
        vs_arena_open_queue(arena, i, 0, &queue);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

/* "median [least, most]" */
static void say(double *v, int n, const char *unit)
{
    double middle = median(v, n);
    printf("%9.1f [%.1f, %.1f] %s", middle, v[0], v[n - 1], unit);
}

/* ---- one thread ---- */

static void same_block(int rounds, uint64_t size)
{
    double ns[ROUNDS_MAX];
    begin(1);
    for (int r = 0; r < rounds; r++) {
        uint64_t t = clock_ns(CLOCK_MONOTONIC);
        for (int n = 0; n < PAIRS; n++)
            give(take(1, size), 1);
        ns[r] = (double)(clock_ns(CLOCK_MONOTONIC) - t) / PAIRS;
    }
    printf("one block of %8llu bytes             ", (unsigned long long)size);
    say(ns, rounds, "ns a pair\n");
    vs_arena_destroy(arena);
}

static void working_set(int rounds, uint32_t queues)
{
    static struct set s;
    double ns[ROUNDS_MAX];
    s = (struct set){.random = 1};
    begin(queues);
    fill(&s, queues, 1);
    turn_over(&s, PAIRS, queues);
    uint64_t calls = counters.calls, pairs = 0;
    for (int r = 0; r < rounds; r++) {
        uint64_t t = clock_ns(CLOCK_MONOTONIC);
        turn_over(&s, PAIRS / 4, queues);
        ns[r] = (double)(clock_ns(CLOCK_MONOTONIC) - t) / (PAIRS / 2);
        pairs += PAIRS / 2;
    }
    printf("%d blocks of random sizes, %2u lanes    ", SET, queues);
    say(ns, rounds, "ns a pair");
    printf(", %.2f driver calls per 1000\n", 1000.0 * (double)(counters.calls - calls) / (double)pairs);
    vs_arena_destroy(arena);
}

/* Idle chunks that are apart, and one block out of an alias mapping of them. */
static void out_of_an_alias(int rounds, uint32_t chunks)
{
    double ns[ROUNDS_MAX];
    uint64_t address[2 * 1024], size = (uint64_t)chunks * 2 * MIB;
    begin(1);
    for (uint32_t i = 0; i < 2 * chunks; i++)
        address[i] = take(1, 2 * MIB);
    for (uint32_t i = 0; i < 2 * chunks; i += 2)
        give(address[i], 1);
    give(take(1, size), 1);
    uint64_t calls = counters.calls;
    for (int r = 0; r < rounds; r++) {
        uint64_t t = clock_ns(CLOCK_MONOTONIC);
        for (int n = 0; n < PAIRS / 50; n++)
            give(take(1, size), 1);
        ns[r] = (double)(clock_ns(CLOCK_MONOTONIC) - t) / (PAIRS / 50);
    }
    printf("a view of %4u granules, none adjoining ", chunks);
    say(ns, rounds, "ns a pair");
    printf(", %llu driver calls\n", (unsigned long long)(counters.calls - calls));
    vs_arena_destroy(arena);
}

/* ---- the books ---- */

static double resident_bytes(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void books(const char *what, uint64_t size, uint32_t count)
{
    begin(1);
    double before = resident_bytes();
    for (uint32_t i = 0; i < count; i++)
        take(1, size);
    double after = resident_bytes();
    printf("host memory for %u blocks of %s: %.1f bytes a block\n", count, what, (after - before) / count);
    vs_arena_destroy(arena);
}

/* ---- several threads ---- */

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    struct set set;
    uint32_t queue;
    double wall, cpu;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    fill(&w->set, 1, w->queue);
    turn_over(&w->set, PAIRS / 10, 1);
    pthread_barrier_wait(w->barrier);
    uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    turn_over(&w->set, PAIRS / 10, 1);
    w->wall = (double)(clock_ns(CLOCK_MONOTONIC) - wall) / (PAIRS / 5);
    w->cpu = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) / (PAIRS / 5);
    pthread_barrier_wait(w->barrier);
    empty(&w->set);
    return NULL;
}

static void threads(int rounds, uint32_t count)
{
    static struct worker w[THREADS_MAX];
    double wall[ROUNDS_MAX], cpu[ROUNDS_MAX], all[ROUNDS_MAX];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, count);
    for (int r = 0; r < rounds; r++) {
        double slowest = 0, sum = 0;
        begin(count);
        for (uint32_t i = 0; i < count; i++) {
            w[i] = (struct worker){.barrier = &barrier, .queue = i + 1, .set = {.random = i}};
            pthread_create(&w[i].thread, NULL, work, &w[i]);
        }
        for (uint32_t i = 0; i < count; i++) {
            pthread_join(w[i].thread, NULL);
            slowest = w[i].wall > slowest ? w[i].wall : slowest;
            sum += w[i].cpu;
        }
        wall[r] = slowest;
        cpu[r] = sum / count;
        all[r] = count / slowest * 1000;
        vs_arena_destroy(arena);
    }
    pthread_barrier_destroy(&barrier);
    printf("%2u threads  ", count);
    say(wall, rounds, "ns a pair");
    printf("   %7.1f ns of processor   %6.2f million pairs a second\n", median(cpu, rounds),
           median(all, rounds));
}

/* ---- locks alone ---- */

static struct vs_lock own_lock;
static pthread_mutex_t glibc_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t guarded[8];

/* What a malloc does under the lock costs about as much. */
static void guarded_work(void)
{
    for (int i = 0; i < 40; i++)
        guarded[i % 8] = guarded[(i + 1) % 8] * 6364136223846793005u + 1;
    __asm__ volatile("" : : "r"(guarded) : "memory");
}

struct turner {
    pthread_t thread;
    pthread_barrier_t *barrier;
    bool own;
    uint64_t begin, end;
};

static void *take_turns(void *arg)
{
    struct turner *t = arg;
    pthread_barrier_wait(t->barrier);
    t->begin = clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < PAIRS; i++)
        if (t->own) {
            vs_lock_take(&own_lock);
            guarded_work();
            vs_lock_give(&own_lock);
        } else {
            pthread_mutex_lock(&glibc_lock);
            guarded_work();
            pthread_mutex_unlock(&glibc_lock);
        }
    t->end = clock_ns(CLOCK_MONOTONIC);
    return NULL;
}

/* From the first that begins to the last that ends, by all turns. */
static double lock_turns(bool own, uint32_t count)
{
    struct turner t[THREADS_MAX];
    uint64_t begin = UINT64_MAX, end = 0;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, count);
    for (uint32_t i = 0; i < count; i++) {
        t[i] = (struct turner){.barrier = &barrier, .own = own};
        pthread_create(&t[i].thread, NULL, take_turns, &t[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(t[i].thread, NULL);
        begin = t[i].begin < begin ? t[i].begin : begin;
        end = t[i].end > end ? t[i].end : end;
    }
    pthread_barrier_destroy(&barrier);
    return (double)(end - begin) / PAIRS / count;
}

static void locks(int rounds, uint32_t count)
{
    double own[ROUNDS_MAX], glibc[ROUNDS_MAX];
    for (int r = 0; r < rounds; r++) {
        own[r] = lock_turns(true, count);
        glibc[r] = lock_turns(false, count);
    }
    printf("%2u threads, lock and work:", count);
    say(own, rounds, "ns a turn, arena's;");
    say(glibc, rounds, "ns, glibc's\n");
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 7;
    static const uint32_t counts[] = {1, 2, 4, 8, 16};
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    double load[3] = {0};
    getloadavg(load, 3);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%ld cores, load %.1f, %d rounds\n", sysconf(_SC_NPROCESSORS_ONLN), load[0], rounds);
    same_block(rounds, 4096);
    same_block(rounds, 4 * MIB);
    same_block(rounds, 64 * MIB);
    working_set(rounds, 1);
    working_set(rounds, 10);
    out_of_an_alias(rounds, 16);
    out_of_an_alias(rounds, 256);
    books("512 bytes", 512, 1000000);
    books("2 MiB", 2 * MIB, 90000);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        threads(rounds, counts[i]);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        locks(rounds, counts[i]);
    return 0;
}
