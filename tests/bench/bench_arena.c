/*
 * bench_arena.c - what a malloc and a free of the arena cost where no call of the driver is needed:
 * bench_arena [rounds]. The backing is counters.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "arena/core/arena.h"
#include "arena/core/backing.h"

#define PAIRS      200000
#define SET        512
#define ROUNDS_MAX 51
#define MIB        (1u << 20)

static struct vs_backing_count counters;
static struct vs_arena *arena;

struct set {
    uint64_t address[SET];
    uint64_t size[SET];
    uint32_t queue[SET];
    uint64_t random;
};

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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

/* "median [least, most]" */
static void say(double *v, int n, const char *unit)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    printf("%9.1f [%.1f, %.1f] %s", v[n / 2], v[0], v[n - 1], unit);
}

static void same_block(int rounds, uint64_t size)
{
    double ns[ROUNDS_MAX];
    begin(1);
    for (int r = 0; r < rounds; r++) {
        uint64_t t = clock_ns();
        for (int n = 0; n < PAIRS; n++)
            give(take(1, size), 1);
        ns[r] = (double)(clock_ns() - t) / PAIRS;
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
        uint64_t t = clock_ns();
        turn_over(&s, PAIRS / 4, queues);
        ns[r] = (double)(clock_ns() - t) / (PAIRS / 2);
        pairs += PAIRS / 2;
    }
    printf("%d blocks of random sizes, %2u lanes    ", SET, queues);
    say(ns, rounds, "ns a pair");
    printf(", %.2f driver calls per 1000\n", 1000.0 * (double)(counters.calls - calls) / (double)pairs);
    vs_arena_destroy(arena);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 7;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    double load[3] = {0};
    getloadavg(load, 3);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%ld cores, load %.1f, %d rounds\n", sysconf(_SC_NPROCESSORS_ONLN), load[0], rounds);
    same_block(rounds, 4096);
    working_set(rounds, 1);
    working_set(rounds, 10);
    return 0;
}
