/* test_dropped.c - what a full ring drops.  Dropped allocations make no figure too high; a dropped end can,
 * and is counted with its place. */
#define _GNU_SOURCE
#include <pthread.h>

#include "core/clock.h"

#include "journal_kit.h"

TEST(a_full_ring_waits_a_millisecond_once_then_drops_and_counts_until_half_empty, make_dir, drop_dir)
{
    struct vs_journal *j = create(1024);
    for (uint64_t i = 1; i <= 896; i++) /* seven eighths */
        assert_int_equal(add(j, i), i);
    uint64_t before = vs_clock_ns();
    assert_true(add(j, 1) == VS_SEQ_NONE);
    assert_true(vs_clock_ns() - before >= 1000000);
    before = vs_clock_ns();
    for (int i = 0; i < 100; i++)
        assert_true(add(j, 1) == VS_SEQ_NONE);
    assert_true(vs_clock_ns() - before < 50000000); /* 100 waits would be 100 ms */
    vs_journal_release(j, 200);
    assert_true(add(j, 1) == VS_SEQ_NONE); /* not half empty yet */
    vs_journal_release(j, 384);
    assert_int_equal(add(j, 5), 897); /* no sequence was consumed by the drops */
    assert_int_equal(stats_of(j).lost, 102);
    assert_int_equal(stats_of(j).lost_ends, 0);
    assert_int_equal(take_all(j, false), 513);
    vs_journal_close(j);
}

struct producer {
    struct vs_journal *j;
    uint64_t number;
};

static uint64_t offer(struct vs_journal *j, uint8_t op, uint64_t address)
{
    return vs_journal_try_append(j, &(struct vs_event){.op = op, .address = address});
}

static struct vs_journal *create_with(uint8_t op, uint64_t n, uint32_t slots)
{
    struct vs_journal *j = create(slots);
    for (uint64_t i = 1; i <= n; i++)
        assert_int_equal(offer(j, op, i << 9), i);
    return j;
}

TEST(the_last_eighth_of_the_ring_takes_that_a_block_is_back, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    assert_true(offer(j, VS_OP_ALLOC, 7) == VS_SEQ_NONE);
    assert_int_equal(offer(j, VS_OP_BLOCK_AWAY, 7), 57);
    vs_journal_close(j);
}

TEST(the_last_eighth_of_the_ring_takes_ends_only_and_a_lost_end_is_counted_with_its_place, make_dir, drop_dir)
{
    static const uint8_t ends[] = {VS_OP_FREE,   VS_OP_FREE_FAILED,     VS_OP_PHYS_RELEASE, VS_OP_UNMAP,
                                   VS_OP_UNBIND, VS_OP_CONTEXT_DESTROY, VS_OP_BLOCK_FREE,   VS_OP_RANGE_POP};
    static const uint8_t others[] = {VS_OP_ALLOC, VS_OP_PHYS_CREATE, VS_OP_BLOCK_ALLOC, VS_OP_RANGE_PUSH,
                                     VS_OP_MAP,   VS_OP_SAMPLE,      VS_OP_MARK,        VS_OP_CONTEXT_CREATE};
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    uint64_t seen = 0, first, last;
    for (int i = 0; i < 8; i++)
        assert_true(offer(j, others[i], 7) == VS_SEQ_NONE);
    assert_int_equal(stats_of(j).lost, 7); /* a push is kept by its caller, and no loss yet */
    assert_false(vs_journal_lost_ends(j, &seen, &first, &last));
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(offer(j, ends[i], i + 100), 57 + i);
    assert_true(offer(j, VS_OP_FREE, 9) == VS_SEQ_NONE);
    assert_true(offer(j, VS_OP_RANGE_POP, 9) == VS_SEQ_NONE); /* kept, like a push ... */
    assert_int_equal(stats_of(j).lost_ends, 1);
    vs_journal_count_lost(j, VS_OP_RANGE_POP); /* ... or not */
    assert_int_equal(stats_of(j).lost_ends, 2);
    assert_true(vs_journal_lost_ends(j, &seen, &first, &last));
    assert_int_equal(first, 65);
    assert_int_equal(last, 65);
    assert_false(vs_journal_lost_ends(j, &seen, &first, &last));
    vs_journal_release(j, 4);
    assert_int_equal(offer(j, VS_OP_FREE, 1), 65);
    assert_true(offer(j, VS_OP_ALLOC, 8) == VS_SEQ_NONE);
    vs_journal_close(j);
}

TEST(the_free_of_an_allocation_that_was_dropped_takes_no_room_and_is_no_lost_end, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    for (uint64_t i = 1; i <= 1000; i++) {
        assert_true(offer(j, VS_OP_ALLOC, i << 20) == VS_SEQ_NONE);
        assert_true(offer(j, VS_OP_BLOCK_ALLOC, i << 20) == VS_SEQ_NONE);
        assert_true(offer(j, VS_OP_FREE, i << 20) == VS_SEQ_NONE);
        assert_true(offer(j, VS_OP_BLOCK_FREE, i << 20) == VS_SEQ_NONE);
    }
    assert_int_equal(stats_of(j).head, 57);
    assert_int_equal(stats_of(j).lost, 4000);
    assert_int_equal(stats_of(j).lost_ends, 0);
    assert_int_equal(offer(j, VS_OP_FREE, 1 << 9), 57); /* of one that was recorded */
    vs_journal_close(j);
}

TEST(an_address_is_forgotten_once_it_is_recorded_as_allocated_again, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    assert_true(offer(j, VS_OP_ALLOC, 1 << 20) == VS_SEQ_NONE); /* its free is not seen */
    vs_journal_release(j, 56);
    assert_int_equal(offer(j, VS_OP_ALLOC, 1 << 20), 57);
    assert_int_equal(offer(j, VS_OP_BLOCK_FREE, 1 << 20), 58); /* another thing at the same address */
    assert_int_equal(offer(j, VS_OP_FREE, 1 << 20), 59);
    vs_journal_close(j);
}

TEST(a_blocks_tensor_does_not_keep_its_dropped_address, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_BLOCK_ALLOC, 56, 64);
    assert_true(offer(j, VS_OP_BLOCK_ALLOC, 1 << 20) == VS_SEQ_NONE); /* its free is not seen */
    vs_journal_release(j, 56);
    struct vs_event block = {.op = VS_OP_BLOCK_ALLOC, .address = 1 << 20, .status = 7}; /* a tensor's id */
    assert_int_equal(vs_journal_try_append(j, &block), 57);
    assert_int_equal(offer(j, VS_OP_BLOCK_FREE, 1 << 20), 58);
    vs_journal_close(j);
}

TEST(a_refused_allocation_that_was_dropped_leaves_nothing_to_free, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    struct vs_event refused = {.op = VS_OP_ALLOC, .address = 1 << 20, .status = 2};
    assert_true(vs_journal_try_append(j, &refused) == VS_SEQ_NONE);
    assert_int_equal(offer(j, VS_OP_FREE, 1 << 20), 57);
    vs_journal_close(j);
}

TEST(more_dropped_allocations_than_can_be_remembered_cost_room_and_nothing_else, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    uint64_t n = 100000, recorded = 0;
    for (uint64_t i = 1; i <= n; i++)
        offer(j, VS_OP_ALLOC, i << 21);
    for (uint64_t i = 1; i <= n; i++) {
        recorded += offer(j, VS_OP_FREE, i << 21) != VS_SEQ_NONE;
        take_all(j, false);
    }
    assert_in_range(recorded, n - 65536, n - 60000); /* nearly every place is used */
    assert_int_equal(stats_of(j).lost, 2 * n - recorded);
    assert_int_equal(stats_of(j).lost_ends, 0);
    vs_journal_close(j);
}

static void hold(struct vs_journal *j, uint8_t op, uint64_t address, uint64_t mib)
{
    vs_journal_try_append(
        j, &(struct vs_event){.op = op, .space = VS_SPACE_DEVICE, .address = address, .size = mib << 20});
}

static void expect(size_t i, uint8_t op, uint64_t mib)
{
    assert_int_equal(events[i].op, op);
    assert_int_equal(events[i].size, mib << 20);
}

TEST(the_bytes_of_dropped_allocations_are_told_as_one_with_the_most_that_lived_first, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    for (uint64_t i = 1; i <= 3; i++)
        hold(j, VS_OP_ALLOC, i << 20, 10);
    hold(j, VS_OP_FREE, 1 << 20, 0);
    assert_int_equal(take_all(j, false), 56);
    hold(j, VS_OP_ALLOC, 9 << 20, 1);
    assert_int_equal(take_all(j, false), 4);
    expect(0, VS_OP_ALLOC, 30); /* was held, with all that was recorded before */
    expect(1, VS_OP_FREE, 0);
    expect(2, VS_OP_ALLOC, 20);
    expect(3, VS_OP_ALLOC, 1);
    assert_int_equal(events[1].address, events[0].address);
    assert_int_not_equal(events[0].stack, 0); /* "(events lost ...)" in the place of a line */
    hold(j, VS_OP_FREE, 2 << 20, 0);
    hold(j, VS_OP_FREE, 3 << 20, 0);
    vs_journal_tell_dropped(j, 1); /* as the drain does */
    assert_int_equal(take_all(j, false), 1);
    expect(0, VS_OP_FREE, 0);
    vs_journal_close(j);
}

TEST(dropped_bytes_end_with_their_context_and_are_no_second_time_what_a_framework_carves, make_dir, drop_dir)
{
    struct vs_journal *j = create_with(VS_OP_ALLOC, 56, 64);
    hold(j, VS_OP_ALLOC, 1 << 20, 10);
    assert_int_equal(take_all(j, false), 56);
    hold(j, VS_OP_CONTEXT_DESTROY, 7, 0);
    hold(j, VS_OP_FREE, 1 << 20, 0); /* takes nothing away a second time */
    hold(j, VS_OP_ALLOC, 2 << 20, 1);
    assert_int_equal(take_all(j, false), 4);
    expect(0, VS_OP_ALLOC, 10); /* the most that lived, until the context ended */
    expect(1, VS_OP_FREE, 0);
    for (uint64_t i = 0; i < 60; i++)
        hold(j, VS_OP_BLOCK_ALLOC, (i + 100) << 20, 1);
    hold(j, VS_OP_ALLOC, 3 << 20, 100); /* dropped: the framework's, perhaps */
    take_all(j, false);
    hold(j, VS_OP_MARK, 0, 0);
    size_t n = take_all(j, false);
    for (size_t i = 0; i < n; i++)
        assert_true(events[i].op != VS_OP_ALLOC);
    assert_int_equal(events[0].op, VS_OP_BLOCK_ALLOC); /* its blocks are told */
    vs_journal_close(j);
}

#define SPINNERS 4

static void *spin_on_pairs(void *arg)
{
    struct producer *p = arg;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t address = p->number << 40 | i % 50 << 20;
        vs_journal_append(p->j, &(struct vs_event){.op = VS_OP_ALLOC, .address = address, .size = 1});
        vs_journal_append(p->j, &(struct vs_event){.op = VS_OP_FREE, .address = address});
    }
    return NULL;
}

/* What lives after each event: never more than one of each thread, and in the end nothing. */
TEST(threads_that_allocate_and_free_against_a_slow_drain_never_seem_to_hold_more_than_they_do, make_dir,
     drop_dir)
{
    struct vs_journal *j = create(256);
    struct producer p[SPINNERS] = {0};
    pthread_t t[SPINNERS];
    int64_t living = 0;
    for (uint64_t i = 0; i < SPINNERS; i++) {
        p[i] = (struct producer){.j = j, .number = i + 1};
        pthread_create(&t[i], NULL, spin_on_pairs, &p[i]);
    }
    int joined = 0;
    for (size_t n = 1; joined < SPINNERS || n;) {
        if (joined < SPINNERS && pthread_tryjoin_np(t[joined], NULL) == 0)
            joined++;
        n = take_all(j, joined == SPINNERS);
        for (size_t i = 0; i < n; i++) {
            living += events[i].op == VS_OP_ALLOC ? 1 : -1;
            assert_in_range(living, 0, SPINNERS);
        }
        usleep(200);
    }
    assert_int_equal(living, 0);
    assert_true(stats_of(j).lost > 1000);
    assert_int_equal(stats_of(j).lost_ends, 0);
    vs_journal_close(j);
}
