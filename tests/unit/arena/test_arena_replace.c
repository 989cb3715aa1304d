/*
 * test_arena_replace.c - what the arena promises where another block is alive in a parked one's chunks when
 * it comes back: both have what stood in them, at their addresses, and what is held hardly grows.
 */
#include "park_steps.h"

static uint64_t gap[16];

/* Blocks that lie apart, so that the next one has an alias mapping. */
static uint64_t take_in_alias(uint64_t size)
{
    make_gaps(one, G, 16, gap);
    return take_one(size);
}

/* It comes back to a block of SIZE bytes, the I-th, that lies in its chunks and stays. */
static void unpark_beside(uint64_t block, uint64_t size, uint64_t other, uint64_t other_size, uint32_t i)
{
    uint64_t parked = stats().parked, replaced = stats().replaced;
    unpark(block);
    assert_true(parked > 0 && stats().replaced > replaced);
    assert_true(has(block, size, 0) && has(other, other_size, i));
}

TEST(a_block_in_a_heap_gets_new_chunks_at_its_addresses)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G), mappings = stats().mappings;
    unpark_beside(block, 4 * G, other, 4 * G, 1);
    assert_int_equal(stats().reserved, 8 * G); /* both live */
    assert_int_equal(stats().replaced, 4);
    assert_int_equal(stats().mappings, mappings + 4);
    give_own(other, 4 * G, 1, one);
    give_own(block, 4 * G, 0, one);
    assert_int_equal(stats().idle, 8 * G);
    done();
}

TEST(a_block_in_an_alias_mapping_gets_new_chunks_there)
{
    begin_park(32, NULL);
    uint64_t block = take_in_alias(7 * G + 512);
    park(block, 7 * G + 512);
    uint64_t other = take_one(8 * G), mappings = stats().mappings;
    unpark_beside(block, 7 * G + 512, other, 8 * G, 1);
    assert_int_equal(stats().reserved, 24 * G);
    assert_int_equal(stats().replaced, 8);
    assert_int_equal(stats().mappings, mappings + 8);
    give_own(other, 8 * G, 1, one);
    give_own(block, 7 * G + 512, 0, one);
    assert_int_equal(stats().idle, 16 * G);
    done();
}

TEST(idle_chunks_come_before_new_ones)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G), idle = take_one(3 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    give_own(idle, 3 * G, 1, one);
    unpark_beside(block, 4 * G, other, 4 * G, 2);
    assert_int_equal(stats().reserved, 8 * G);
    assert_int_equal(stats().idle, 0);
    done();
}

TEST(chunks_of_another_parked_block_do_not_come)
{
    begin_park(32, NULL);
    uint64_t a = take_one(4 * G), b = take_one(4 * G);
    park(a, 4 * G);
    park(b, 4 * G);
    uint64_t other = take_one(4 * G); /* over the first one's */
    unpark_beside(a, 4 * G, other, 4 * G, 2);
    assert_int_equal(stats().reserved, 12 * G);
    unpark(b);
    assert_true(has(a, 4 * G, 0) && has(b, 4 * G, 1) && has(other, 4 * G, 2));
    done();
}

TEST(chunks_of_a_private_queue_do_not_come)
{
    begin_park(32, NULL);
    uint32_t private = queue_of(3, VS_QUEUE_PRIVATE);
    give(take(private, 4 * G), private);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    unpark_beside(block, 4 * G, other, 4 * G, 1);
    assert_int_equal(stats().reserved, 12 * G);
    assert_int_equal(stats().idle, 4 * G);
    done();
}

TEST(only_those_are_replaced_in_which_something_lies)
{
    begin_park(32, NULL);
    uint64_t block = take_one(6 * G);
    park(block, 6 * G);
    uint64_t a = take_one(2 * G), b = take_one(2 * G);
    give_own(a, 2 * G, 1, one);
    unpark_beside(block, 6 * G, b, 2 * G, 2);
    assert_int_equal(stats().replaced, 2);
    assert_int_equal(stats().reserved, 8 * G);
    done();
}

/* Also of a block of which the alias mapping has more chunks than it needs: none of them may come twice. */
TEST(chunks_that_an_alias_mapping_has_already_do_not_come_into_it)
{
    begin_park(64, NULL);
    uint64_t longer = take_in_alias(8 * G);
    give_own(longer, 8 * G, 0, one);
    uint64_t block = take_one(3 * G + 512); /* the first four of eight */
    assert_int_equal(block, longer);
    assert_int_equal(stats().aliased, 8);
    park(block, 3 * G + 512);
    uint64_t other = take_one(4 * G);
    assert_int_equal(kit_unpark(&k, block, copy, 1 << 1), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    arena_check(k.arena);
    assert_true(has(block, 3 * G + 512, 1) && has(other, 4 * G, 2));
    done();
}

TEST(alias_mappings_of_replaced_chunks_serve_on)
{
    begin_park(64, NULL);
    uint64_t block = take_one(6 * G);
    park(block, 6 * G);
    uint64_t two = take_one(2 * G), four = take_one(4 * G); /* alias mappings */
    give_own(two, 2 * G, 1, one);
    give_own(four, 4 * G, 2, one);
    uint64_t six = take_one(6 * G);
    unpark_beside(block, 6 * G, six, 6 * G, 3);
    give_own(six, 6 * G, 3, one);
    uint64_t calls = k.driver_calls;
    assert_int_equal(take_one(2 * G), two);
    assert_int_equal(take_one(4 * G), four);
    assert_int_equal(k.driver_calls, calls);
    assert_true(has(two, 2 * G, 4) && has(four, 4 * G, 5) && has(block, 6 * G, 0));
    done();
}

/* ---- nothing is idle but what other parked blocks have, and the device has no more ---- */

static void both_come_back_and_go(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size, uint64_t other,
                                  uint64_t other_size)
{
    park(b, b_size);
    unpark_beside(a, a_size, other, other_size, 2);
    assert_int_equal(kit_unpark(&k, b, copy, 1 << 1), VS_BACKING_OUT_OF_MEMORY); /* its chunks were given */
    give_own(other, other_size, 2, one);
    unpark(b);
    assert_true(has(a, a_size, 0) && has(b, b_size, 1));
    give_own(a, a_size, 0, one);
    give_own(b, b_size, 1, one);
    assert_int_equal(stats().idle, a_size + b_size);
    assert_int_equal(stats().parked, 0);
}

TEST(two_blocks_in_heaps_exchange_chunks)
{
    begin_park(8, NULL);
    uint64_t a = take_one(4 * G), b = take_one(4 * G);
    park(a, 4 * G);
    uint64_t other = take_one(4 * G);
    both_come_back_and_go(a, 4 * G, b, 4 * G, other, 4 * G);
    done();
}

TEST(a_block_in_an_alias_mapping_gets_chunks_of_one_in_a_heap)
{
    begin_park(24, NULL);
    uint64_t a = take_in_alias(8 * G), b = take_one(4 * G);
    take(one, 4 * G);
    park(a, 8 * G);
    uint64_t other = take_one(4 * G);
    both_come_back_and_go(a, 8 * G, b, 4 * G, other, 4 * G);
    done();
}

TEST(a_block_in_a_heap_gets_chunks_of_one_in_an_alias_mapping)
{
    begin_park(24, NULL);
    uint64_t a = take_one(4 * G), b = take_in_alias(8 * G);
    take(one, 4 * G);
    park(a, 4 * G);
    uint64_t other = take_one(4 * G);
    both_come_back_and_go(a, 4 * G, b, 8 * G, other, 4 * G);
    done();
}

TEST(two_blocks_in_alias_mappings_exchange_chunks)
{
    begin_park(48, NULL);
    uint64_t more[32];
    make_gaps(one, G, 32, more);
    uint64_t a = take_one(8 * G), b = take_one(8 * G);
    take(one, 16 * G);
    park(a, 8 * G);
    uint64_t other = take_one(8 * G);
    both_come_back_and_go(a, 8 * G, b, 8 * G, other, 8 * G);
    done();
}

TEST(a_chunk_of_two_parked_blocks_is_replaced_for_both)
{
    begin_park(32, NULL);
    uint64_t a = take_one(G + G / 2), b = take_one(G + G / 2);
    park(a, G + G / 2);
    park(b, G + G / 2);
    uint64_t other = take_one(3 * G);
    unpark_beside(b, 0, other, 3 * G, 2);
    assert_true(has(b, G + G / 2, 1));
    unpark_beside(a, G + G / 2, other, 3 * G, 2);
    assert_true(has(b, G + G / 2, 1));
    assert_int_equal(stats().reserved, 6 * G);
    done();
}

/* What is unmapped no work may touch any more, so there the host waits. */
TEST(the_host_waits_for_work_that_may_still_use_what_is_unmapped)
{
    begin_park(32, NULL);
    k.lag = 100;
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    assert_int_equal(stats().host_waits, 0);
    unpark_beside(block, 4 * G, other, 4 * G, 1);
    assert_int_equal(stats().host_waits, 1);
    k.lag = 0;
    done();
}

TEST(what_is_known_to_be_done_is_not_waited_for)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    k.lag = 100;
    uint64_t other = take_one(4 * G);
    take_one(9 * G); /* looks at the event, too, and then not at once again */
    k.lag = 0;       /* the copies out are done now */
    unpark_beside(block, 4 * G, other, 4 * G, 1);
    assert_int_equal(stats().host_waits, 0);
    done();
}

TEST(where_it_cannot_wait_the_block_stays_parked)
{
    begin_park(32, NULL);
    struct vs_arena_run back;
    k.lag = 100;
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    k.capturing = true;
    assert_int_equal(vs_arena_unpark(k.arena, block, copy, &back), VS_BACKING_NOT_READY);
    k.capturing = false;
    assert_int_equal(stats().parked, 4 * G);
    arena_check(k.arena);
    unpark_beside(block, 4 * G, other, 4 * G, 1);
    k.lag = 0;
    done();
}

TEST(where_the_device_has_no_more_the_block_stays_parked)
{
    begin_park(6, NULL);
    struct vs_arena_run back;
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    assert_int_equal(vs_arena_unpark(k.arena, block, copy, &back), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(stats().parked, 4 * G);
    assert_true(has(other, 4 * G, 1) && has(block, 4 * G, 0));
    arena_check(k.arena);
    give_own(other, 4 * G, 1, one);
    unpark(block);
    assert_true(has(block, 4 * G, 0));
    done();
}

/* A free that waits for another queue makes room once the device is done. */
TEST(where_the_device_has_no_more_pending_frees_are_waited_for)
{
    begin_park(8, NULL);
    k.lag = 100;
    uint64_t block = take_one(4 * G), freed = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    k.freed++;
    kit_disown(&k, freed, 4 * G, 1, 1 << 1, true);
    assert_int_equal(vs_arena_free(k.arena, freed, VS_ARENA_ANY, VS_FREE_DEFER | VS_FREE_NO_WAIT), 0);
    unpark_beside(block, 4 * G, other, 4 * G, 2);
    assert_int_equal(stats().reserved, 8 * G);
    k.lag = 0;
    done();
}

/* Chunks that were given up are alias mappings' alone, until memory is given back. */
TEST(what_was_given_up_is_hidden_until_a_trim)
{
    begin_park(32, NULL);
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    unpark(block);
    give_own(other, 4 * G, 1, one);
    assert_int_equal(k.arena->hiddens, 4);
    assert_int_equal(take_one(4 * G), other); /* not by a free extent */
    give_own(other, 4 * G, 2, one);
    assert_int_equal(vs_arena_trim(k.arena, 4 * G), 0);
    arena_check(k.arena);
    assert_int_equal(k.arena->hiddens, 0);
    uint64_t small = take(one, 3 * G + 512), hits = stats().hits;
    assert_int_equal(hits, 1);
    give(small, one);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().reserved, 4 * G);
    done();
}

TEST(what_was_given_up_in_a_heap_that_a_private_queue_gets_is_shown)
{
    begin_park(64, NULL);
    uint32_t private = queue_of(3, VS_QUEUE_PRIVATE);
    uint64_t below = take(private, 2 * G), between = take(private, 2 * G), above = take(private, 2 * G);
    give(between, private);
    vs_arena_retire_queue(k.arena, private);
    k.ended[3] = k.freed + 1;
    kit_wait(&k);
    uint64_t block = take_one(2 * G); /* of the chunks between, in an alias mapping */
    park(block, 2 * G);
    uint64_t other = take_one(2 * G);
    unpark(block);
    give_own(other, 2 * G, 1, one);
    kit_wait(&k);
    assert_int_equal(k.arena->hiddens, 2);
    assert_int_equal(vs_trim_aliases(k.arena, private), 0);
    assert_int_equal(k.arena->hiddens, 0);
    arena_check(k.arena);
    give(below, VS_ARENA_ANY);
    give(above, VS_ARENA_ANY);
    done();
}

/* Nothing was parked in a whole window of frees. */
TEST(what_was_given_up_is_shown_again_where_nothing_is_parked_any_more)
{
    begin_park(32, &(struct vs_arena_config){.trim_window = 32, .trim_above = UINT64_MAX});
    uint64_t block = take_one(4 * G);
    park(block, 4 * G);
    uint64_t other = take_one(4 * G);
    unpark(block);
    give_own(other, 4 * G, 1, one);
    for (int i = 0; i < 96; i++) {
        give(take(one, 512), one);
        if (i % 16 == 0) { /* also where nothing is when a window ends */
            park(block, 4 * G);
            unpark(block);
        }
    }
    assert_int_equal(k.arena->hiddens, 4);
    for (int i = 0; i < 96; i++)
        give(take(one, 512), one);
    assert_int_equal(k.arena->hiddens, 0);
    done();
}

/* The first failure of each call of the backing, in turn: nothing has changed but for what idle memory was
 * made, and the second time it goes. */
static void each_call_fails_once(bool in_alias)
{
    uint64_t failed = 0;
    for (uint64_t at = 1; at; at++) {
        begin_park(48, NULL);
        uint64_t block = in_alias ? take_in_alias(4 * G) : take_one(4 * G), idle = take_one(4 * G);
        park(block, 4 * G);
        uint64_t other = take_one(4 * G);
        give_own(idle, 4 * G, 1, one);
        k.fail_at = k.calls + at;
        k.fail_with = KIT_ERROR;
        int status = kit_unpark(&k, block, copy, 1 << 1);
        arena_check(k.arena);
        assert_true(has(block, 4 * G, 0) && has(other, 4 * G, 2));
        assert_int_equal(stats().lost, 0);
        if (!k.faults_seen)
            at = UINT64_MAX;
        failed += status != 0;
        if (status != 0)
            unpark(block);
        else
            assert_int_equal(vs_arena_return(k.arena, block), 0);
        assert_true(has(block, 4 * G, 0) && has(other, 4 * G, 2));
        k.unmap_failed = false; /* it went the second time */
        done();
    }
    assert_true(failed > 4);
}

TEST(each_call_may_fail_for_a_block_in_a_heap)
{
    each_call_fails_once(false);
}

TEST(each_call_may_fail_for_a_block_in_an_alias_mapping)
{
    each_call_fails_once(true);
}

/* And so may the call that would undo it: then the block is parked for good, and nobody else is harmed. */
static void two_calls_fail(bool in_alias)
{
    uint64_t broken = 0;
    for (uint64_t at = 1; at < 40; at++)
        for (uint64_t then = 1; then < 8; then++) {
            begin_park(48, NULL);
            uint64_t block = in_alias ? take_in_alias(4 * G) : take_one(4 * G), idle = take_one(4 * G);
            park(block, 4 * G);
            uint64_t other = take_one(4 * G);
            give_own(idle, 4 * G, 1, one);
            struct vs_arena_run back;
            k.fail_with = KIT_ERROR;
            k.fail_at = k.calls + at;
            k.fail_again = k.fail_at + then;
            kit_unpark_waiting(k.arena, block, copy, &back);
            k.fail_at = k.fail_again = 0;
            broken += k.arena->extent[vs_blocks_get(k.arena, block)].is_broken;
            if (k.arena->extent[vs_blocks_get(k.arena, block)].is_broken)
                assert_int_equal(vs_arena_unpark(k.arena, block, copy, &back), VS_BACKING_INVALID);
            arena_check(k.arena);
            assert_true(has(other, 4 * G, 2));
            kit_end(&k);
        }
    assert_true(broken > 0);
}

TEST(two_calls_may_fail)
{
    two_calls_fail(false);
    two_calls_fail(true);
}
