/* test_arena_groups.c - chunks that share a handle, as they come back from being away, one promise each. */
#include "park_kit.h"
#include "away_steps.h"

/* A block of COUNT chunks of the queue, in groups. */
static uint64_t take_grouped(uint32_t queue, uint32_t count)
{
    uint64_t block = take_own(queue, count * G);
    leave(block, count * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    arena_check(k.arena);
    return block;
}

static void give_own(uint64_t address, uint64_t size, uint32_t i, uint32_t stream, uint32_t queue)
{
    kit_disown(&k, address, size, i, 1ull << stream & ~1ull, false);
    assert_int_equal(vs_arena_free(k.arena, address, queue, 0), 0);
}

static uint32_t handles_of(uint64_t address, uint64_t *offset)
{
    uint64_t handle[64];
    uint32_t first = 0;
    for (struct vs_arena_ground on; (on = vs_arena_handles(k.arena, address, first, handle, 64)).given;) {
        for (uint32_t i = 0; i < on.given; i++)
            assert_int_equal(k.handle[handle[i] - 1].chunks * G, on.each);
        first += on.given;
        *offset = on.offset;
        if (first == on.handles)
            break;
    }
    return first;
}

TEST(chunks_of_a_block_come_back_four_by_four_and_go_so)
{
    uint64_t offset = 1;
    begin_away(64, NULL);
    uint64_t block = take_grouped(VS_ARENA_ANY, 10), calls = k.driver_calls;
    assert_int_equal(handles_of(block, &offset), 3);
    assert_int_equal(offset, 0);
    leave(block, 10 * G);
    assert_int_equal(kit_change_block(&k, block, kit_send), 0);
    assert_int_equal(k.driver_calls - calls, 1 + 3); /* unmap, release */
    assert_int_equal(k.arena->grouped, 0);
    assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_true(has(block, 10 * G, 0));
    done();
}

TEST(a_closed_arena_comes_back_in_groups)
{
    begin_away(64, NULL);
    uint64_t block[3] = {take_own(VS_ARENA_ANY, 8 * G), take_own(VS_ARENA_ANY, 3 * G + 512),
                         take_own(VS_ARENA_ANY, 3 * G)};
    close_all();
    for (uint64_t longest = G; longest <= 64 * G; longest *= 4) {
        assert_int_equal(kit_change_all(&k, longest, kit_send), 0);
        assert_int_equal(kit_change_all(&k, longest, kit_fetch), 0);
        arena_check(k.arena);
    }
    struct vs_arena_run run;
    uint64_t at = 1; /* inside of a group */
    assert_int_equal(vs_arena_all_runs(k.arena, &at, G, &run, 1), 1);
    assert_int_equal(run.address, block[0] + 4 * G);
    assert_int_equal(run.size, 4 * G);
    /* the chunk that two blocks have, and the last one, are single ones */
    assert_int_equal(k.arena->grouped, 8 + 3 + 2);
    open_all();
    assert_true(has(block[0], 8 * G, 0) && has(block[1], 3 * G + 512, 1) && has(block[2], 3 * G, 2));
    done();
}

TEST(chunks_in_alias_mappings_come_back_alone)
{
    uint64_t gap[16];
    begin_away(64, NULL);
    make_gaps(VS_ARENA_ANY, 2 * G, 16, gap);
    take_own(VS_ARENA_ANY, 8 * G);
    close_all();
    assert_int_equal(kit_change_all(&k, 64 * G, kit_send), 0);
    assert_int_equal(kit_change_all(&k, 64 * G, kit_fetch), 0);
    assert_int_equal(stats().aliases, 1);
    assert_int_equal(k.arena->grouped, 16); /* what the others have, two by two */
    open_all();
    done();
}

/* Two groups with a block in use behind each. */
static void two_groups(uint32_t queue, uint64_t block[2])
{
    for (int i = 0; i < 2; i++) {
        block[i] = take_grouped(queue, 4);
        take_own(queue, G);
    }
    assert_int_equal(k.arena->grouped, 8);
}

TEST(idle_groups_are_split_where_their_chunks_are_lent)
{
    uint64_t block[2];
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0);
    two_groups(one, block);
    give_own(block[0], 4 * G, 0, 1, one);
    give_own(block[1], 4 * G, 2, 1, one);
    kit_wait(&k);
    uint64_t calls = k.driver_calls, chunks = k.chunks;
    take_own(one, 5 * G);
    assert_int_equal(stats().aliased, 5);
    assert_int_equal(k.arena->grouped, 0);
    /* create, unmap, map, access, release; and the alias mapping */
    assert_int_equal(k.driver_calls - calls, 2 * (4 + 1 + 4 + 1 + 1) + 5 + 1);
    assert_int_equal(k.chunks, chunks);
    done();
}

TEST(a_group_whose_work_is_not_done_is_waited_for_before_it_is_split)
{
    uint64_t block[2];
    begin_away(64, NULL);
    k.lag = 100;
    uint32_t one = queue_of(1, 0);
    two_groups(one, block);
    give_own(block[0], 4 * G, 0, 1, one);
    give_own(block[1], 4 * G, 2, 1, one);
    uint64_t waits = stats().host_waits;
    take_own(one, 5 * G); /* the kit looks whether what is unmapped is in use */
    assert_int_equal(stats().aliased, 5);
    assert_int_equal(stats().host_waits, waits + 1);
    done();
}

TEST(where_a_block_lies_after_groups_came_does_not_depend_on_the_device_s_speed)
{
    uint64_t places[2][200], waits[2];
    for (int fast = 0; fast < 2; fast++) {
        uint64_t b[20];
        uint32_t owner[20], queue[4];
        begin_away(200, NULL);
        for (uint32_t i = 0; i < 20; i++) {
            queue[i % 4] = i < 4 ? queue_of(i + 1, 0) : queue[i % 4];
            b[i] = take(owner[i] = queue[i % 4], 5 * G);
        }
        close_all();
        assert_int_equal(kit_change_all(&k, 200 * G, kit_send), 0);
        assert_int_equal(kit_change_all(&k, 200 * G, kit_fetch), 0);
        open_all();
        k.lag = fast ? 0 : 100;
        uint64_t random = 7;
        for (int i = 0; i < 200; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint32_t slot = (uint32_t)(random >> 33) % 20;
            give(b[slot], owner[slot]);
            owner[slot] = queue[(random >> 40) % 4];
            b[slot] = places[fast][i] = take(owner[slot], 512 + (random >> 45) % (9 * G));
        }
        waits[fast] = stats().host_waits;
        done();
    }
    assert_memory_equal(places[0], places[1], sizeof places[0]);
    assert_true(waits[0] > waits[1]); /* else nothing is proved */
}

TEST(where_no_wait_can_be_made_other_chunks_are)
{
    uint64_t block[2];
    begin_away(64, NULL);
    k.lag = 100;
    uint32_t one = queue_of(1, 0);
    two_groups(one, block);
    uint32_t two = queue_of(2, 0);
    uint64_t single = take_own(two, G);
    take_own(one, G);
    give_own(single, G, 4, 2, two);
    kit_wait(&k);
    give_own(block[0], 4 * G, 0, 1, one);
    give_own(block[1], 4 * G, 2, 1, one);
    k.capturing = true;
    uint64_t released = stats().released;
    take_own(one, 5 * G);
    assert_int_equal(stats().aliased, 0);
    assert_int_equal(stats().released, released); /* nothing is given back for it */
    assert_int_equal(k.arena->grouped, 8);
    k.capturing = false;
    done();
}

TEST(a_group_that_is_used_in_part_is_neither_lent_nor_given_back)
{
    uint64_t block[2];
    begin_away(64, NULL);
    two_groups(VS_ARENA_ANY, block);
    give_own(block[0], 4 * G, 0, 0, VS_ARENA_ANY);
    give_own(block[1], 4 * G, 2, 0, VS_ARENA_ANY);
    uint64_t part = take_own(VS_ARENA_ANY, 2048);
    assert_int_equal(part, block[0]);
    take_own(VS_ARENA_ANY, 6 * G);
    assert_int_equal(stats().aliased, 6);
    assert_int_equal(k.arena->grouped, 4); /* the other one was split */
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(stats().idle, 3 * G);
    assert_true(has(part, 2048, 4));
    give_own(part, 2048, 4, 0, VS_ARENA_ANY);
    uint64_t calls = k.driver_calls;
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    assert_int_equal(k.driver_calls - calls, 2); /* all of it at once: unmap, release */
    assert_int_equal(stats().idle, 0);
    done();
}

/* Others' memory is in no danger: the group is given back, and its chunks come alone. */
TEST(on_a_full_device_a_group_is_split_in_its_place)
{
    uint64_t block[2];
    begin_away(10, NULL);
    two_groups(VS_ARENA_ANY, block);
    give_own(block[0], 4 * G, 0, 0, VS_ARENA_ANY);
    give_own(block[1], 4 * G, 2, 0, VS_ARENA_ANY);
    take_own(VS_ARENA_ANY, 8 * G);
    assert_int_equal(stats().aliased, 8);
    assert_int_equal(k.arena->grouped, 0);
    done();
}

/* It was the top of its heap, which ends below once it is given back: it comes elsewhere. */
TEST(on_a_full_device_a_group_above_a_vacant_place_is_given_back)
{
    uint64_t block[5];
    begin_away(9, NULL);
    for (int i = 0; i < 3; i++)
        block[i] = take_own(VS_ARENA_ANY, G);
    block[3] = take_own(VS_ARENA_ANY, 2 * G);
    block[4] = take_grouped(VS_ARENA_ANY, 4);
    give_own(block[3], 2 * G, 3, 0, VS_ARENA_ANY);
    assert_int_equal(vs_arena_trim(k.arena, 0), 0);
    k.capacity = 7;
    give_own(block[4], 4 * G, 4, 0, VS_ARENA_ANY);
    give_own(block[1], G, 1, 0, VS_ARENA_ANY);
    take_own(VS_ARENA_ANY, 5 * G);
    assert_int_equal(k.chunks, 7);
    assert_int_equal(stats().reserved, 7 * G);
    done();
}

TEST(where_blocks_are_parked_chunks_can_be_had_alone)
{
    struct vs_arena_config config = {.single = true};
    begin_away(8, &config);
    uint32_t one = queue_of(1, 0), copies = queue_of(2, 0);
    uint64_t block = take_grouped(one, 8);
    leave(block, 8 * G);
    assert_int_equal(kit_park(&k, block, copies), 0);
    kit_wait(&k);
    uint64_t other = take_own(one, 6 * G);
    give_own(other, 6 * G, 1, 1, one);
    assert_int_equal(kit_unpark(&k, block, copies, 1 << 1), 0);
    assert_true(has(block, 8 * G, 0));
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    done();
}

/* ---- a part of a group ---- */

/* Of a group two blocks have a half each. */
static void two_halves(uint64_t half[2])
{
    uint64_t block = take_grouped(VS_ARENA_ANY, 4);
    give_own(block, 4 * G, 0, 0, VS_ARENA_ANY);
    for (int i = 0; i < 2; i++) {
        half[i] = take_own(VS_ARENA_ANY, 2 * G);
        assert_int_equal(half[i], block + i * 2 * G);
    }
}

TEST(of_a_group_no_part_goes)
{
    uint64_t half[2];
    begin_away(64, NULL);
    two_halves(half);
    leave(half[0], 2 * G);
    struct vs_arena_run run = run_of_block(half[0]);
    assert_int_equal(run.size, 2 * G);
    assert_int_equal(kit_send(&k, run), VS_BACKING_INVALID);
    assert_int_equal(vs_arena_piece(k.arena, &run, 64 * G).size, 0);
    assert_int_equal(run.size, 0);
    /* that both left changes nothing: the runs are one block's each */
    leave(half[1], 2 * G);
    assert_int_equal(kit_change_block(&k, half[1], kit_send), 0);
    assert_int_equal(stats().away, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(vs_arena_return(k.arena, half[i]), 0);
    close_all();
    assert_int_equal(kit_change_all(&k, G, kit_send), 0);
    assert_int_equal(k.chunks, 0);
    assert_int_equal(kit_change_all(&k, G, kit_fetch), 0);
    open_all();
    assert_true(has(half[0], 2 * G, 1) && has(half[1], 2 * G, 2));
    done();
}

/* Those in the middle of a block do, whatever is asked for at once. */
TEST(of_a_block_the_groups_that_are_its_own_go)
{
    begin_away(64, NULL);
    uint64_t first = take_grouped(VS_ARENA_ANY, 12);
    give_own(first, 12 * G, 0, 0, VS_ARENA_ANY);
    uint64_t below = take_own(VS_ARENA_ANY, G), block = take_own(VS_ARENA_ANY, 10 * G);
    assert_int_equal(block, below + G);
    for (k.longest = G; k.longest <= 16 * G; k.longest *= 2) {
        leave(block, 10 * G);
        assert_int_equal(kit_change_block(&k, block, kit_send), 0);
        assert_int_equal(stats().away, 4 * G); /* of the first group it has three chunks, of the last three */
        assert_int_equal(kit_change_block(&k, block, kit_fetch), 0);
        assert_int_equal(vs_arena_return(k.arena, block), 0);
        assert_true(has(below, G, 1) && has(block, 10 * G, 2));
    }
    done();
}

TEST(a_block_that_begins_in_a_group_is_exported_with_it)
{
    uint64_t half[2], offset = 0;
    begin_away(64, NULL);
    two_halves(half);
    assert_int_equal(handles_of(half[1], &offset), 1);
    assert_int_equal(offset, 2 * G);
    uint64_t large = take_grouped(VS_ARENA_ANY, 9);
    assert_int_equal(handles_of(large, &offset), 3); /* of two sizes */
    assert_int_equal(offset, 0);
    done();
}

TEST(access_is_granted_to_whole_groups)
{
    uint64_t half[2];
    begin_away(64, NULL);
    two_halves(half);
    assert_int_equal(vs_arena_set_peers(k.arena, 6), 0);
    kit_check_mapped(&k);
    done();
}

/* ---- parked ---- */

TEST(parked_groups_are_lent_and_taken_back)
{
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0), copies = queue_of(2, 0);
    uint64_t block = take_grouped(one, 8);
    leave(block, 8 * G);
    assert_int_equal(kit_park(&k, block, copies), 0);
    kit_wait(&k);
    uint64_t chunks = k.chunks, other = take_own(one, 6 * G);
    assert_int_equal(k.chunks, chunks);
    assert_int_equal(k.arena->grouped, 0);
    arena_check(k.arena);
    assert_int_equal(kit_unpark(&k, block, copies, 1 << 1), 0);
    assert_int_equal(vs_arena_return(k.arena, block), 0);
    assert_true(has(block, 8 * G, 0) && has(other, 6 * G, 1));
    done();
}

/* Chunks in groups come for those in which another block is alive. */
TEST(groups_are_split_for_what_a_parked_block_gets)
{
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0), copies = queue_of(2, 0);
    uint64_t parked = take_own(one, 6 * G);
    leave(parked, 6 * G);
    assert_int_equal(kit_park(&k, parked, copies), 0);
    take_own(one, 6 * G);
    uint64_t block = take_grouped(one, 8);
    give_own(block, 8 * G, 2, 1, one);
    kit_wait(&k);
    uint64_t chunks = k.chunks;
    assert_int_equal(kit_unpark(&k, parked, copies, 1 << 1), 0);
    assert_int_equal(k.chunks, chunks);
    assert_int_equal(k.arena->grouped, 0);
    assert_int_equal(stats().replaced, 6);
    assert_int_equal(vs_arena_return(k.arena, parked), 0);
    assert_true(has(parked, 6 * G, 0));
    done();
}

/* One in an alias mapping gets them without a wait of the host's, but for groups. */
TEST(a_parked_block_that_would_get_an_incomplete_group_is_asked_for_again)
{
    uint64_t gap[8];
    struct vs_arena_run back;
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0), two = queue_of(2, 0), copies = queue_of(3, 0);
    make_gaps(one, G, 8, gap);
    uint64_t parked = take_own(one, 4 * G);
    leave(parked, 4 * G);
    assert_int_equal(kit_park(&k, parked, copies), 0);
    take_own(one, 4 * G);
    uint64_t block = take_grouped(two, 4);
    k.lag = 100;
    give_own(block, 4 * G, 2, 2, two);
    assert_int_equal(vs_arena_unpark(k.arena, parked, copies, &back), VS_BACKING_NOT_READY);
    assert_int_equal(kit_unpark(&k, parked, copies, 1 << 1), 0);
    assert_int_equal(stats().replaced, 4);
    assert_int_equal(vs_arena_return(k.arena, parked), 0);
    assert_true(has(parked, 4 * G, 0));
    done();
}

/* ---- errors ---- */

/* False: there is no call of that number. */
static bool lend_with_failures(uint64_t call, uint64_t again, int with)
{
    uint64_t block[2], address = 0;
    begin_away(64, NULL);
    uint32_t one = queue_of(1, 0);
    two_groups(one, block);
    give_own(block[0], 4 * G, 0, 1, one);
    give_own(block[1], 4 * G, 2, 1, one);
    kit_wait(&k);
    uint64_t chunks = k.chunks;
    k.fail_with = with;
    k.fail_at = k.calls + call;
    k.fail_again = again ? k.fail_at + again : 0;
    int status = vs_arena_malloc(k.arena, one, 5 * G, &address);
    bool failed = k.calls >= k.fail_at;
    k.fail_at = k.fail_again = 0;
    if (status == 0)
        kit_own(&k, address, 5 * G, blocks++, 1);
    else if (!again)
        assert_int_equal(k.chunks, chunks); /* nothing was lost, nor made */
    arena_check(k.arena);
    bool unmap_failed = k.unmap_failed;
    k.unmap_failed = unmap_failed && again; /* else it was undone: all is looked at */
    kit_check_mapped(&k);
    k.unmap_failed = unmap_failed;
    take_own(one, 5 * G);
    end();
    return failed;
}

/* Each call of a split fails once, and one of those that undo it, too. */
TEST(a_split_that_fails_is_undone)
{
    for (uint64_t again = 0; again < 4; again++) {
        uint64_t call = 1;
        while (lend_with_failures(call, again, KIT_ERROR) &&
               lend_with_failures(call, again, VS_BACKING_OUT_OF_MEMORY))
            call++;
        assert_true(call > 2 * 11);
    }
}
