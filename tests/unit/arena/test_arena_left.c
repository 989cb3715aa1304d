/*
 * test_arena_left.c - what the arena promises of blocks that left, whose chunks can be away while it works on
 * (arena.h), and of calls that fail meanwhile, one promise each.
 */
#include "away_steps.h"

TEST(a_block_that_left_has_those_chunks_away_in_which_nothing_else_lies)
{
    begin_away(32, NULL);
    uint64_t below = take(VS_ARENA_ANY, G / 2), block = take_own(VS_ARENA_ANY, 3 * G),
             above = take(VS_ARENA_ANY, G);
    leave(block, 3 * G);
    struct vs_arena_run run = run_of_block(block);
    assert_int_equal(run.address, below + G); /* half of its first and of its last chunk are others' */
    assert_int_equal(run.size, 2 * G);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){below, G}), VS_BACKING_INVALID);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){below, 4 * G}), VS_BACKING_INVALID);
    assert_int_equal(kit_send(&k, run), 0);
    assert_int_equal(stats().away, 2 * G);
    assert_int_equal(stats().reserved + stats().away, 5 * G);
    arena_check(k.arena);
    assert_int_equal(vs_arena_return(k.arena, block), VS_BACKING_INVALID);
    give(above, VS_ARENA_ANY); /* the arena works on */
    give(below, VS_ARENA_ANY);
    take(VS_ARENA_ANY, 4 * G);
    assert_int_equal(kit_fetch(&k, run), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_int_equal(vs_arena_return(k.arena, block), VS_BACKING_INVALID);
    assert_int_equal(run_of_block(block).size, 0);
    assert_true(has(block, 3 * G, 0));
    done();
}

TEST(a_chunk_with_a_free_extent_stays)
{
    begin_away(32, NULL);
    uint64_t block = take(VS_ARENA_ANY, G + 512), above = take(VS_ARENA_ANY, 2 * G - 512);
    give(above, VS_ARENA_ANY);
    leave(block, G + 512);
    assert_int_equal(run_of_block(block).size, G);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){block, 2 * G}), VS_BACKING_INVALID);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){block + G, G}), VS_BACKING_INVALID);
    assert_int_equal(take(VS_ARENA_ANY, 2 * G - 512), above);
    done();
}

TEST(chunks_of_two_blocks_that_left_are_runs_of_both)
{
    begin_away(32, NULL);
    uint64_t a = take_own(VS_ARENA_ANY, G + G / 2), b = take_own(VS_ARENA_ANY, G + G / 2);
    leave(a, G + G / 2);
    assert_int_equal(run_of_block(a).size, G);
    leave(b, G + G / 2);
    assert_int_equal(run_of_block(a).size, 2 * G);
    assert_int_equal(run_of_block(b).address, a + G);
    assert_int_equal(run_of_block(b).size, 2 * G);
    assert_int_equal(kit_change_block(&k, a, kit_send), 0);
    assert_int_equal(stats().away, 2 * G);
    assert_int_equal(kit_change_block(&k, b, kit_send), 0); /* the rest */
    assert_int_equal(stats().away, 3 * G);
    assert_int_equal(kit_change_block(&k, a, kit_fetch), 0);
    assert_int_equal(stats().away, G);
    assert_int_equal(vs_arena_return(k.arena, b), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_return(k.arena, a), 0);
    assert_int_equal(run_of_block(b).size, G); /* the other chunk has one that is back */
    assert_int_equal(kit_send(&k, (struct vs_arena_run){a + G, G}), VS_BACKING_INVALID);
    assert_int_equal(kit_change_block(&k, b, kit_fetch), 0);
    assert_int_equal(vs_arena_return(k.arena, b), 0);
    assert_true(has(a, G + G / 2, 0) && has(b, G + G / 2, 1));
    done();
}

TEST(a_block_in_an_alias_mapping_goes_whole_and_comes_back_there)
{
    uint64_t gap[16];
    begin_away(32, NULL);
    uint32_t one = queue_of(1, 0);
    make_gaps(one, G, 16, gap);
    uint64_t block = take_own(one, 7 * G + 512);
    assert_int_equal(stats().aliased, 8);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){gap[0], G}), VS_BACKING_INVALID);
    leave(block, 7 * G + 512);
    struct vs_arena_run run = run_of_block(block);
    assert_int_equal(run.address, block);
    assert_int_equal(run.size, 8 * G);
    uint64_t mappings = stats().mappings;
    assert_int_equal(kit_send(&k, run), 0);
    assert_int_equal(stats().away, 8 * G);
    assert_int_equal(stats().mappings, mappings - 16);
    assert_int_equal(kit_send(&k, (struct vs_arena_run){gap[1], G}), VS_BACKING_INVALID);
    arena_check(k.arena);
    /* by the addresses of the heap it can be asked for, too */
    assert_int_equal(kit_fetch(&k, (struct vs_arena_run){gap[0], G}), 0);
    assert_int_equal(kit_fetch(&k, run), 0);
    assert_int_equal(stats().mappings, mappings);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_true(has(block, 7 * G + 512, 0));
    done();
}

/* Side by side is one call; what costs a call each is what the driver has for one chunk only. */
TEST(a_run_costs_one_unmap_and_one_access_for_each_place_that_it_is_mapped_at)
{
    uint64_t gap[16];
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0);
    uint64_t plain = take_own(one, 8 * G);
    make_gaps(one, G, 16, gap);
    uint64_t alias = take_own(one, 8 * G);
    leave(plain, 8 * G);
    leave(alias, 8 * G);
    uint64_t calls = k.driver_calls;
    assert_int_equal(kit_change_block(&k, plain, kit_send), 0);
    assert_int_equal(k.driver_calls - calls, 1 + 8); /* release */
    calls = k.driver_calls;
    assert_int_equal(kit_change_block(&k, plain, kit_fetch), 0);
    assert_int_equal(k.driver_calls - calls, 2 + 2 + 1); /* create, map: four chunks have one handle */
    calls = k.driver_calls;
    assert_int_equal(kit_change_block(&k, alias, kit_send), 0);
    assert_int_equal(k.driver_calls - calls, 1 + 8 + 8); /* in the heap they lie apart */
    done();
}

/* Windows may adjoin: what ends one heap and what begins the next are two. */
TEST(what_lies_in_two_heaps_takes_two_calls)
{
    uint64_t pair[21];
    begin_away(42, NULL); /* whose heaps have 64 slots */
    for (int i = 0; i < 21; i++)
        pair[i] = take(VS_ARENA_ANY, 2 * G);
    for (int i = 1; i < 21; i += 2)
        give(pair[i], VS_ARENA_ANY);
    give(pair[0], VS_ARENA_ANY);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    uint64_t large = take(VS_ARENA_ANY, 22 * G);
    assert_int_equal(large, pair[0] + 42 * G);
    give(pair[2], VS_ARENA_ANY);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    uint64_t small = take(VS_ARENA_ANY, 512);
    assert_int_equal(small, large + 22 * G);
    give(large, VS_ARENA_ANY);
    give(small, VS_ARENA_ANY);
    uint64_t block = take_own(VS_ARENA_ANY, 23 * G), calls = k.driver_calls;
    leave(block, 23 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    assert_int_equal(k.driver_calls - calls, 1 + 2 + 23);
    done();
}

TEST(the_free_of_a_block_that_left_is_carried_out_when_it_returns)
{
    begin_away(32, NULL);
    uint32_t one = queue_of(1, 0);
    uint64_t block[3];
    for (int i = 0; i < 3; i++) {
        block[i] = take(one, 2 * G);
        leave(block[i], 2 * G);
        assert_int_equal(kit_change_block(&k, block[i], kit_send), 0);
    }
    give(block[0], one);
    k.freed++;
    assert_int_equal(vs_arena_free(k.arena, block[1], one, VS_FREE_DEFER), 0);
    kit_wait(&k);
    assert_int_equal(vs_arena_free(k.arena, block[1], one, 0), VS_BACKING_INVALID);
    assert_int_equal(stats().allocated, 2 * G);
    assert_int_equal(stats().deferred, 4 * G);
    assert_int_equal(stats().blocks, 3);
    arena_check(k.arena);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kit_change_block(&k, block[i], kit_fetch), 0);
        assert_int_equal(vs_arena_return(k.arena, block[i]), 0);
    }
    assert_int_equal(stats().deferred, 0);
    assert_int_equal(stats().blocks, 1);
    assert_int_equal(stats().idle, 4 * G);
    done();
}

TEST(a_block_leaves_only_by_its_size_alone_and_unpinned)
{
    uint64_t handle;
    begin_away(32, NULL);
    uint32_t one = queue_of(1, 0);
    uint64_t block = take(one, G), doomed = take(one, G);
    assert_int_equal(vs_arena_leave(k.arena, block, G - 1), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_leave(k.arena, block + 512, G - 512), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_pin(k.arena, block), 0);
    assert_int_equal(vs_arena_leave(k.arena, block, G), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_unpin(k.arena, block), 0);
    k.freed++;
    assert_int_equal(vs_arena_free(k.arena, doomed, one, VS_FREE_DEFER | VS_FREE_NO_WAIT), 0);
    assert_int_equal(vs_arena_leave(k.arena, doomed, G), VS_BACKING_INVALID);
    leave(block, G);
    assert_int_equal(vs_arena_leave(k.arena, block, G), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_pin(k.arena, block), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_unpin(k.arena, block), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_handles(k.arena, block, 0, &handle, 1).handles, 0);
    assert_int_equal(vs_arena_close(k.arena), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_int_equal(vs_arena_pin(k.arena, block), 0);
    assert_int_equal(vs_arena_return(k.arena, block), VS_BACKING_INVALID);
    done();
}

TEST(runs_that_are_none_are_refused)
{
    begin_away(32, NULL);
    uint64_t block = take(VS_ARENA_ANY, 4 * G), gap[8];
    make_gaps(VS_ARENA_ANY, G, 8, gap);
    uint64_t alias = take(VS_ARENA_ANY, 4 * G);
    leave(block, 4 * G);
    leave(alias, 4 * G);
    const struct vs_arena_run wrong[] = {
        {block, 0},       {block + 512, G},
        {block, G + 512}, {block - G, G},
        {block, 6 * G},   {block, UINT64_MAX & ~(G - 1)},
        {alias, 5 * G},   {alias + 4 * G, G},
        {0, G},           {UINT64_MAX & ~(G - 1), G},
        {gap[1], G},      {gap[7] + G, G},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(vs_arena_send(k.arena, wrong[i]), VS_BACKING_INVALID);
        assert_int_equal(vs_arena_fetch(k.arena, wrong[i]), VS_BACKING_INVALID);
    }
    assert_int_equal(stats().away, 0);
    done();
}

/* Of two alias mappings side by side, and of addresses that one had. */
TEST(runs_of_more_than_one_alias_mapping_are_refused)
{
    uint64_t gap[24];
    begin_away(32, NULL);
    make_gaps(VS_ARENA_ANY, G, 24, gap);
    uint64_t first = take(VS_ARENA_ANY, 6 * G), second = take(VS_ARENA_ANY, 6 * G);
    assert_int_equal(second, first + 6 * G);
    leave(second, 6 * G);
    assert_int_equal(vs_arena_leave(k.arena, first, 6 * G), 0);
    assert_int_equal(vs_arena_send(k.arena, (struct vs_arena_run){first + 5 * G, 2 * G}), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_return(k.arena, first), 0);
    give(first, VS_ARENA_ANY);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().aliases, 1);
    assert_int_equal(vs_arena_send(k.arena, (struct vs_arena_run){first, G}), VS_BACKING_INVALID);
    assert_int_equal(kit_change_block(&k, second, kit_send), 0);
    done();
}

/* An alias mapping that nothing lives in is not worth its calls at each send and fetch. */
TEST(idle_alias_mappings_of_what_goes_are_removed)
{
    uint64_t gap[8];
    begin_away(32, NULL);
    uint32_t one = queue_of(1, 0);
    make_gaps(one, G, 8, gap);
    give(take(one, 4 * G), one);
    for (int i = 0; i < 8; i += 2)
        gap[i] = take_own(one, G);
    assert_int_equal(stats().aliases, 1);
    leave(gap[0], G);
    assert_int_equal(kit_change_block(&k, gap[0], kit_send), 0);
    assert_int_equal(stats().aliases, 0);
    assert_int_equal(kit_change_block(&k, gap[0], kit_fetch), 0);
    assert_int_equal(stats().mappings, 8);
    done();
}

/* One whose last work is not known to be done stays, and is removed later like any other, its chunk away. */
TEST(an_alias_mapping_of_which_a_part_is_away_can_be_removed)
{
    uint64_t gap[8];
    begin_away(12, NULL);
    k.lag = 100;
    uint32_t one = queue_of(1, 0);
    make_gaps(one, G, 8, gap);
    give(take(one, 4 * G), one);
    gap[2] = take_own(one, G);
    assert_int_equal(vs_arena_leave(k.arena, gap[2], G), 0);
    assert_int_equal(kit_change_block(&k, gap[2], kit_send), 0);
    assert_int_equal(stats().aliases, 1);
    arena_check(k.arena);
    kit_wait(&k);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().aliases, 0);
    assert_int_equal(stats().idle, 0);
    arena_check(k.arena);
    assert_int_equal(kit_change_block(&k, gap[2], kit_fetch), 0);
    assert_int_equal(vs_arena_return(k.arena, gap[2]), 0);
    assert_true(has(gap[2], G, 0));
    done();
}

/* Else it would fill what is only lent, and there would be no room for what comes back. */
TEST(what_is_away_counts_in_what_the_arena_may_hold)
{
    uint64_t gap[16];
    begin_away(200, NULL);
    uint64_t block = take(VS_ARENA_ANY, 40 * G);
    make_gaps(VS_ARENA_ANY, G, 16, gap);
    leave(block, 40 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    uint64_t created = stats().created;
    take(VS_ARENA_ANY, 8 * G); /* of the gaps */
    assert_int_equal(stats().created, created);
    assert_int_equal(stats().peak_reserved, 56 * G);
    done();
}

/* Else what comes back would have no room among the mappings that there may be. */
TEST(mappings_of_what_is_away_count_in_how_many_there_may_be)
{
    struct vs_arena_config config = {.max_mappings = 50};
    uint64_t gap[16];
    begin_away(200, &config);
    uint64_t block = take(VS_ARENA_ANY, 20 * G);
    make_gaps(VS_ARENA_ANY, G, 16, gap);
    leave(block, 20 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    give(take(VS_ARENA_ANY, 8 * G), VS_ARENA_ANY);
    assert_int_equal(take(VS_ARENA_ANY, G), gap[0]);
    take(VS_ARENA_ANY, 7 * G); /* another alias mapping: one of the two is too many */
    assert_int_equal(stats().aliases, 1);
    assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
    assert_true(stats().mappings <= 50);
    done();
}

/* Whether a block begins where a chunk does depends on the bytes lost so far, away or not. */
TEST(blocks_lie_where_they_would_if_nothing_were_away)
{
    uint64_t odd, address[2];
    for (int send = 0; send < 2; send++) {
        begin_away(200, NULL);
        uint64_t block = take(VS_ARENA_ANY, 40 * G);
        leave(block, 40 * G);
        if (send)
            assert_int_equal(kit_change_block(&k, block, kit_send), 0);
        odd = take(VS_ARENA_ANY, G / 2 + 512);
        address[send] = take(VS_ARENA_ANY, 4 * G);
        done();
    }
    assert_int_equal(address[0], odd + G / 2 + 512);
    assert_int_equal(address[1], address[0]);
}

TEST(access_that_is_granted_meanwhile_holds_for_what_comes_back)
{
    uint64_t gap[8];
    begin_away(32, NULL);
    uint64_t block = take_own(VS_ARENA_ANY, 2 * G);
    make_gaps(VS_ARENA_ANY, G, 8, gap);
    uint64_t alias = take_own(VS_ARENA_ANY, 4 * G);
    close_all();
    uint64_t at = 0;
    struct vs_arena_run runs[12];
    uint32_t count = vs_arena_all_runs(k.arena, &at, G, runs, 12);
    for (uint32_t i = 0; i < count; i += 3)
        assert_int_equal(kit_send(&k, runs[i]), 0);
    assert_int_equal(vs_arena_set_peers(k.arena, 6), 0);
    kit_check_mapped(&k);
    assert_int_equal(kit_change_all(&k, G, kit_fetch), 0);
    kit_check_mapped(&k); /* each mapping has them */
    open_all();
    assert_true(has(block, 2 * G, 0) && has(alias, 4 * G, 1));
    done();
}

/* ---- errors ---- */

/* Each call of a send and of a fetch fails once, whatever else is mapped where: nothing has changed then. */
TEST(a_call_that_fails_in_the_middle_is_undone)
{
    uint64_t gap[16];
    bool failed = true;
    for (int send = 0; send < 2; send++, failed = true)
        for (uint64_t call = 1; failed; call++) {
            begin_away(64, NULL);
            uint32_t one = queue_of(1, 0);
            make_gaps(one, G, 16, gap);
            uint64_t block = take_own(one, 8 * G);
            leave(block, 8 * G);
            if (!send)
                assert_int_equal(kit_change_block(&k, block, kit_send), 0);
            k.fail_with = KIT_ERROR;
            k.fail_at = k.calls + call;
            int status = kit_change_block(&k, block, send ? kit_send : kit_fetch);
            failed = k.calls >= k.fail_at;
            k.fail_at = 0;
            /* a chunk that is not released is lost, and the block goes all the same */
            assert_true((status == 0) == (!failed || stats().lost));
            if (status != 0) {
                assert_int_equal(stats().away, send ? 0 : 8 * G);
                assert_int_equal(k.chunks, send ? 16 : 8);
                k.unmap_failed = false; /* it was undone: all is looked at */
                kit_check_mapped(&k);
            }
            arena_check(k.arena);
            assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
            assert_true(has(block, 8 * G, 0));
            assert_int_equal(vs_arena_return(k.arena, block), 0);
            end();
        }
}

TEST(books_that_get_no_memory_send_nothing)
{
    begin_away(32, NULL);
    uint64_t block = take_own(VS_ARENA_ANY, 4 * G);
    leave(block, 4 * G);
    k.arena->meta.fail_after = 1;
    assert_int_equal(kit_change_block(&k, block, kit_send), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(stats().away, 0);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    done();
}
