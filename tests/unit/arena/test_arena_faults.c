/*
 * test_arena_faults.c - every call that can fail fails once, at every place of a run, and nothing comes of
 * it.
 *
 * A run that goes through all that the arena does is played once for each call of the backing in it, that
 * call failing, and once for each piece of memory that the books ask for, that being refused.  Each time only
 * the request that needed it may fail; the books are right after every step; the run goes on.
 */

#include "unit/test.h"
#include "park_kit.h"

#define G      KIT_CHUNK
#define BLOCKS 64
#define COPY   3 /* the stream that copies what is parked */

static struct kit k;
static struct {
    uint64_t address, size;
    uint32_t stream;
} block[BLOCKS];
static uint32_t queue[4];
static int refused, last_error;

static void take(uint32_t i, uint32_t stream, uint64_t size)
{
    uint64_t address;
    if (stream && !queue[stream] && vs_arena_open_queue(k.arena, stream, 0, &queue[stream]) != 0)
        return;
    int status = vs_arena_malloc(k.arena, queue[stream], size, &address);
    if (status != 0) {
        refused++;
        last_error = status;
        return;
    }
    kit_own(&k, address, kit_rounded(size), i, stream);
    block[i].address = address;
    block[i].size = size;
    block[i].stream = stream;
}

static void give(uint32_t i, unsigned flags)
{
    uint32_t s = block[i].stream;
    if (!block[i].size)
        return;
    kit_disown(&k, block[i].address, kit_rounded(block[i].size), i, 1ull << s & ~1ull, flags != 0);
    KIT_CHECK(vs_arena_free(k.arena, block[i].address, queue[s], flags) == 0);
    block[i].size = 0;
}

static void fill(uint32_t stream)
{
    for (uint32_t i = 0; i < 20; i++)
        take(i, stream, i % 3 ? G : 700);
    arena_check(k.arena);
    for (uint32_t i = 0; i < 20; i += 2)
        give(i, 0);
}

/* What failed once goes the second time. */
static void fetch_all(void)
{
    if (kit_change_all(&k, 5 * G, kit_fetch) != 0)
        KIT_CHECK(kit_change_all(&k, 5 * G, kit_fetch) == 0);
}

static void close_and_open(void)
{
    kit_wait(&k);
    if (vs_arena_close(k.arena) != 0)
        return;
    kit_change_all(&k, 5 * G, kit_send);
    arena_check(k.arena);
    fetch_all();
    KIT_CHECK(vs_arena_open(k.arena) == 0);
    arena_check(k.arena);
}

static void leave_and_return(uint32_t i)
{
    uint64_t address = block[i].address;
    kit_wait(&k);
    if (!block[i].size)
        return;
    KIT_CHECK(vs_arena_leave(k.arena, address, block[i].size) == 0);
    kit_change_block(&k, address, kit_send);
    arena_check(k.arena);
    if (kit_change_block(&k, address, kit_fetch) != 0)
        KIT_CHECK(kit_change_block(&k, address, kit_fetch) == 0);
    KIT_CHECK(vs_arena_return(k.arena, address) == 0);
}

static void the_run(void)
{
    fill(1);
    take(30, 1, 4 * G); /* an alias mapping */
    arena_check(k.arena);
    give(30, 0);
    take(31, 2, 5 * G); /* of another stream */
    arena_check(k.arena);
    give(31, VS_FREE_DEFER);
    take(32, 0, 3 * G);
    take(33, 2, 6 * G);
    arena_check(k.arena);
    leave_and_return(33);
    close_and_open();
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (i % 4)
            give(i, 0);
    vs_arena_set_peers(k.arena, 2);
    vs_arena_trim(k.arena, 4 * G);
    arena_check(k.arena);
    fill(2);
    take(40, 2, 60 * G); /* more than there is */
    arena_check(k.arena);
    take(41, 1, 12 * G);
    take(42, 0, 9 * G);
    arena_check(k.arena);
}

static bool park(uint32_t i)
{
    if (!block[i].size || (!queue[COPY] && vs_arena_open_queue(k.arena, COPY, 0, &queue[COPY]) != 0))
        return false;
    KIT_CHECK(vs_arena_leave(k.arena, block[i].address, block[i].size) == 0);
    KIT_CHECK(kit_park(&k, block[i].address, queue[COPY]) == 0);
    arena_check(k.arena);
    return true;
}

/* What failed once goes the second time. */
static void unpark(uint32_t i)
{
    uint64_t users = 1ull << block[i].stream;
    if (kit_unpark(&k, block[i].address, queue[COPY], users) != 0) {
        KIT_CHECK(k.faults_seen || k.arena->meta.fail_after == 0);
        arena_check(k.arena);
        KIT_CHECK(kit_unpark(&k, block[i].address, queue[COPY], users) == 0);
    }
    KIT_CHECK(vs_arena_return(k.arena, block[i].address) == 0);
    arena_check(k.arena);
}

static void the_parked_run(void)
{
    fill(1);
    take(30, 1, 4 * G); /* an alias mapping */
    take(31, 1, 6 * G);
    bool alias = park(30), heap = park(31);
    take(32, 2, 9 * G);
    give(32, 0);
    take(33, 1, 4 * G); /* over both of them */
    take(34, 2, 5 * G);
    arena_check(k.arena);
    if (heap)
        unpark(31);
    if (alias)
        unpark(30);
    take(35, 2, 3 * G);
    give(33, 0);
    give(34, 0);
    arena_check(k.arena);
    take(36, 2, 60 * G); /* more than there is */
    take(37, 2, 9 * G);
    arena_check(k.arena);
}

static void finish(void)
{
    k.fail_at = 0;
    k.arena->meta.fail_after = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        give(i, 0);
    KIT_CHECK(vs_arena_trim(k.arena, 0) == 0);
    arena_check(k.arena);
    KIT_CHECK(k.arena->stats.allocated == 0 && k.arena->stats.deferred == 0);
    KIT_CHECK(k.chunks == 0 || k.unmap_failed || k.arena->stats.lost);
    kit_end(&k);
}

static void start(void)
{
    kit_begin(&k, 40, NULL);
    k.lag = 50;
    memset(block, 0, sizeof block);
    memset(queue, 0, sizeof queue);
    refused = last_error = 0;
}

static void every_call_may_fail_once(int with, void (*run)(void))
{
    uint64_t calls;
    start();
    run();
    calls = k.calls;
    assert_int_equal(refused, 1);
    finish();
    for (uint64_t at = 1; at <= calls; at++) {
        start();
        k.fail_at = at;
        k.fail_with = with;
        run();
        KIT_CHECK(refused <= 3 || k.unmap_failed);
        finish();
    }
    printf("%llu calls\n", (unsigned long long)calls);
    assert_true(calls > 100);
}

TEST(a_call_that_runs_out_of_memory_harms_nothing)
{
    every_call_may_fail_once(VS_BACKING_OUT_OF_MEMORY, the_run);
    every_call_may_fail_once(VS_BACKING_OUT_OF_MEMORY, the_parked_run);
}

TEST(a_call_that_fails_harms_nothing)
{
    every_call_may_fail_once(KIT_ERROR, the_run);
    every_call_may_fail_once(KIT_ERROR, the_parked_run);
}

static void books_may_get_no_memory(void (*run)(void))
{
    uint64_t at = 1;
    for (bool reached = true; reached; at++) {
        start();
        k.arena->meta.fail_after = at;
        run();
        reached = k.arena->meta.fail_after == 0;
        KIT_CHECK(refused <= 3);
        KIT_CHECK(refused == 0 || last_error == VS_BACKING_OUT_OF_MEMORY);
        finish();
    }
    printf("%llu requests\n", (unsigned long long)at);
    assert_true(at > 20);
}

TEST(books_that_get_no_memory_harm_nothing)
{
    books_may_get_no_memory(the_run);
    books_may_get_no_memory(the_parked_run);
}
