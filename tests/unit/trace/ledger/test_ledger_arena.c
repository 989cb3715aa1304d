/* test_ledger_arena.c - what our own allocator holds and gives: counted once, whoever carves its blocks; its
 * figures. */
#include "ledger_kit.h"

static void holds(struct kit *k, uint64_t bytes)
{
    feed(k, (struct vs_event){.op = VS_OP_ARENA_RESERVED, .space = VS_SPACE_ARENA, .size = bytes});
}

TEST(a_block_is_direct_and_its_memory_is_what_the_arena_holds, kit_setup, kit_teardown)
{
    KIT;
    holds(k, 2 * MIB);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    assert_int_equal(last(k)->direct, 0);
    alloc_in(k, VS_SPACE_ARENA, 0x1000, 5000);
    alloc_in(k, VS_SPACE_ARENA, 0x9000, MIB);
    release(k, 0x9000);
    vs_ledger_flush(k->l, &k->out); /* no framework: nobody carves them */
    assert_int_equal(row_of(k, VS_OP_ALLOC)->direct, MIB + 5000);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->reserved, 2 * MIB);
    assert_int_equal(last(k)->direct, 5000);
    assert_int_equal(last(k)->size, MIB);
    assert_int_equal(last(k)->reserved, 2 * MIB); /* the arena keeps it */
    holds(k, 0);
    assert_int_equal(last(k)->reserved, 5000); /* never less than what lives */
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), 5000);
}

TEST(driver_memory_beside_the_arena_is_added, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, 3 * MIB);
    release(k, 0x200000);
    holds(k, 8 * MIB);
    alloc_in(k, VS_SPACE_POOL, 0x300000, MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 12 * MIB);
    assert_int_equal(last(k)->direct, 4 * MIB);
}

/* A caching allocator on top: its segments are blocks of the arena. */
TEST(a_segment_is_managed_and_reserved_once, kit_setup, kit_teardown)
{
    KIT;
    holds(k, 20 * MIB);
    k->reserved = 20 * MIB;
    alloc_in(k, VS_SPACE_ARENA, 0x1000000, 20 * MIB);
    block(k, 0x1000000, 3 * MIB);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->managed, 1);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->direct, 0);
    assert_int_equal(last(k)->framework, 3 * MIB);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 20 * MIB);
    alloc_in(k, VS_SPACE_ARENA, 0x8000, 512); /* a library's own */
    unblock(k, 0x1000000, 3 * MIB);
    assert_int_equal(last(k)->direct, 512);
    assert_int_equal(last(k)->reserved, 20 * MIB + 512); /* more lives than was told */
    release(k, 0x1000000);
    assert_int_equal(last(k)->managed, 1);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 0);
    assert_int_equal(last(k)->reserved, 20 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

/* No cache, and each block reported as well: once, not twice. */
TEST(a_block_that_is_reported_too_counts_once, kit_setup, kit_teardown)
{
    KIT;
    holds(k, 4 * MIB);
    alloc_in(k, VS_SPACE_ARENA, 0x1000, MIB);
    k->reserved = MIB;
    block(k, 0x1000, MIB);
    assert_int_equal(last(k)->framework, MIB);
    assert_int_equal(last(k)->direct, 0);
    unblock(k, 0x1000, MIB);
    release(k, 0x1000);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 4 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

TEST(a_later_discovery_moves_a_block_and_no_total_but_direct, kit_setup, kit_teardown)
{
    KIT;
    holds(k, 4 * MIB);
    alloc_in(k, VS_SPACE_ARENA, 0x1000000, 2 * MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, 2 * MIB);
    k->reserved = 2 * MIB;
    block(k, 0x1000000, 512);
    assert_int_equal(row_of(k, VS_OP_RECLASSIFY)->direct, 0);
    assert_int_equal(last(k)->framework, 512);
    assert_int_equal(last(k)->reserved, 4 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

/* The pluggable allocator: blocks of a framework, and no allocation of the driver's. */
TEST(a_framework_s_blocks_may_lie_in_the_arena_themselves, kit_setup, kit_teardown)
{
    KIT;
    holds(k, 6 * MIB);
    block(k, 0x1000, 5 * MIB);
    assert_int_equal(last(k)->framework, 5 * MIB);
    assert_int_equal(last(k)->reserved, 6 * MIB);
    unblock(k, 0x1000, 5 * MIB);
    assert_int_equal(last(k)->framework, 0);
    assert_int_equal(last(k)->reserved, 6 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

TEST(each_device_has_its_own, kit_setup, kit_teardown)
{
    KIT;
    k->device = 1;
    holds(k, 4 * MIB);
    k->device = 2;
    holds(k, 6 * MIB);
    assert_int_equal(last(k)->reserved, 6 * MIB);
    assert_int_equal(curve_end(k, 1, VS_CURVE_RESERVED), 4 * MIB);
}

TEST(blocks_end_with_the_context_that_they_were_made_in, kit_setup, kit_teardown)
{
    KIT;
    holds(k, 4 * MIB);
    feed(k, (struct vs_event){
                .op = VS_OP_ALLOC, .space = VS_SPACE_ARENA, .address = 0x1000, .size = MIB, .context = 3});
    vs_ledger_flush(k->l, &k->out);
    feed(k, (struct vs_event){
                .op = VS_OP_CONTEXT_DESTROY, .address = 0xc, .context = 3, .arg0 = VS_CONTEXT_PRIMARY});
    assert_int_equal(row_of(k, VS_OP_CONTEXT_FREED)->direct, 0);
    holds(k, 0);
    assert_int_equal(last(k)->reserved, 0);
}

/* ---- figures ---- */

static void part(struct kit *k, uint32_t sample, uint32_t number)
{
    uint64_t first = 1000 * sample + 4 * number;
    feed(k, (struct vs_event){.op = VS_OP_ARENA_FIGURES,
                              .range = sample,
                              .stack = number,
                              .address = first,
                              .size = first + 1,
                              .arg0 = first + 2,
                              .arg1 = first + 3});
}

TEST(a_sample_is_put_together_of_its_parts_and_no_row_of_the_events, kit_setup, kit_teardown)
{
    KIT;
    for (uint32_t i = 0; i < VS_FIGURE_PARTS; i++) {
        part(k, 1, i);
        alloc_in(k, VS_SPACE_POOL, 0x1000 * (i + 1), 1); /* another thread's event */
    }
    assert_int_equal(k->out.arenas.n, 1);
    assert_int_equal(k->out.rows.n, VS_FIGURE_PARTS);
    for (uint64_t i = 0; i < VS_FIGURE_END; i++)
        assert_int_equal(k->out.arenas.at[0].figure[i], 1000 + i);
    assert_int_equal(k->out.arenas.at[0].device, 0);
}

TEST(a_sample_that_lacks_a_part_is_none, kit_setup, kit_teardown)
{
    KIT;
    for (uint32_t i = 0; i + 1 < VS_FIGURE_PARTS; i++)
        part(k, 1, i);
    for (uint32_t i = 1; i < VS_FIGURE_PARTS; i++)
        part(k, 2, i);
    part(k, 2, VS_FIGURE_PARTS); /* of a newer shim */
    assert_int_equal(k->out.arenas.n, 0);
    for (uint32_t i = 0; i < VS_FIGURE_PARTS; i++)
        part(k, 3, i);
    assert_int_equal(k->out.arenas.n, 1);
    assert_int_equal(k->out.arenas.at[0].figure[0], 3000);
    assert_int_equal(k->out.rows.n, 0);
}
