/*
 * test_arena.c - what the arena promises of heaps, alias mappings and the order of streams, one promise each.
 */
#include "arena_steps.h"

/* ---- heaps ---- */

TEST(blocks_begin_at_multiples_of_512_and_keep_their_size)
{
    static const uint64_t sizes[] = {0, 1, 511, 512, 513, 1024, 1025, G, G + 1, 3 * G - 1};
    begin(32);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct vs_arena_block b;
        uint64_t address = take(VS_ARENA_ANY, sizes[i]);
        assert_int_equal(address % 512, 0);
        if (sizes[i]) {
            assert_true(vs_arena_find(k.arena, address + sizes[i] - 1, &b));
            assert_int_equal(b.size, sizes[i]);
            assert_int_equal(b.address, address);
        }
        assert_false(vs_arena_find(k.arena, address + sizes[i], &b) && b.address == address);
    }
    end();
}

TEST(small_blocks_share_a_chunk)
{
    begin(32);
    for (int i = 0; i < 8; i++)
        take(VS_ARENA_ANY, 512);
    assert_int_equal(stats().reserved, G);
    end();
}

TEST(the_smallest_free_extent_that_fits_is_taken_and_the_lowest_of_equals)
{
    begin(64);
    uint64_t b[9];
    static const uint64_t units[] = {8, 3, 12, 3, 9, 3, 9, 3, 20};
    for (int i = 0; i < 9; i++)
        b[i] = take(VS_ARENA_ANY, units[i] * 512);
    for (int i = 0; i < 9; i += 2)
        give(b[i], VS_ARENA_ANY);
    assert_int_equal(take(VS_ARENA_ANY, 9 * 512), b[4]);
    assert_int_equal(take(VS_ARENA_ANY, 9 * 512), b[6]);
    assert_int_equal(take(VS_ARENA_ANY, 9 * 512), b[2]);
    end();
}

TEST(neighbouring_free_extents_become_one)
{
    begin(64);
    uint64_t b[4];
    for (int i = 0; i < 4; i++)
        b[i] = take(VS_ARENA_ANY, G);
    give(b[0], VS_ARENA_ANY);
    give(b[2], VS_ARENA_ANY);
    give(b[1], VS_ARENA_ANY);
    assert_int_equal(take(VS_ARENA_ANY, 3 * G), b[0]);
    assert_int_equal(stats().reserved, 4 * G);
    end();
}

TEST(a_heap_that_grows_uses_the_free_extent_at_its_top)
{
    begin(64);
    uint64_t first = take(VS_ARENA_ANY, G + 512);
    assert_int_equal(take(VS_ARENA_ANY, 2 * G), first + G + 512);
    assert_int_equal(stats().reserved, 4 * G);
    end();
}

/* ---- alias mappings ---- */

TEST(idle_chunks_that_are_apart_serve_a_large_block)
{
    uint64_t b[16];
    begin(64);
    make_gaps(VS_ARENA_ANY, G, 16, b);
    uint64_t calls = k.driver_calls, alias = take(VS_ARENA_ANY, 5 * G - 512);
    assert_int_equal(stats().reserved, 16 * G);
    assert_int_equal(stats().aliased, 5);
    assert_int_equal(k.driver_calls - calls, 6); /* five maps, one access */
    kit_own(&k, alias, 5 * G - 512, 1, 0);
    arena_check(k.arena);
    end();
}

TEST(an_alias_serves_again_without_a_call)
{
    uint64_t b[16];
    begin(64);
    make_gaps(VS_ARENA_ANY, G, 16, b);
    uint64_t alias = take(VS_ARENA_ANY, 6 * G);
    give(alias, VS_ARENA_ANY);
    uint64_t calls = k.calls;
    assert_int_equal(take(VS_ARENA_ANY, 4 * G), alias);
    assert_int_equal(k.calls, calls);
    assert_int_equal(stats().alias_hits, 1);
    end();
}

/* Those of the upper heap places stay free to grow together again. */
TEST(an_alias_is_made_of_the_lowest_idle_chunks)
{
    begin(32);
    uint64_t block[8], handle[8], of_alias[2];
    for (int i = 0; i < 8; i++) {
        block[i] = take(VS_ARENA_ANY, G);
        assert_int_equal(vs_arena_handles(k.arena, block[i], 0, &handle[i], 1).handles, 1);
    }
    for (int i = 6; i >= 0; i -= 2)
        give(block[i], VS_ARENA_ANY);
    uint64_t alias = take(VS_ARENA_ANY, 2 * G);
    assert_int_equal(vs_arena_handles(k.arena, alias, 0, of_alias, 2).handles, 2);
    assert_int_equal(of_alias[0], handle[0]);
    assert_int_equal(of_alias[1], handle[2]);
    end();
}

TEST(a_free_extent_under_a_live_alias_is_no_free_extent)
{
    uint64_t b[16];
    begin(16);
    make_gaps(VS_ARENA_ANY, G, 16, b);
    take(VS_ARENA_ANY, 8 * G); /* all that is idle */
    uint64_t address;
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, G, &address), VS_BACKING_OUT_OF_MEMORY);
    end();
}

TEST(a_loop_that_repeats_itself_needs_no_call)
{
    static uint64_t live[64];
    uint64_t before = 0, after = 0;
    begin(400);
    memset(live, 0, sizeof live);
    for (int pass = 0; pass < 12; pass++) {
        k.random = 77; /* the same choices each time */
        before = k.calls;
        for (int n = 0; n < 3000; n++) {
            uint32_t i = kit_random(&k, 64), size = 1 + kit_random(&k, 9 * G);
            if (live[i])
                give(live[i], VS_ARENA_ANY);
            live[i] = live[i] ? 0 : take(VS_ARENA_ANY, size);
        }
        for (int i = 0; i < 64; i++) {
            if (live[i])
                give(live[i], VS_ARENA_ANY);
            live[i] = 0;
        }
        after = k.calls;
    }
    assert_true(stats().aliased > 0);
    assert_int_equal(after, before);
    end();
}

TEST(where_addresses_are_scarce_aliases_do_with_fewer)
{
    uint64_t b[16];
    begin(64);
    k.most_places = k.arena->heap[ALIASES].limit / 2;
    make_gaps(VS_ARENA_ANY, G, 16, b);
    take(VS_ARENA_ANY, 8 * G);
    assert_int_equal(k.aliases, 8);
    end();
}

TEST(there_may_be_any_number_of_alias_sizes)
{
    struct vs_backing_count c = {0};
    struct vs_backing b = vs_backing_of_counters(&c, G);
    struct vs_arena_config config = {.capacity = 2000 * G, .small = 1024, .slack = 1};
    struct vs_arena *a;
    struct vs_arena_stats s;
    static uint64_t block[1400];
    assert_int_equal(vs_arena_create(&a, &b, &config), 0);
    for (int i = 0; i < 1400; i++)
        assert_int_equal(vs_arena_malloc(a, VS_ARENA_ANY, G, &block[i]), 0);
    for (int i = 0; i < 1400; i += 2)
        assert_int_equal(vs_arena_free(a, block[i], VS_ARENA_ANY, 0), 0);
    for (uint64_t n = 2; n < 700; n++) {
        uint64_t address;
        assert_int_equal(vs_arena_malloc(a, VS_ARENA_ANY, n * G, &address), 0);
        assert_int_equal(vs_arena_free(a, address, VS_ARENA_ANY, 0), 0);
    }
    vs_arena_stats(a, &s);
    assert_int_equal(s.aliases, 698);
    assert_int_equal(s.reserved, 1400 * G);
    arena_check(a);
    vs_arena_destroy(a);
    assert_int_equal(c.chunks, 0);
}

TEST(mappings_stay_under_their_limit)
{
    struct vs_arena_config config = {.max_mappings = 64};
    uint64_t b[32];
    kit_begin(&k, 40, &config);
    make_gaps(VS_ARENA_ANY, G, 32, b);
    for (uint64_t n = 2; n <= 16; n++) {
        give(take(VS_ARENA_ANY, n * G), VS_ARENA_ANY);
        assert_true(stats().mappings <= 64);
    }
    assert_true(stats().evicted > 0);
    end();
}

TEST(every_mapping_gets_the_peers)
{
    uint64_t b[16];
    begin(64);
    make_gaps(VS_ARENA_ANY, G, 8, b);
    take(VS_ARENA_ANY, 4 * G); /* an alias mapping */
    assert_int_equal(vs_arena_set_peers(k.arena, 6), 0);
    make_gaps(VS_ARENA_ANY, G, 16, b);
    take(VS_ARENA_ANY, 7 * G);
    for (uint64_t p = 0; p < k.next_place; p++)
        if (k.place[p].handle)
            assert_int_equal(k.place[p].peers, 6);
    assert_int_equal(k.aliases, 11);
    end();
}

/* ---- order ---- */

TEST(another_stream_gets_memory_only_when_the_free_is_complete)
{
    begin(8);
    k.lag = 100; /* nothing is ever reached by itself */
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    uint64_t first = take(one, 8 * G), second;
    give(first, one);
    assert_int_equal(take(one, 8 * G), first); /* its own stream: at once */
    give(first, one);
    k.capturing = true; /* nothing can be waited for */
    assert_int_equal(vs_arena_malloc(k.arena, two, 4 * G, &second), VS_BACKING_OUT_OF_MEMORY);
    k.capturing = false;
    assert_int_equal(vs_arena_malloc(k.arena, two, 4 * G, &second), 0);
    assert_int_equal(stats().reserved, 8 * G);
    assert_int_equal(stats().stream_waits + stats().host_waits, 1);
    end();
}

TEST(what_the_caller_waited_for_is_complete_for_all)
{
    begin(8);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    give(take(one, 8 * G), one);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    take(two, 8 * G);
    assert_int_equal(stats().stream_waits + stats().host_waits, 0);
    end();
}

TEST(a_free_is_not_covered_by_a_ticket_that_is_older)
{
    begin(8);
    k.lag = 100;
    k.capturing = true;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    uint64_t first = take(one, 8 * G), ticket = vs_arena_ticket(k.arena), second;
    give(first, one);
    vs_arena_synchronized(k.arena, ticket);
    assert_int_equal(vs_arena_malloc(k.arena, two, G, &second), VS_BACKING_OUT_OF_MEMORY);
    end();
}

TEST(a_deferred_free_waits_for_the_device)
{
    begin(8);
    k.capturing = true;
    uint64_t block = take(VS_ARENA_ANY, 8 * G), again;
    assert_int_equal(vs_arena_free(k.arena, block, VS_ARENA_ANY, VS_FREE_DEFER), 0);
    assert_int_equal(stats().allocated, 0);
    assert_int_equal(stats().deferred, 8 * G);
    assert_int_equal(vs_arena_free(k.arena, block, VS_ARENA_ANY, 0), VS_BACKING_INVALID); /* twice */
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, G, &again), VS_BACKING_OUT_OF_MEMORY);
    k.capturing = false;
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, G, &again), 0);
    assert_int_equal(again, block);
    assert_int_equal(stats().deferred, 0);
    end();
}

TEST(a_block_that_another_stream_uses_waits_for_it)
{
    begin(8);
    k.capturing = true;
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    uint64_t block = take(one, 8 * G), again;
    assert_int_equal(vs_arena_use(k.arena, block, two), 0);
    give(block, one);
    assert_int_equal(vs_arena_malloc(k.arena, one, G, &again), VS_BACKING_OUT_OF_MEMORY);
    k.capturing = false;
    k.lag = 0;
    assert_int_equal(take(one, 8 * G), block);
    end();
}

TEST(a_pinned_block_is_not_reused_before_the_last_unpin)
{
    uint64_t again;
    begin(8);
    uint64_t block = take(VS_ARENA_ANY, 8 * G);
    assert_int_equal(vs_arena_unpin(k.arena, block), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_pin(k.arena, block), 0);
    assert_int_equal(vs_arena_pin(k.arena, block), 0);
    give(block, VS_ARENA_ANY);
    assert_int_equal(vs_arena_pin(k.arena, block), VS_BACKING_INVALID); /* it is nobody's any more */
    assert_int_equal(vs_arena_unpin(k.arena, block), 0);
    assert_int_equal(vs_arena_malloc(k.arena, VS_ARENA_ANY, G, &again), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(vs_arena_unpin(k.arena, block), 0);
    assert_int_equal(take(VS_ARENA_ANY, 8 * G), block);
    end();
}

/* What an alias mapping used last: its own queue goes on, another waits. */
TEST(an_alias_of_what_others_freed_is_used_after_a_wait)
{
    uint64_t b[16];
    begin(24);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    make_gaps(one, G, 16, b);
    take(two, 8 * G);
    assert_int_equal(k.aliases, 8);
    assert_int_equal(stats().reserved, 16 * G);
    assert_int_equal(stats().stream_waits, 1);
    end();
}

/* The second stream needs half of the alias mapping, and waits for that half only: the other one may still be
 * in use.
 */
TEST(an_alias_that_one_stream_freed_serves_another_and_goes_when_both_are_done)
{
    uint64_t b[16];
    begin(24);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    make_gaps(one, G, 16, b);
    uint64_t alias = take(one, 8 * G), calls = k.driver_calls;
    give(alias, one);
    assert_int_equal(take(two, 4 * G), alias);
    assert_int_equal(k.driver_calls, calls);
    assert_int_equal(stats().alias_hits, 1);
    assert_int_equal(stats().stream_waits, 1);
    give(alias, two);
    vs_order_done(k.arena, two, k.arena->seq_now);
    assert_false(vs_alias_complete(k.arena, &k.arena->alias[0]));
    vs_order_done(k.arena, one, k.arena->seq_now);
    assert_true(vs_alias_complete(k.arena, &k.arena->alias[0]));
    end();
}

/* Bytes, not chunks: the other stream's block lies between the first one's. */
TEST(another_stream_gets_a_free_extent_below_a_chunk_after_a_wait)
{
    uint64_t b[4];
    begin(8);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    for (int i = 0; i < 4; i++)
        b[i] = take(one, G / 2);
    kit_own(&k, b[1], G / 2, 1, 1);
    kit_disown(&k, b[1], G / 2, 1, 1 << 1, false);
    assert_int_equal(vs_arena_free(k.arena, b[1], one, 0), 0);
    assert_int_equal(take(two, G / 2), b[1]);
    kit_own(&k, b[1], G / 2, 2, 2); /* checks that the wait was for enough */
    assert_int_equal(stats().stream_waits, 1);
    assert_int_equal(stats().reserved, 2 * G);
    end();
}

TEST(where_no_stream_may_wait_only_what_is_complete_is_used)
{
    struct vs_arena_config config = {.no_stream_waits = true};
    uint64_t b[2], again;
    kit_begin(&k, 64, &config);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    b[0] = take(one, 4 * G), b[1] = take(one, G);
    give(b[0], one);
    again = take(two, 4 * G);
    assert_true(again != b[0]);
    assert_int_equal(stats().stream_waits + stats().host_waits, 0);
    assert_int_equal(stats().reserved, 9 * G);
    give(again, two);
    vs_arena_synchronized(k.arena, vs_arena_ticket(k.arena));
    assert_int_equal(take(two, 4 * G) % G, 0);
    take(two, 4 * G); /* the first one's, complete by now */
    assert_int_equal(stats().stream_waits + stats().host_waits, 0);
    assert_int_equal(stats().reserved, 9 * G);
    end();
}

TEST(where_no_stream_may_wait_nothing_is_mapped_for_nothing)
{
    struct vs_arena_config config = {.no_stream_waits = true};
    uint64_t b[16];
    kit_begin(&k, 64, &config);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    make_gaps(one, G, 16, b);
    take(two, 6 * G); /* of none of the eight that the first one freed */
    assert_int_equal(k.aliases, 0);
    assert_int_equal(stats().reserved, 22 * G);
    assert_int_equal(stats().stream_waits + stats().host_waits, 0);
    take(one, 6 * G);
    assert_int_equal(k.aliases, 6);
    end();
}

TEST(a_free_extent_is_left_to_its_queue_for_some_frees)
{
    struct vs_arena_config config = {.keep_frees = 4};
    uint64_t b[2], other;
    kit_begin(&k, 64, &config);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    b[0] = take(one, 2 * G), b[1] = take(one, G);
    other = take(two, 4 * G), take(two, G);
    give(other, two); /* larger, but its own */
    give(b[0], one);
    other = take(two, 2 * G);
    assert_true(other != b[0]);
    assert_int_equal(stats().stream_waits, 0);
    for (int i = 0; i < 4; i++)
        give(take(two, 512), two);
    assert_int_equal(take(two, 2 * G), b[0]); /* the best fit, by now */
    assert_int_equal(stats().stream_waits, 1);
    end();
}

TEST(free_extents_of_two_streams_serve_one_request)
{
    begin(8);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0), three = queue_of(3, 0);
    uint64_t first = take(one, 3 * G / 2), second = take(two, 5 * G / 2);
    kit_own(&k, first, 3 * G / 2, 1, 1);
    kit_own(&k, second, 5 * G / 2, 2, 2);
    kit_disown(&k, first, 3 * G / 2, 1, 1 << 1, false);
    assert_int_equal(vs_arena_free(k.arena, first, one, 0), 0);
    kit_disown(&k, second, 5 * G / 2, 2, 1 << 2, false);
    assert_int_equal(vs_arena_free(k.arena, second, two, 0), 0);
    assert_int_equal(take(three, 4 * G), first);
    kit_own(&k, first, 4 * G, 3, 3);
    assert_int_equal(stats().stream_waits, 2);
    assert_int_equal(stats().reserved, 4 * G);
    end();
}

/* What may be used is decided by the order of the calls, not by how far the device is. */
TEST(the_device_s_speed_does_not_move_a_block)
{
    uint64_t places[2][200];
    for (int fast = 0; fast < 2; fast++) {
        uint64_t b[20] = {0};
        uint32_t owner[20], queue[4];
        begin(200);
        k.lag = fast ? 0 : 100;
        for (uint32_t i = 0; i < 4; i++)
            queue[i] = queue_of(i + 1, 0);
        uint64_t random = 7;
        for (int i = 0; i < 200; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint32_t slot = (uint32_t)(random >> 33) % 20;
            if (b[slot])
                give(b[slot], owner[slot]);
            owner[slot] = queue[(random >> 40) % 4];
            b[slot] = places[fast][i] = take(owner[slot], 512 + (random >> 45) % (3 * G));
        }
        end();
    }
    assert_memory_equal(places[0], places[1], sizeof places[0]);
}

TEST(without_waits_others_memory_is_left_alone)
{
    begin(16);
    k.lag = 100;
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0);
    uint64_t first = take(one, 4 * G);
    give(first, one);
    k.capturing = true;
    uint64_t second = take(two, 4 * G); /* new ones, which join nothing that is not done */
    assert_true(second != first);
    assert_int_equal(stats().reserved, 8 * G);
    assert_int_equal(stats().stream_waits, 0);
    end();
}
