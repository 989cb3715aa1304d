/*
 * test_arena_threads.c - threads on one arena: every byte has one owner at a time.
 *
 * Each thread marks every 512 bytes that it gets with its number by compare-and-swap: a byte that two own at
 * once is found, and under the thread sanitizer any access of the arena's books without the lock.  Meanwhile
 * one more thread sends memory away and fetches it.
 */
#include <pthread.h>
#include <sched.h>

#include "unit/test.h"
#include "arena/core/arena.h"
#include "arena/core/backing.h"
#include "arena_check.h"

#define THREADS 6
#define BLOCKS  40
#define ROUNDS  6000
#define G       (64u << 10)
#define BASE    0x700000000000ull
#define UNITS   (1u << 22)

static struct vs_arena *arena;
static uint8_t *owner; /* by unit of the first windows */
static uint64_t wrong;

struct worker {
    pthread_t thread;
    uint32_t queue;
    uint64_t random;
};

static void own(uint64_t address, uint64_t size, uint8_t from, uint8_t to)
{
    uint64_t first = (address - BASE) / VS_ARENA_UNIT, end = first + kit_rounded(size) / VS_ARENA_UNIT;
    for (uint64_t u = first; u < end && u < UNITS; u++) {
        uint8_t was = from;
        /* relaxed: the arena's lock orders what one thread frees and another gets */
        if (!__atomic_compare_exchange_n(&owner[u], &was, to, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    }
}

static uint32_t rnd(struct worker *w, uint32_t below)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % below;
}

static uint32_t working; /* threads that ask for memory */

static bool move_all(int (*how)(struct vs_arena *, struct vs_arena_run))
{
    struct vs_arena_run run;
    uint64_t at = 0;
    bool all = true;
    while (all && vs_arena_all_runs(arena, &at, 8 * G, &run, 1))
        all = how(arena, run) == 0;
    return all;
}

/* Sends away and fetches a block of its own, and all there is, until nobody works any more. */
static void *move(void *arg)
{
    struct vs_arena_run run;
    uint64_t address;
    bool at_work = true, right = true;
    for (*(uint32_t *)arg = 0; at_work || !*(uint32_t *)arg; sched_yield()) {
        at_work = __atomic_load_n(&working, __ATOMIC_RELAXED);
        if (vs_arena_malloc(arena, VS_ARENA_ANY, 3 * G, &address) == 0) {
            right &= vs_arena_leave(arena, address, 3 * G) == 0;
            bool sent = vs_arena_block_runs(arena, address, &run, 1) && vs_arena_send(arena, run) == 0;
            while (sent && vs_arena_fetch(arena, run) == VS_BACKING_OUT_OF_MEMORY) /* others have it */
                sched_yield();
            right &= vs_arena_return(arena, address) == 0;
            right &= vs_arena_free(arena, address, VS_ARENA_ANY, 0) == 0;
        }
        if (vs_arena_close(arena) == 0) {
            right &= move_all(vs_arena_send) && move_all(vs_arena_fetch) && vs_arena_open(arena) == 0;
            ++*(uint32_t *)arg;
        }
    }
    if (!right)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct {
        uint64_t address, size;
        uint32_t queue;
    } block[BLOCKS] = {{0, 0, 0}};
    for (int n = 0; n < ROUNDS; n++) {
        uint32_t i = rnd(w, BLOCKS);
        if (block[i].size) {
            own(block[i].address, block[i].size, (uint8_t)w->queue, 0);
            if (vs_arena_free(arena, block[i].address, block[i].queue, 0) != 0)
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
            block[i].size = 0;
            continue;
        }
        uint64_t size = rnd(w, 3) ? 1 + rnd(w, 4 * G) : 1 + rnd(w, 4096);
        uint32_t queue = rnd(w, 8) ? w->queue : 1 + rnd(w, THREADS);
        if (vs_arena_malloc(arena, queue, size, &block[i].address) != 0)
            continue; /* closed, or full */
        block[i].size = size;
        block[i].queue = queue;
        own(block[i].address, size, 0, (uint8_t)w->queue);
    }
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (block[i].size) {
            own(block[i].address, block[i].size, (uint8_t)w->queue, 0);
            vs_arena_free(arena, block[i].address, block[i].queue, 0);
        }
    __atomic_fetch_sub(&working, 1, __ATOMIC_RELAXED);
    return NULL;
}

TEST(no_byte_has_two_owners)
{
    struct vs_backing_count c = {.capacity = 500};
    struct vs_backing b = vs_backing_of_counters(&c, G);
    struct vs_arena_config config = {.capacity = 500 * G, .small = 4096};
    struct worker w[THREADS];
    struct vs_arena_stats s;
    pthread_t mover;
    uint32_t closed;
    owner = calloc(UNITS, 1);
    assert_int_equal(vs_arena_create(&arena, &b, &config), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.random = i};
        assert_int_equal(vs_arena_open_queue(arena, i, 0, &w[i].queue), 0);
    }
    working = THREADS;
    assert_int_equal(pthread_create(&mover, NULL, move, &closed), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
    pthread_join(mover, NULL);
    assert_true(closed > 0);
    vs_arena_stats(arena, &s);
    assert_int_equal(wrong, 0);
    assert_int_equal(s.allocated, 0);
    assert_true(s.aliased > 0);
    arena_check(arena);
    vs_arena_destroy(arena);
    assert_int_equal(c.chunks, 0);
    free(owner);
}
