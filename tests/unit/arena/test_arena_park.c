/*
 * test_arena_park.c - what the arena promises of blocks that are parked (arena.h), one promise each: others
 * have their chunks meanwhile, they come back where they were, and nothing is waited for but on the device.
 */
#include "park_steps.h"

TEST(others_have_the_chunks_of_a_parked_block_and_it_comes_back_where_it_was)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    assert_int_equal(stats().parked, 4 * G);
    assert_int_equal(stats().idle, 4 * G);
    assert_int_equal(stats().allocated, 4 * G);
    uint64_t other = take_one(4 * G);
    assert_int_equal(stats().reserved, 4 * G); /* the same memory */
    assert_int_equal(stats().aliased, 4);
    assert_int_equal(stats().idle, 0);
    arena_check(k.arena);
    assert_true(has(block, 4 * G, 0) && has(other, 4 * G, 1));
    uint64_t calls = k.driver_calls;
    give_own(other, 4 * G, 1, one);
    arena_check(k.arena);
    unpark(block);
    assert_true(has(block, 4 * G, 0));
    assert_int_equal(stats().parked, 0);
    assert_int_equal(stats().reserved, 4 * G);
    assert_int_equal(k.driver_calls, calls);
    done();
}

TEST(only_streams_wait)
{
    begin_park(32, NULL);
    k.lag = 100;
    uint64_t block = take_one(4 * G), waits = stats().stream_waits;
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    assert_int_equal(stats().stream_waits, waits + 1); /* for the copies out */
    give_own(other, 4 * G, 1, one);
    unpark(block);
    assert_int_equal(stats().stream_waits, waits + 2); /* the copies in for stream 1 */
    assert_int_equal(stats().host_waits, 0);
    k.lag = 0;
    done();
}

TEST(an_alias_mapping_over_parked_chunks_serves_again_and_closes_when_they_are_taken_back)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G), calls = 0;
    for (int round = 0; round < 3; round++) {
        park(block, 4 * G);
        uint64_t other = take(one, 4 * G);
        assert_int_equal(stats().alias_hits, round);
        give(other, one);
        unpark(block);
        calls = round ? calls : k.driver_calls;
    }
    assert_int_equal(k.driver_calls, calls);
    assert_int_not_equal(take(one, 4 * G), block);
    assert_int_equal(stats().alias_hits, 2); /* it is the block's again */
    assert_int_equal(stats().reserved, 8 * G);
    done();
}

TEST(no_free_extent_appears_where_a_block_is_parked)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take(one, 4 * G), hits = stats().hits;
    give(other, one);
    uint64_t small = take(one, G / 2 + 512);
    assert_int_equal(stats().hits, hits);
    assert_true(small < block || small >= block + 4 * G);
    arena_check(k.arena);
    done();
}

TEST(a_block_in_an_alias_mapping_is_parked_there)
{
    uint64_t gap[16];
    begin_park(32, NULL);
    make_gaps(one, G, 16, gap);
    uint64_t block = take_one(7 * G + 512);
    assert_int_equal(stats().aliased, 8);
    park(block, 7 * G + 512);
    assert_int_equal(stats().parked, 8 * G);
    uint64_t other = take_one(8 * G);
    assert_int_equal(stats().aliased, 16);
    assert_int_equal(stats().reserved, 16 * G);
    arena_check(k.arena);
    give_own(other, 8 * G, 1, one);
    arena_check(k.arena);
    unpark(block);
    assert_true(has(block, 7 * G + 512, 0));
    give_own(block, 7 * G + 512, 0, one);
    assert_int_equal(stats().idle, 8 * G);
    done();
}

/* Idle are those with parked blocks alone. */
TEST(a_chunk_of_two_blocks_is_parked_while_both_are)
{
    begin_park(32, NULL);
    uint64_t a = take_one(G + G / 2), b = take_one(G + G / 2);
    park(a, G + G / 2);
    assert_int_equal(stats().parked, G);
    park(b, G + G / 2);
    assert_int_equal(stats().parked, 3 * G);
    uint64_t other = take_one(3 * G);
    assert_int_equal(stats().reserved, 3 * G);
    give_own(other, 3 * G, 2, one);
    unpark(a); /* with the chunk of both */
    assert_int_equal(stats().parked, G);
    assert_true(has(a, G + G / 2, 0) && has(b, G + G / 2, 1));
    unpark(b);
    assert_true(has(a, G + G / 2, 0) && has(b, G + G / 2, 1));
    done();
}

#define AWAY(block) vs_arena_block_away(k.arena, block)

TEST(each_block_has_the_bytes_that_are_parked_of_it)
{
    begin_park(32, NULL);
    uint64_t a = take_one(G + G / 2), b = take_one(G + G / 2);
    assert_int_equal(AWAY(a), 0);
    park(a, G + G / 2);
    assert_int_equal(AWAY(a), G); /* the rest lies in a chunk of both */
    park(b, G + G / 2);
    assert_true(AWAY(a) == G + G / 2 && AWAY(b) == G + G / 2);
    assert_int_equal(AWAY(a) + AWAY(b), k.arena->parked_live);
    uint64_t other = take_one(3 * G);
    assert_int_equal(AWAY(other), 0); /* it has their chunks */
    give_own(other, 3 * G, 2, one);
    unpark(a);
    assert_true(AWAY(a) == 0 && AWAY(b) == G);
    unpark(b);
    assert_int_equal(AWAY(b), 0);
    assert_int_equal(AWAY(a + 512), 0); /* no block begins there */
    done();
}

TEST(of_a_chunk_of_two_blocks_the_one_that_returned_is_left_alone)
{
    begin_park(32, NULL);
    uint64_t a = take_one(G + G / 2), b = take_one(G + G / 2);
    park(a, G + G / 2);
    park(b, G + G / 2);
    unpark(a);
    give_own(a, G + G / 2, 0, one);
    own(take(one, G + G / 2), G + G / 2, 1); /* its place again */
    unpark(b);
    assert_true(has(a, G + G / 2, 2) && has(b, G + G / 2, 1));
    done();
}

TEST(a_chunk_in_which_something_else_lies_stays)
{
    begin_park(32, NULL);
    uint64_t below = take_one(G / 2 + 512), block = take_one(3 * G), above = take_one(G);
    park(block, 3 * G);
    assert_int_equal(stats().parked, 2 * G);
    give_own(above, G, 2, one);
    give_own(below, G / 2 + 512, 0, one);
    assert_int_equal(stats().parked, 2 * G);
    unpark(block);
    assert_true(has(block, 3 * G, 1));
    done();
}

TEST(blocks_smaller_than_a_chunk_are_parked_with_the_last_of_them)
{
    uint64_t block[8];
    begin_park(32, NULL);
    for (int i = 0; i < 8; i++)
        block[i] = take_one(G / 4 + 512 * (i % 2)); /* some lie in two chunks */
    uint64_t size = 0;
    for (int i = 0; i < 8; i++)
        park(block[i], G / 4 + 512 * (i % 2));
    size = stats().parked;
    assert_true(size >= G && size <= 3 * G);
    uint64_t other = take_one(2 * G);
    give_own(other, 2 * G, 8, one);
    for (int i = 7; i >= 0; i--)
        unpark(block[i]);
    for (int i = 0; i < 8; i++)
        assert_true(has(block[i], G / 4, (uint32_t)i));
    done();
}

TEST(a_trim_takes_no_parked_chunk)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G), other = take_one(6 * G);
    park(block, 4 * G);
    give_own(other, 6 * G, 1, one);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().reserved, 4 * G);
    assert_int_equal(stats().parked, 4 * G);
    arena_check(k.arena);
    unpark(block);
    assert_true(has(block, 4 * G, 0));
    done();
}

TEST(a_trim_leaves_alias_mappings_of_parked_blocks)
{
    uint64_t gap[16];
    begin_park(32, NULL);
    make_gaps(one, G, 16, gap);
    uint64_t block = take_one(6 * G);
    park(block, 6 * G);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    arena_check(k.arena);
    uint64_t other = take_one(6 * G);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    give_own(other, 6 * G, 1, one);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0); /* nor those that others had over them */
    arena_check(k.arena);
    unpark(block);
    assert_true(has(block, 6 * G, 0));
    done();
}

/* What is parked does not count for how much may be held. */
TEST(what_is_held_is_the_most_that_lived_on_the_device)
{
    begin_park(64, NULL);
    uint64_t block = take_one(8 * G);
    park(block, 8 * G);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(k.arena->wanted, 0);
    uint64_t a = take_one(4 * G), b = take_one(8 * G);
    assert_int_equal(stats().reserved, 12 * G);
    assert_int_equal(stats().allocated, 20 * G);
    assert_int_equal(k.arena->wanted, 12 * G);
    give_own(a, 4 * G, 1, one);
    give_own(b, 8 * G, 2, one);
    unpark(block);
    assert_int_equal(k.arena->wanted, 12 * G);
    uint64_t c = take_one(9 * G); /* with it 17 chunks live here */
    assert_int_equal(k.arena->wanted, 17 * G);
    assert_int_equal(stats().reserved, 17 * G);
    assert_true(has(block, 8 * G, 0) && has(c, 9 * G, 3));
    done();
}

TEST(what_is_taken_back_lives_on_the_device_again)
{
    begin_park(64, NULL);
    uint64_t block = take_one(8 * G);
    park(block, 8 * G);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    unpark(block);
    assert_int_equal(k.arena->wanted, 8 * G);
    done();
}

/* A block of whole chunks begins where one does, if little is lost below: of what is here. */
TEST(what_is_parked_does_not_count_as_lying_in_chunks_in_use)
{
    begin_park(64, NULL);
    uint64_t block = take_one(20 * G), below = take_one(1536), between = take_one(3 * G - 1536);
    take_one(G);
    park(block, 20 * G);
    give_own(between, 3 * G - 1536, 2, one);
    assert_int_equal(take_one(2 * G), below + 1536);
    done();
}

TEST(a_free_of_a_parked_block_is_carried_out_when_it_returns)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    give_own(block, 4 * G, 0, one);
    assert_int_equal(stats().allocated, 4 * G);
    assert_int_equal(stats().deferred, 4 * G);
    arena_check(k.arena);
    assert_true(has(other, 4 * G, 1));
    give_own(other, 4 * G, 1, one);
    assert_int_equal(stats().blocks, 1);
    unpark(block);
    assert_int_equal(stats().blocks, 0);
    assert_int_equal(stats().deferred, 0);
    assert_int_equal(take(one, 4 * G), block);
    done();
}

TEST(what_cannot_be_parked_is_refused)
{
    begin_park(32, NULL);
    struct vs_arena_run back, run;
    uint32_t private = queue_of(3, VS_QUEUE_PRIVATE);
    uint64_t block = take_one(4 * G), graph = take(private, 4 * G);
    assert_int_equal(vs_arena_park(k.arena, block, copy), VS_BACKING_INVALID); /* it is here */
    assert_int_equal(vs_arena_leave(k.arena, block, 4 * G), 0);
    assert_int_equal(vs_arena_leave(k.arena, graph, 4 * G), 0);
    assert_int_equal(vs_arena_park(k.arena, graph, copy), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_park(k.arena, block, 17), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_park(k.arena, block, 1000), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_park(k.arena, block + G, copy), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_unpark(k.arena, block, copy, &back), VS_BACKING_INVALID);
    kit_wait(&k);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){block, G}), 0);
    assert_int_equal(vs_arena_park(k.arena, block, copy), VS_BACKING_INVALID);
    assert_int_equal(kit_fetch(&k, (struct vs_arena_run){block, G}), 0);
    assert_int_equal(kit_park(&k, block, copy), 0);
    assert_int_equal(vs_arena_park(k.arena, block, copy), VS_BACKING_INVALID); /* twice */
    assert_int_equal(vs_arena_return(k.arena, block), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_block_runs(k.arena, block, &run, 1), 0);
    assert_int_equal(vs_arena_send(k.arena, (struct vs_arena_run){block, G}), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_close(k.arena), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_unpark(k.arena, block, 17, &back), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_pin(k.arena, block), VS_BACKING_INVALID);
    unpark(block);
    done();
}

/* The second lies in the first one's chunks, the third in the second one's. */
TEST(blocks_that_lie_in_parked_chunks_are_parked_as_well_and_all_come_back)
{
    begin_park(12, NULL);
    uint64_t first = take_one(4 * G);
    park(first, 4 * G);
    uint64_t second = take_one(4 * G);
    park(second, 4 * G);
    uint64_t third = take_one(4 * G);
    park(third, 4 * G);
    assert_int_equal(stats().reserved, 4 * G);
    assert_int_equal(stats().parked, 12 * G);
    assert_int_equal(stats().idle, 4 * G);
    unpark(first);
    unpark(third);
    unpark(second);
    assert_int_equal(stats().parked, 0);
    assert_true(has(first, 4 * G, 0) && has(second, 4 * G, 1) && has(third, 4 * G, 2));
    assert_int_equal(stats().reserved, 12 * G);
    done();
}

TEST(a_block_in_parked_chunks_does_not_go_away_for_good)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    assert_int_equal(vs_arena_leave(k.arena, other, 4 * G), 0);
    assert_int_equal(vs_arena_send(k.arena, (struct vs_arena_run){other, 4 * G}), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_return(k.arena, other), 0);
    give_own(other, 4 * G, 1, one);
    unpark(block);
    done();
}

TEST(a_small_block_has_a_parked_chunk_where_nothing_else_is_left)
{
    begin_park(4, NULL);
    uint64_t block = take_one(4 * G), small;
    assert_int_equal(vs_arena_malloc(k.arena, one, 512, &small), VS_BACKING_OUT_OF_MEMORY);
    park(block, 4 * G);
    small = take_one(512);
    assert_int_equal(stats().idle, 3 * G);
    give_own(small, 512, 1, one);
    unpark(block);
    assert_true(has(block, 4 * G, 0));
    done();
}

TEST(large_blocks_leave_the_headroom_to_small_ones)
{
    uint64_t address;
    begin_park(8, &(struct vs_arena_config){.headroom = 3 * G});
    take(one, 5 * G);
    assert_int_equal(vs_arena_malloc(k.arena, one, 2 * G, &address), VS_BACKING_OUT_OF_MEMORY);
    take(one, 512);
    vs_arena_headroom(k.arena, 0);
    take(one, 2 * G);
    done();
}

/* Its caller sends nothing for it: what is idle once the device is done is all that it can get. */
TEST(a_private_queue_waits_for_the_device_whatever_the_headroom)
{
    begin_park(8, &(struct vs_arena_config){.headroom = G});
    k.lag = 100;
    uint32_t private = queue_of(3, VS_QUEUE_PRIVATE);
    give(take(one, 6 * G), one);
    give(take(private, 6 * G), private);
    done();
}

/* What lies at home is freed while a block in an alias mapping has the chunk parked: others come there. */
TEST(a_chunk_that_is_parked_in_an_alias_mapping_serves_its_heap)
{
    begin_park(12, NULL);
    uint64_t home = take_one(4 * G);
    park(home, 4 * G);
    uint64_t aliased = take_one(4 * G);
    park(aliased, 4 * G);
    unpark(home);
    give_own(home, 4 * G, 0, one);
    uint64_t other = take_one(4 * G);
    assert_int_equal(stats().reserved, 4 * G);
    unpark(aliased);
    assert_true(has(aliased, 4 * G, 1) && has(other, 4 * G, 2));
    give_own(aliased, 4 * G, 1, one);
    give_own(other, 4 * G, 2, one);
    assert_int_equal(stats().idle, 8 * G);
    done();
}

TEST(memory_that_is_mapped_once_is_not_parked)
{
    begin_park(32, &(struct vs_arena_config){.plain = true});
    uint64_t block = take_one(4 * G);
    assert_int_equal(vs_arena_leave(k.arena, block, 4 * G), 0);
    assert_int_equal(vs_arena_park(k.arena, block, copy), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    done();
}

TEST(where_no_stream_can_be_made_to_wait_the_host_does_and_else_the_block_stays_parked)
{
    begin_park(32, NULL);
    struct vs_arena_run back;
    uint64_t block = take_one(4 * G);
    k.lag = 100;
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    give_own(other, 4 * G, 1, one);
    k.capturing = true;
    assert_int_equal(vs_arena_unpark(k.arena, block, copy, &back), VS_BACKING_NOT_READY);
    assert_int_equal(stats().parked, 4 * G);
    arena_check(k.arena);
    k.capturing = false;
    assert_int_equal(kit_unpark(&k, block, VS_ARENA_ANY, 0), 0); /* it has no stream */
    assert_int_equal(stats().host_waits, 1);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_true(has(block, 4 * G, 0));
    k.lag = 0;
    done();
}

TEST(peers_are_granted_while_parked)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    assert_int_equal(vs_arena_set_peers(k.arena, 5), 0);
    kit_check_mapped(&k);
    give_own(other, 4 * G, 1, one);
    unpark(block);
    done();
}

TEST(the_copying_stream_may_be_gone_meanwhile)
{
    begin_park(32, NULL);
    k.lag = 100;
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    vs_arena_retire_queue(k.arena, copy);
    k.ended[COPY] = k.freed + 1;
    uint64_t other = take_one(4 * G);
    give_own(other, 4 * G, 1, one);
    copy = queue_of(10, 0);
    unpark(block);
    assert_true(has(block, 4 * G, 0));
    k.lag = 0;
    done();
}

TEST(an_arena_may_end_while_blocks_are_parked)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    take_one(2 * G);
    done();
}

TEST(a_private_queue_does_not_get_a_heap_with_parked_chunks_of_alias_mappings)
{
    begin_park(64, NULL);
    uint32_t private = queue_of(3, VS_QUEUE_PRIVATE);
    uint64_t below = take(private, 2 * G), gap = take(private, 2 * G), above = take(private, 2 * G);
    give(gap, private);
    kit_wait(&k);
    vs_arena_retire_queue(k.arena, private);
    k.ended[3] = k.freed + 1;
    kit_wait(&k);
    uint64_t block = take_one(2 * G); /* of the chunks between, in an alias mapping */
    assert_int_equal(stats().aliased, 2);
    park(block, 2 * G);
    assert_int_equal(vs_trim_aliases(k.arena, private), VS_BACKING_NOT_READY);
    unpark(block);
    assert_true(has(block, 2 * G, 0));
    give(below, VS_ARENA_ANY);
    give(above, VS_ARENA_ANY);
    done();
}
