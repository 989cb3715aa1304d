/*
 * test_arena_lock.c - the arena's lock: one holder at a time, nobody sleeps for ever, and a fork ends it all.
 *
 * A test that hangs has failed: an alarm ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit/test.h"
#include "arena/core/backing.h"
#include "arena/core/internal.h"

#define THREADS 8
#define ROUNDS  40000

static struct vs_lock lock;
static uint64_t counter; /* guarded by the lock */
static uint64_t errors;
static uint64_t turns[THREADS];

static void *count_up(void *arg)
{
    uint64_t *mine = arg;
    uint32_t random = (uint32_t)(mine - turns) * 77 + 1;
    for (int i = 0; i < ROUNDS; i++) {
        errno = 42;
        vs_lock_take(&lock);
        uint64_t was = counter;
        random = random * 1664525 + 1013904223;
        if (random >> 20 == 7)
            usleep(50); /* long enough for all others to go to sleep */
        counter = was + 1;
        ++*mine;
        vs_lock_give(&lock);
        if (errno != 42 && random >> 20 != 7)
            __atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

TEST(many_threads_take_turns_and_none_sleeps_for_ever)
{
    pthread_t thread[THREADS];
    alarm(60);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, count_up, &turns[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    alarm(0);
    assert_int_equal(counter, THREADS * ROUNDS);
    assert_int_equal(errors, 0);
    assert_int_equal(lock.state, 0); /* no sleeper is counted that is not there */
    assert_true(lock.wakes > 0);     /* some did sleep */
}

static void *take_and_give(void *arg)
{
    vs_lock_take(arg);
    vs_lock_give(arg);
    return NULL;
}

TEST(all_that_sleep_while_it_is_held_long_get_it)
{
    struct vs_lock l = {.state = 0};
    pthread_t thread[THREADS];
    alarm(60);
    vs_lock_take(&l);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &l), 0);
    while (__atomic_load_n(&l.state, __ATOMIC_RELAXED) != VS_LOCK_HELD + THREADS * VS_LOCK_SLEEPER)
        usleep(1000);
    vs_lock_give(&l);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    alarm(0);
    assert_int_equal(l.state, 0);
    assert_in_range(l.wakes, 1, THREADS);
}

TEST(one_thread_makes_no_system_call)
{
    struct vs_lock l = {.state = 0};
    for (int i = 0; i < 1000; i++)
        take_and_give(&l);
    assert_int_equal(l.wakes, 0);
    assert_int_equal(l.state, 0);
}

/* ---- fork ---- */

static struct vs_backing_count counts;
static int (*count_create)(void *context, uint64_t size, uint64_t *handle);
static struct vs_arena *arena;

static void make_arena(int (*create)(void *context, uint64_t size, uint64_t *handle))
{
    struct vs_backing b = vs_backing_of_counters(&counts, 2u << 20);
    struct vs_arena_config config = {.capacity = 1ull << 30};
    count_create = b.create;
    b.create = create ? create : b.create;
    assert_int_equal(vs_arena_create(&arena, &b, &config), 0);
}

/* What the functions do in a child; 0: all as it should be. */
static int look_in_child(uint64_t address)
{
    struct vs_arena_block block;
    struct vs_arena_stats stats;
    uint64_t other;
    alarm(60);
    if (vs_arena_malloc(arena, 0, 512, &other) != VS_BACKING_NOT_INITIALIZED)
        return 1;
    if (vs_arena_find(arena, address, &block))
        return 2;
    if (vs_arena_free(arena, address, 0, 0) != VS_BACKING_NOT_INITIALIZED)
        return 3;
    vs_arena_stats(arena, &stats);
    if (stats.blocks || vs_arena_trim(arena, 0) != VS_BACKING_NOT_INITIALIZED)
        return 4;
    vs_arena_destroy(arena);
    return 0;
}

static int status_of(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

TEST(a_child_does_not_wait_for_a_thread_that_it_does_not_have)
{
    uint64_t address;
    make_arena(NULL);
    assert_int_equal(vs_arena_malloc(arena, 0, 4096, &address), 0);
    vs_lock_take(&arena->gate.lock); /* as another thread may, at the moment of the fork */
    pid_t child = fork();
    if (child == 0)
        _exit(look_in_child(address));
    vs_lock_give(&arena->gate.lock);
    assert_int_equal(status_of(child), 0);
    assert_int_equal(vs_arena_free(arena, address, 0, 0), 0); /* the parent's goes on */
    vs_arena_destroy(arena);
}

static pid_t forked;

static int create_and_fork(void *context, uint64_t size, uint64_t *handle)
{
    forked = fork();
    return count_create(context, size, handle);
}

TEST(a_child_forked_inside_of_it_comes_out_of_it)
{
    uint64_t address = 0;
    make_arena(create_and_fork);
    alarm(60);
    int status = vs_arena_malloc(arena, 0, 4096, &address);
    if (forked == 0)
        _exit(status != 0 ? 10 : look_in_child(address));
    alarm(0);
    assert_int_equal(status, 0);
    assert_int_equal(status_of(forked), 0);
    assert_int_equal(vs_arena_free(arena, address, 0, 0), 0);
    vs_arena_destroy(arena);
}
