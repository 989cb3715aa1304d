/* test_arena_away.c - what a closed arena promises, all of which can be away (arena.h), one promise each. */
#include <sys/wait.h>
#include <unistd.h>

#include "away_steps.h"

TEST(of_a_closed_arena_everything_goes_and_comes_back)
{
    uint64_t gap[16], block[3];
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0), own = queue_of(2, VS_QUEUE_PRIVATE);
    make_gaps(one, G, 16, gap);
    block[0] = take_own(one, 8 * G); /* an alias mapping of the gaps */
    assert_int_equal(stats().alias_hits + stats().aliased, 8);
    block[1] = take_own(own, 2 * G + 512);
    block[2] = take_own(VS_ARENA_ANY, 700);
    close_all();
    uint64_t reserved = stats().reserved, mappings = stats().mappings;
    for (uint64_t longest = G; longest <= 64 * G; longest *= 4) {
        assert_int_equal(kit_change_all(&k, longest, kit_send), 0);
        assert_int_equal(stats().reserved + k.chunks + stats().mappings, 0);
        assert_int_equal(stats().away, reserved);
        arena_check(k.arena);
        assert_int_equal(kit_change_all(&k, longest, kit_fetch), 0);
        assert_int_equal(stats().reserved, reserved);
        assert_int_equal(stats().away, 0);
        assert_int_equal(stats().mappings, mappings);
        arena_check(k.arena);
    }
    open_all();
    assert_true(has(block[0], 8 * G, 0) && has(block[1], 2 * G + 512, 1) && has(block[2], 700, 2));
    take(VS_ARENA_ANY, 4 * G);
    done();
}

TEST(a_closed_arena_gives_nothing_out_and_changes_nothing)
{
    uint64_t address = 7;
    begin_away(32, NULL);
    take(VS_ARENA_ANY, G);
    close_all();
    struct vs_arena_stats before = stats();
    uint64_t calls = k.calls;
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 512, &address), VS_BACKING_NOT_READY);
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 9 * G, &address), VS_BACKING_NOT_READY);
    struct vs_arena_stats after = stats();
    assert_int_equal(address, 7);
    assert_int_equal(k.calls, calls);
    assert_memory_equal(&before, &after, sizeof before);
    open_all();
    take(VS_ARENA_ANY, 512);
    done();
}

TEST(closing_gives_back_what_is_idle_but_not_what_graphs_have)
{
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0), own = queue_of(2, VS_QUEUE_PRIVATE);
    take(one, G);
    uint64_t large = take(one, 12 * G), graphs = take_own(own, 3 * G);
    give(large, one);
    kit_disown(&k, graphs, 3 * G, 0, 1 << 2, false);
    assert_int_equal(vs_arena_free(k.arena, graphs, own, 0), 0);
    close_all();
    assert_int_equal(stats().reserved, 4 * G);
    assert_int_equal(stats().idle, 3 * G);
    assert_int_equal(kit_change_all(&k, 64 * G, kit_send), 0);
    assert_int_equal(stats().away, 4 * G);
    assert_int_equal(stats().idle, 0); /* of what is reserved */
    assert_int_equal(kit_change_all(&k, 64 * G, kit_fetch), 0);
    assert_int_equal(stats().idle, 3 * G);
    open_all();
    assert_int_equal(take(own, 3 * G), graphs);
    done();
}

TEST(an_arena_opens_only_when_nothing_is_away)
{
    struct vs_arena_run run;
    uint64_t at = 0;
    begin_away(16, NULL);
    assert_int_equal(vs_arena_open(k.arena), VS_BACKING_INVALID); /* it is */
    take_own(VS_ARENA_ANY, 2 * G);
    close_all();
    assert_int_equal(vs_arena_close(k.arena), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_all_runs(k.arena, &at, G, &run, 1), 1);
    assert_int_equal(kit_send(&k, run), 0);
    assert_int_equal(vs_arena_open(k.arena), VS_BACKING_INVALID);
    assert_true(vs_arena_closed(k.arena));
    assert_int_equal(kit_fetch(&k, run), 0);
    open_all();
    done();
}

TEST(no_arena_closes_while_others_hold_a_block_or_frees_are_under_way)
{
    begin_away(32, NULL);
    uint32_t one = queue_of(1, 0);
    uint64_t pinned = take(one, G), doomed = take(one, G);
    assert_int_equal(vs_arena_pin(k.arena, pinned), 0);
    assert_int_equal(vs_arena_close(k.arena), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_unpin(k.arena, pinned), 0);
    k.freed++;
    assert_int_equal(vs_arena_free(k.arena, doomed, one, VS_FREE_DEFER | VS_FREE_NO_WAIT), 0);
    k.capturing = true;
    assert_int_equal(vs_arena_close(k.arena), VS_BACKING_NOT_READY);
    assert_false(vs_arena_closed(k.arena));
    k.capturing = false;
    assert_int_equal(vs_arena_close(k.arena), 0);
    assert_int_equal(stats().deferred, 0);
    assert_int_equal(stats().reserved, G);
    done();
}

static uint64_t to_free[4];
static int freed;

/* Another thread's, while the device is waited for. */
static int free_meanwhile(void *context)
{
    k.freed++;
    assert_int_equal(vs_arena_free(k.arena, to_free[freed++], 0, VS_FREE_DEFER | VS_FREE_NO_WAIT), 0);
    return kit_synchronize(context);
}

TEST(no_arena_closes_as_long_as_frees_come)
{
    begin_away(32, NULL);
    for (int i = 0; i < 4; i++)
        to_free[i] = take(VS_ARENA_ANY, 512);
    freed = 0;
    k.arena->backing.synchronize = free_meanwhile;
    assert_int_equal(vs_arena_close(k.arena), VS_BACKING_NOT_READY);
    assert_int_equal(freed, 4);
    assert_true(stats().deferred > 0);
    k.arena->backing.synchronize = kit_synchronize;
    assert_int_equal(vs_arena_close(k.arena), 0);
    done();
}

TEST(in_a_closed_arena_no_block_is_pinned_exported_or_leaves)
{
    uint64_t handle;
    begin_away(32, NULL);
    uint64_t block = take(VS_ARENA_ANY, G);
    assert_int_equal(vs_arena_handles(k.arena, block, 0, &handle, 1).handles, 1);
    close_all();
    assert_int_equal(vs_arena_pin(k.arena, block), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_leave(k.arena, block, G), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_handles(k.arena, block, 0, &handle, 1).handles, 0);
    open_all();
    assert_int_equal(vs_arena_pin(k.arena, block), 0);
    done();
}

/* Frees go on, also those that wait; what becomes idle by them while it is away comes back all the same. */
TEST(what_is_freed_while_it_is_away_comes_back_idle)
{
    uint64_t gap[16];
    struct vs_arena_config config = {.trim_above = G, .trim_window = 16};
    begin_away(64, &config);
    uint32_t one = queue_of(1, 0);
    make_gaps(one, G, 16, gap);
    uint64_t alias = take(one, 8 * G), plain = take(one, 3 * G);
    close_all();
    uint64_t reserved = stats().reserved;
    assert_int_equal(kit_change_all(&k, 64 * G, kit_send), 0);
    uint64_t calls = k.driver_calls, wanted = k.arena->wanted;
    uint32_t looks = k.arena->surplus.looks;
    give(alias, one);
    k.freed++;
    assert_int_equal(vs_arena_free(k.arena, plain, one, VS_FREE_DEFER), 0);
    kit_wait(&k);
    assert_int_equal(stats().blocks, 8);
    assert_int_equal(vs_arena_trim(k.arena, 0), VS_BACKING_NOT_READY);
    assert_int_equal(k.driver_calls, calls); /* nothing was given back, nor looked for */
    assert_int_equal(k.arena->surplus.looks, looks);
    assert_int_equal(k.arena->wanted, wanted);
    arena_check(k.arena);
    assert_int_equal(kit_change_all(&k, 64 * G, kit_fetch), 0);
    assert_int_equal(stats().reserved, reserved);
    assert_int_equal(stats().idle, 11 * G);
    open_all();
    assert_int_equal(take(one, 8 * G), alias); /* its mapping was not given up */
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().reserved, 16 * G);
    done();
}

static int close_meanwhile(void *context)
{
    k.arena->backing.synchronize = kit_synchronize;
    close_all();
    return kit_synchronize(context);
}

TEST(a_request_that_waited_while_the_arena_was_closed_gets_nothing)
{
    uint64_t address;
    begin_away(32, NULL);
    k.lag = 100;
    uint32_t one = queue_of(1, 0);
    give(take(one, 8 * G), one);
    k.arena->backing.synchronize = close_meanwhile; /* as without a stream the host waits, outside the lock */
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 8 * G, &address), VS_BACKING_NOT_READY);
    assert_true(vs_arena_closed(k.arena));
    assert_int_equal(stats().allocated, 0);
    open_all();
    done();
}

TEST(peaks_are_of_what_was_there)
{
    begin_away(64, NULL);
    uint64_t block = take(VS_ARENA_ANY, 4 * G);
    take(VS_ARENA_ANY, 4 * G);
    give(block, VS_ARENA_ANY);
    close_all();
    assert_int_equal(kit_change_all(&k, 2 * G, kit_send), 0);
    assert_int_equal(stats().high_reserved, 8 * G);
    vs_arena_high_from_now(k.arena, VS_HIGH_RESERVED);
    assert_int_equal(stats().high_reserved, 0);
    assert_int_equal(kit_change_all(&k, 2 * G, kit_fetch), 0);
    assert_int_equal(stats().peak_reserved, 8 * G);
    assert_int_equal(stats().high_reserved, 4 * G);
    open_all();
    done();
}

TEST(an_arena_ends_with_chunks_that_are_away)
{
    uint64_t gap[8];
    begin_away(64, NULL);
    make_gaps(VS_ARENA_ANY, G, 8, gap);
    take_own(VS_ARENA_ANY, 4 * G);
    close_all();
    struct vs_arena_run runs[8];
    uint64_t at = 0;
    uint32_t count = vs_arena_all_runs(k.arena, &at, G, runs, 8);
    for (uint32_t i = 0; i < count; i += 2) /* half of an alias mapping is mapped */
        assert_int_equal(kit_send(&k, runs[i]), 0);
    assert_int_equal(k.chunks, 4);
    done(); /* nothing is unmapped twice, and all is released */
}

TEST(of_a_plain_arena_everything_goes_and_comes_back)
{
    struct vs_arena_config config = {.plain = true};
    begin_away(32, &config);
    uint32_t one = queue_of(1, 0);
    uint64_t first = take_own(one, 3 * G), second = take_own(VS_ARENA_ANY, 2 * G);
    close_all();
    assert_int_equal(kit_change_all(&k, 2 * G, kit_send), 0);
    assert_int_equal(k.chunks, 0);
    assert_int_equal(kit_change_all(&k, 2 * G, kit_fetch), 0);
    open_all();
    assert_true(has(first, 3 * G, 0) && has(second, 2 * G, 1));
    done();
}

TEST(blocks_of_a_queue_that_was_retired_while_closed_come_back)
{
    begin_away(32, NULL);
    uint32_t own = queue_of(1, VS_QUEUE_PRIVATE);
    uint64_t block = take_own(own, 3 * G);
    close_all();
    assert_int_equal(kit_change_all(&k, 8 * G, kit_send), 0);
    vs_arena_retire_queue(k.arena, own);
    for (uint64_t stream = 2; stream < 2 + VS_ARENA_QUEUES; stream++) { /* until its queue is asked for */
        uint32_t queue;
        vs_arena_open_queue(k.arena, stream, VS_QUEUE_PRIVATE, &queue);
    }
    arena_check(k.arena);
    assert_int_equal(kit_change_all(&k, 8 * G, kit_fetch), 0);
    open_all();
    assert_true(has(block, 3 * G, 0));
    done();
}

TEST(a_child_of_fork_finds_nothing_closed_and_nothing_to_send)
{
    begin_away(32, NULL);
    uint64_t block = take(VS_ARENA_ANY, G);
    close_all();
    pid_t child = fork();
    if (child == 0) {
        struct vs_arena_run run = {block, G};
        uint64_t at = 0;
        bool right = !vs_arena_closed(k.arena) && vs_arena_close(k.arena) == VS_BACKING_NOT_INITIALIZED &&
                     vs_arena_open(k.arena) == VS_BACKING_NOT_INITIALIZED &&
                     vs_arena_send(k.arena, run) == VS_BACKING_NOT_INITIALIZED &&
                     vs_arena_fetch(k.arena, run) == VS_BACKING_NOT_INITIALIZED &&
                     vs_arena_leave(k.arena, block, G) == VS_BACKING_NOT_INITIALIZED &&
                     vs_arena_return(k.arena, block) == VS_BACKING_NOT_INITIALIZED &&
                     vs_arena_all_runs(k.arena, &at, G, &run, 1) == 0 &&
                     vs_arena_block_runs(k.arena, block, &run, 1) == 0;
        _exit(!right);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(vs_arena_closed(k.arena));
    done();
}
