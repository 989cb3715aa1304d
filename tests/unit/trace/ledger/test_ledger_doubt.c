/*
 * Where ends were lost: from where to where the totals are upper bounds, and what an allocation is taken for
 * whose report may be among what was lost.
 */
#include "ledger_kit.h"

static const struct vs_doubt_row *doubt(struct kit *k,
                                        enum vs_curve curve) /* the last row of CURVE; NULL: none */
{
    end_batch(k);
    for (size_t i = k->out.doubts.n; i-- > 0;)
        if (k->out.doubts.at[i].device == 0 && k->out.doubts.at[i].curve == curve)
            return &k->out.doubts.at[i];
    return NULL;
}

static uint64_t from(struct kit *k, enum vs_curve curve)
{
    assert_non_null(doubt(k, curve));
    return doubt(k, curve)->from_seq;
}

static uint64_t to(struct kit *k, enum vs_curve curve)
{
    assert_non_null(doubt(k, curve));
    return doubt(k, curve)->to_seq;
}

static void lose_ends(struct kit *k)
{
    vs_ledger_lost_ends(k->l, k->ring + 1, k->ring + 1);
}

/* A segment that is managed, as a framework's first block in it says. */
static void segment(struct kit *k)
{
    alloc(k, 0x100000, 8 * MIB);
    k->reserved = 8 * MIB;
    block(k, 0x100000, MIB);
}

TEST(nothing_is_in_doubt_where_only_beginnings_were_lost, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k);
    vs_ledger_lost(k->l, k->ring + 1);
    k->framework += MIB; /* a block that the ring dropped */
    block(k, 0x300000, MIB);
    vs_ledger_finish(k->l, &k->out);
    assert_null(doubt(k, VS_CURVE_ALLOCATED));
}

TEST(direct_memory_is_in_doubt_until_none_is_alive, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc(k, 0x1000, 100);
    alloc(k, 0x2000, 100);
    vs_ledger_flush(k->l, &k->out);
    lose_ends(k); /* of 0x2000, say */
    alloc(k, 0x3000, 50);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(from(k, VS_CURVE_ALLOCATED), 3);
    assert_int_equal(from(k, VS_CURVE_RESERVED), 3);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
    release(k, 0x1000);
    release(k, 0x3000);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
    alloc(k, 0x2000, 10); /* handed out again: it had been freed */
    release(k, 0x2000);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), row_of(k, VS_OP_FREE_MISSED)->seq);
    assert_int_equal(to(k, VS_CURVE_RESERVED), row_of(k, VS_OP_FREE_MISSED)->seq);
}

TEST(a_report_that_equals_ours_ends_the_doubt_of_a_framework, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k);
    block(k, 0x200000, MIB);
    lose_ends(k);
    k->framework -= MIB; /* the block at 0x200000 was freed: lost */
    block(k, 0x300000, MIB);
    uint64_t begin = last(k)->seq;
    assert_int_equal(from(k, VS_CURVE_ALLOCATED), begin);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
    assert_int_equal(to(k, VS_CURVE_RESERVED), begin); /* the other figure is right */
    block(k, 0x200000, MIB);                           /* handed out again */
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), last(k)->seq);
}

TEST(a_report_of_less_than_ours_brings_the_doubt_back, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k);
    block(k, 0x200000, MIB);
    lose_ends(k);
    /* one block was freed and another made: both lost, and the sum is the same */
    block(k, 0x300000, MIB);
    uint64_t right = to(k, VS_CURVE_ALLOCATED);
    assert_int_equal(right, last(k)->seq);
    k->framework -= MIB; /* the unknown block's free goes the way of its beginning */
    block(k, 0x400000, MIB);
    assert_int_equal(from(k, VS_CURVE_ALLOCATED), last(k)->seq);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
}

TEST(direct_memory_stays_in_doubt_whatever_a_framework_reports, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k);
    alloc(k, 0x9000000, MIB);
    vs_ledger_flush(k->l, &k->out);
    lose_ends(k);
    block(k, 0x200000, MIB);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
    assert_int_equal(to(k, VS_CURVE_RESERVED), 0);
    release(k, 0x9000000);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), last(k)->seq);
}

TEST(nothing_is_shown_right_before_the_last_end_that_was_lost, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k);
    vs_ledger_lost_ends(k->l, k->ring + 1, k->ring + 3);
    block(k, 0x200000, MIB);
    block(k, 0x300000, MIB);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
    block(k, 0x400000, MIB);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), last(k)->seq);
}

TEST(ends_that_were_lost_last_of_all_put_the_end_in_doubt, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc(k, 0x1000, 100);
    vs_ledger_flush(k->l, &k->out);
    lose_ends(k);
    vs_ledger_finish(k->l, &k->out);
    assert_int_equal(from(k, VS_CURVE_ALLOCATED), 2);
    assert_int_equal(to(k, VS_CURVE_ALLOCATED), 0);
}

TEST(an_empty_device_has_nothing_in_doubt, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc(k, 0x1000, 100);
    release(k, 0x1000);
    lose_ends(k);
    alloc(k, 0x1000, 100);
    vs_ledger_finish(k->l, &k->out);
    assert_null(doubt(k, VS_CURVE_ALLOCATED));
}

TEST(a_segment_whose_report_may_be_lost_is_not_counted_as_direct, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    segment(k);
    alloc(k, 0x9000000, 20 * MIB);
    vs_ledger_lost(k->l, k->ring + 1); /* the block in it, say */
    k->framework += MIB, k->reserved += 20 * MIB;
    block(k, 0x200000, MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 28 * MIB);
    alloc(k, 0xa000000, 3 * MIB); /* nothing was lost since */
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), 3 * MIB);
}

TEST(without_a_framework_losses_make_nothing_managed, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc(k, 0x9000000, 20 * MIB);
    vs_ledger_lost(k->l, k->ring + 1);
    release(k, 0x8000000);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), 20 * MIB);
}
