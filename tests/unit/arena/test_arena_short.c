/*
 * test_arena_short.c - what the arena promises of memory that is short and of what it gives back, asked and
 * unasked, one promise each.
 */
#include "away_steps.h"

/* ---- out of memory ---- */

TEST(before_an_error_everything_idle_is_given_back)
{
    uint64_t address;
    begin(20);
    uint64_t block = take(VS_ARENA_ANY, 4 * G), idle = take(VS_ARENA_ANY, 10 * G);
    give(idle, VS_ARENA_ANY);
    assert_int_equal(stats().reserved, 14 * G);
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 17 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(stats().reserved, 4 * G);
    assert_int_equal(stats().allocated, 4 * G);
    assert_int_equal(stats().peak_allocated, 14 * G); /* what was refused was never live */
    give(block, VS_ARENA_ANY);
    take(VS_ARENA_ANY, 17 * G);
    end();
}

static uint32_t waits, waits_alone;

static int watched_synchronize(void *context)
{
    waits++;
    if (vs_lock_try(&k.arena->gate.lock))
        vs_lock_give(&k.arena->gate.lock);
    else
        waits_alone++;
    return kit_synchronize(context);
}

/* Eight chunks, idle once the stream's work is done, which it is only when it is waited for. */
static void begin_with_a_pending_free(void)
{
    begin(32);
    k.lag = 100;
    k.arena->backing.synchronize = watched_synchronize;
    waits = waits_alone = 0;
    uint32_t one = queue_of(1, 0);
    give(take(one, 8 * G), one);
}

/* What the device waits for may need the arena itself. */
TEST(a_request_without_a_stream_waits_without_the_lock)
{
    begin_with_a_pending_free();
    take(VS_ARENA_ANY, 8 * G); /* rather than that twice as much as ever lived were held */
    assert_int_equal(waits, 1);
    assert_int_equal(waits_alone, 0);
    assert_int_equal(stats().reserved, 8 * G);
    end();
}

/* And then what is missing is created. */
TEST(a_wait_that_fails_is_tried_once)
{
    begin_with_a_pending_free();
    k.capturing = true;
    take(VS_ARENA_ANY, 8 * G);
    k.capturing = false;
    assert_int_equal(waits, 1);
    assert_int_equal(stats().reserved, 16 * G);
    end();
}

TEST(what_does_not_fit_is_refused_without_a_try)
{
    uint64_t address;
    begin(64);
    take(VS_ARENA_ANY, 8 * G);
    uint64_t calls = k.driver_calls;
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 57 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(k.driver_calls, calls);
    take(VS_ARENA_ANY, 56 * G);
    end();
}

/* What is tried before an error, the cheapest first: nothing of it while a cheaper thing is enough. */
TEST(a_full_device_is_answered_step_by_step)
{
    struct vs_arena_config config = {.slack = 1000,
                                     .wait_slack = 1000}; /* until it is full, more is created */
    uint64_t b[16], address;
    kit_begin(&k, 28, &config);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    make_gaps(one, G, 16, b); /* idle: 8, apart, and visible to queue one alone */
    take(two, 12 * G);
    assert_int_equal(stats().reserved, 28 * G);
    take(one, 4 * G); /* as an alias mapping of what it may use */
    assert_int_equal(stats().stream_waits + stats().host_waits + stats().released, 0);
    take(two, 2 * G); /* what the other's stream has to be waited for */
    assert_int_equal(stats().stream_waits, 1);
    assert_int_equal(stats().host_waits + stats().released, 0);
    take(VS_ARENA_ANY, G); /* without a stream: the host waits */
    assert_true(stats().host_waits > 0);
    assert_int_equal(stats().released, 0);
    uint32_t own = queue_of(3, VS_QUEUE_PRIVATE);
    take(own, G); /* shares with nobody: what is idle is given back, and created for it */
    assert_int_equal(stats().released, 1);
    uint64_t host_waits = stats().host_waits;
    assert_int_equal(vs_arena_malloc(k.arena, one, G, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_true(stats().host_waits > host_waits);
    assert_int_equal(stats().idle, 0);
    end();
}

/* An answer costs a millisecond under a limit.  Other processes' memory comes and goes, so it does not hold
 * for long; what is given back ends it. */
TEST(with_a_headroom_what_does_not_fit_is_asked_of_the_driver_now_and_then)
{
    uint64_t address;
    begin_away(20, &(struct vs_arena_config){.headroom = 4 * G});
    uint64_t small = take(VS_ARENA_ANY, 2 * G), block = take(VS_ARENA_ANY, 14 * G), asked = k.rooms;
    for (int i = 0; i < 60; i++)
        assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 2 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_true(k.rooms - asked >= 10 && k.rooms - asked <= 20);
    k.capacity += 10; /* others gave it back */
    for (int i = 0; i < 20 && vs_arena_malloc(k.arena, VS_ARENA_ANY, 2 * G, &address) != 0; i++)
        ;
    give(address, VS_ARENA_ANY);
    give(small, VS_ARENA_ANY);
    vs_arena_trim(k.arena, 0);
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 13 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    give(block, VS_ARENA_ANY);
    vs_arena_trim(k.arena, 0);
    take(VS_ARENA_ANY, 13 * G);
    vs_arena_headroom(k.arena, 0); /* the last word is the driver's */
    take(VS_ARENA_ANY, 17 * G);
    done();
}

TEST(small_blocks_get_the_chunks_of_large_ones)
{
    uint64_t b[8];
    begin(8);
    make_gaps(VS_ARENA_ANY, G, 8, b);
    take(VS_ARENA_ANY, 512);
    assert_true(stats().reserved <= 8 * G);
    end();
}

/* On a full device where no chunk is idle. */
TEST(a_small_request_takes_from_the_heap_of_the_large_before_it_fails)
{
    uint64_t b[8];
    begin(5);
    for (int i = 0; i < 8; i++)
        b[i] = take(VS_ARENA_ANY, G / 2 + 512);
    give(b[1], VS_ARENA_ANY);
    assert_int_equal(stats().idle, 0);
    assert_int_equal(take(VS_ARENA_ANY, 512), b[1]);
    end();
}

/* Blocks of whole chunks, behind one that is none: between two that live, each leaves all it took. */
TEST(behind_an_odd_block_even_ones_lie_on_chunks_of_their_own)
{
    uint64_t b[6];
    begin(160 + 6 * 4);
    uint32_t one = queue_of(1, 0);
    take(one, 160 * G - VS_ARENA_UNIT);
    for (int i = 0; i < 6; i++)
        b[i] = take(one, 4 * G);
    for (int i = 0; i < 6; i += 2)
        give(b[i], one);
    take(one, 12 * G); /* of a device on which nothing else is free */
    assert_int_equal(stats().idle, 0);
    end();
}

TEST(the_error_is_the_one_that_the_call_gave)
{
    uint64_t address;
    begin(8);
    take(VS_ARENA_ANY, G);
    k.fail_with = KIT_ERROR;
    k.fail_at = k.calls + 1;
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 3 * G, &address), KIT_ERROR);
    arena_check(k.arena);
    take(VS_ARENA_ANY, 3 * G);
    kit_end(&k);
}

/* ---- away ---- */

/* Another process took the memory meanwhile. */
TEST(a_fetch_without_memory_changes_nothing)
{
    begin_away(32, NULL);
    uint64_t block = take_own(VS_ARENA_ANY, 12 * G);
    leave(block, 12 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    for (k.capacity = 1; k.capacity < 12; k.capacity += 5) { /* few are tried, many asked for */
        assert_int_equal(kit_change_block(&k, block, kit_fetch), VS_BACKING_OUT_OF_MEMORY);
        assert_int_equal(k.chunks, 0);
        assert_int_equal(stats().away, 12 * G);
        arena_check(k.arena);
    }
    k.capacity = 12;
    assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_true(has(block, 12 * G, 0));
    done();
}

TEST(before_a_fetch_fails_what_is_idle_goes)
{
    begin_away(16, NULL);
    uint64_t block = take_own(VS_ARENA_ANY, 10 * G);
    leave(block, 10 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    k.arena->wanted = 24 * G; /* it may hold so much */
    give(take(VS_ARENA_ANY, 14 * G), VS_ARENA_ANY);
    assert_int_equal(stats().idle, 14 * G);
    assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
    assert_int_equal(stats().idle, 0);
    done();
}

/* What a block left behind others get; it comes back once they are gone. */
TEST(what_is_away_leaves_its_room_to_others)
{
    uint64_t address;
    begin_away(16, NULL);
    uint64_t block = take_own(VS_ARENA_ANY, 10 * G);
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, 14 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    leave(block, 10 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    address = take(VS_ARENA_ANY, 14 * G);
    assert_int_equal(stats().peak_allocated, 24 * G);
    assert_int_equal(stats().peak_reserved, 14 * G);
    assert_int_equal(kit_change_block(&k, block, kit_fetch), VS_BACKING_OUT_OF_MEMORY);
    give(address, VS_ARENA_ANY);
    assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_true(has(block, 10 * G, 0));
    done();
}

/* ---- giving back unasked ---- */

static void begin_trimming(uint32_t window)
{
    struct vs_arena_config config = {.trim_above = 16 * G, .trim_window = window};
    kit_begin(&k, 400, &config);
}

static void turn(uint64_t times, uint32_t queue)
{
    for (uint64_t i = 0; i < times; i++)
        give(take(queue, G), queue);
}

TEST(memory_that_was_idle_for_long_is_given_back_above_the_threshold)
{
    uint64_t b[200];
    begin_trimming(1600);
    for (int i = 0; i < 200; i++)
        b[i] = take(VS_ARENA_ANY, G);
    for (int i = 0; i < 200; i++)
        give(b[i], VS_ARENA_ANY);
    turn(1000, VS_ARENA_ANY);
    assert_int_equal(stats().reserved, 200 * G); /* not long yet */
    turn(3000, VS_ARENA_ANY);
    assert_in_range(stats().reserved, 16 * G, 17 * G);
    uint64_t calls = k.driver_calls;
    turn(10000, VS_ARENA_ANY);
    assert_int_equal(k.driver_calls, calls);
    end();
}

/* A loop whose idle memory swings far above the threshold, and that is longer than a window. */
TEST(a_loop_is_not_given_back_what_it_needs_again)
{
    uint64_t b[200], calls = 0, after = 0;
    begin_trimming(160);
    for (int step = 0; step < 40; step++) {
        calls = k.driver_calls;
        for (int i = 0; i < 200; i++)
            b[i] = take(VS_ARENA_ANY, G);
        for (int i = 0; i < 200; i++)
            give(b[i], VS_ARENA_ANY);
        turn(800, VS_ARENA_ANY);
        after += step >= 8 ? k.driver_calls - calls : 0;
    }
    assert_true(stats().released > 0); /* it was tried */
    assert_int_equal(after, 0);
    assert_int_equal(stats().reserved, 200 * G);
    end();
}

TEST(nothing_is_given_back_where_that_is_not_wanted)
{
    struct vs_arena_config config = {.trim_above = UINT64_MAX, .trim_window = 16};
    kit_begin(&k, 400, &config);
    give(take(VS_ARENA_ANY, 200 * G), VS_ARENA_ANY);
    turn(1000, VS_ARENA_ANY);
    assert_int_equal(stats().released, 0);
    end();
}

TEST(what_one_stream_freed_is_given_back_only_when_its_work_is_done)
{
    uint64_t address;
    begin_trimming(160);
    uint32_t one = queue_of(1, 0);
    k.lag = 100;
    address = take(one, 200 * G);
    kit_own(&k, address, 200 * G, 0, 1);
    kit_disown(&k, address, 200 * G, 0, 1 << 1, false);
    assert_int_equal(vs_arena_free(k.arena, address, one, 0), 0);
    for (int round = 0; round < 2; round++) {
        turn(1000, VS_ARENA_ANY);
        assert_int_equal(stats().reserved < 200 * G, round);
        k.lag = 0;
    }
    end();
}

TEST(deferred_frees_do_not_pile_up)
{
    struct vs_arena_config config = {.defer_bytes = 8 * G};
    kit_begin(&k, 300, &config);
    k.lag = 1000; /* else nobody has to wait */
    for (int i = 0; i < 3000; i++) {
        uint64_t block = take(VS_ARENA_ANY, i % 2 ? 1000 : G / 2);
        k.freed++;
        assert_int_equal(vs_arena_free(k.arena, block, VS_ARENA_ANY, VS_FREE_DEFER), 0);
    }
    assert_true(stats().peak_reserved < 12 * G);
    assert_true(stats().host_waits > 10 && stats().host_waits < 800);
    end();
}

TEST(a_trim_shortens_what_a_live_alias_does_not_need)
{
    uint64_t b[16];
    begin(64);
    make_gaps(VS_ARENA_ANY, G, 16, b);
    give(take(VS_ARENA_ANY, 8 * G), VS_ARENA_ANY);
    uint64_t alias = take(VS_ARENA_ANY, 5 * G);
    assert_int_equal(stats().alias_hits, 1);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().reserved, 13 * G);
    kit_own(&k, alias, 5 * G, 1, 0);
    end();
}

TEST(after_a_trim_what_lived_before_it_allows_nothing)
{
    uint64_t b[64];
    begin(256);
    give(take(VS_ARENA_ANY, 200 * G), VS_ARENA_ANY);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().reserved, 0);
    make_gaps(VS_ARENA_ANY, G, 64, b); /* 32 live, 32 idle between them */
    take(VS_ARENA_ANY, 20 * G);
    assert_int_equal(stats().reserved, 64 * G); /* an alias mapping of what is idle: 200 were long ago */
    assert_int_equal(stats().peak_allocated, 200 * G);
    end();
}
