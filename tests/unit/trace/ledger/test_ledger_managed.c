/*
 * test_ledger_managed.c - whether an allocation is managed, that is made by a caching allocator to carve
 * blocks from, or direct: by what the thread reports next, by age, by whose code asked, and by what became of
 * the piece.
 */
#include "ledger_kit.h"

/* ---- what is reported next, and age ---- */

TEST(first_segment_is_managed_from_birth, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    assert_int_equal(k->out.rows.n, 0); /* held back */
    k->reserved = 20 * MIB;
    block(k, 0x100000, MIB);
    assert_int_equal(k->out.rows.n, 2);
    assert_int_equal(k->out.rows.at[0].managed, 1);
    assert_int_equal(k->out.rows.at[0].direct, 0);
    assert_int_equal(k->out.rows.at[0].reserved, 20 * MIB);
    assert_int_equal(last(k)->framework, MIB);
    assert_int_equal(k->out.mismatches.n, 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 20 * MIB);
}

TEST(threads_next_report_elsewhere_means_direct, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    k->reserved = 20 * MIB;
    block(k, 0x100000, MIB);
    alloc(k, 0x9000000, 8 * MIB); /* cuBLAS's workspace */
    block(k, 0x100000 + MIB, MIB);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->managed, 0);
    assert_int_equal(row_of(k, VS_OP_ALLOC)->direct, 8 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

TEST(other_threads_report_decides_nothing_but_its_own, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB); /* thread 1 */
    k->thread = 2;
    block(k, 0x700000000, MIB);
    assert_int_equal(k->out.rows.n, 0);
    assert_int_equal(vs_ledger_held(k->l), 2);
    k->thread = 1;
    unblock(k, 0x700000000, MIB);
    assert_int_equal(k->out.rows.n, 3);
    assert_int_equal(k->out.rows.at[0].managed, 0);
}

TEST(rows_stay_in_order_behind_a_provisional_one, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    k->thread = 3;
    alloc_in(k, VS_SPACE_PINNED, 0x1, 5);
    k->thread = 1;
    block(k, 0x100000, MIB);
    assert_int_equal(k->out.rows.at[0].op, VS_OP_ALLOC);
    assert_int_equal(k->out.rows.at[1].space, VS_SPACE_PINNED);
    assert_int_equal(k->out.rows.at[2].op, VS_OP_BLOCK_ALLOC);
    assert_int_equal(vs_ledger_ring_seq(k->l), 3);
}

TEST(age_decides_for_direct, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, MIB);
    k->t += 60000000;
    k->thread = 2;
    alloc_in(k, VS_SPACE_PINNED, 0x1, 5);
    assert_int_equal(k->out.rows.n, 2);
    assert_int_equal(k->out.rows.at[0].managed, 0);
}

TEST(without_a_framework_look_ahead_is_short, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, MIB);
    for (int i = 0; i < 1030; i++)
        alloc_in(k, VS_SPACE_PINNED, 0x1000 + (uint64_t)i, 5);
    assert_true(k->out.rows.n > 1000);
    assert_int_equal(k->out.rows.at[0].direct, MIB);
}

TEST(flush_decides_for_direct, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, MIB);
    assert_int_equal(vs_ledger_held(k->l), 0);
}

TEST(late_discovery_is_a_row_and_moves_the_bytes, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x100000, 20 * MIB);
    vs_ledger_flush(k->l, &k->out);
    k->reserved = 20 * MIB;
    block(k, 0x100000 + MIB, MIB);
    struct vs_row *r = row_of(k, VS_OP_RECLASSIFY);
    assert_int_equal(r->mate, 1);
    assert_int_equal(r->size, 20 * MIB);
    assert_int_equal(r->direct, 0);
    assert_int_equal(r->reserved, 20 * MIB);
    assert_int_equal(last(k)->seq, 3);
    assert_int_equal(k->out.amends.at[0].seq, 1);
    assert_int_equal(k->out.rows.at[0].direct, 20 * MIB); /* the past stays */
    assert_int_equal(k->out.mismatches.n, 0);
}

/* ---- whose code asked, and pieces that never came to hold a block ---- */

static void piece(struct kit *k, uint64_t handle, enum vs_caller caller, uint16_t status)
{
    feed(k, (struct vs_event){.op = VS_OP_PHYS_CREATE,
                              .address = handle,
                              .size = 20 * MIB,
                              .arg0 = 1ull << 32,
                              .arg1 = 7 | VS_CALLED_BY(caller),
                              .status = status});
}

static void give_up(struct kit *k, uint64_t size)
{
    feed(k,
         (struct vs_event){.op = VS_OP_BLOCK_OOM, .size = size, .arg0 = k->framework, .arg1 = k->reserved});
}

TEST(what_a_caching_allocators_code_asks_for_is_managed_at_once, kit_setup, kit_teardown)
{
    KIT;
    for (uint64_t i = 0; i < 3; i++)
        piece(k, 0x70 + i, VS_CALLER_CARVER, 0);
    feed(k, (struct vs_event){.op = VS_OP_ALLOC,
                              .space = VS_SPACE_DEVICE,
                              .address = 0x1000,
                              .size = MIB,
                              .arg1 = 7 | VS_CALLED_BY(VS_CALLER_CARVER)});
    assert_int_equal(vs_ledger_held(k->l), 0);
    assert_int_equal(k->out.rows.n, 4);
    assert_int_equal(last(k)->managed, 1);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 61 * MIB);
    assert_int_equal(last(k)->api, 7);
}

/* Neither allocated nor nothing: held, and its use unknown; what is known beside it stays so. */
TEST(what_a_librarys_pool_asks_for_is_reserved_and_nothing_else, kit_setup, kit_teardown)
{
    KIT;
    struct vs_event e = {.op = VS_OP_ALLOC,
                         .space = VS_SPACE_DEVICE,
                         .address = 0x1000000,
                         .size = 512 * MIB,
                         .arg1 = 7 | VS_CALLED_BY(VS_CALLER_POOL)};
    feed(k, e);
    assert_int_equal(last(k)->managed, VS_UNKNOWN_USE);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 512 * MIB);
    end_batch(k);
    for (size_t i = 0; i < k->out.peaks.n; i++)
        if (k->out.peaks.at[i].curve == VS_CURVE_ALLOCATED)
            assert_true(k->out.peaks.at[i].peak == VS_BYTES_UNKNOWN && k->out.peaks.at[i].known == 0);
    assert_true(stat_of(k, 0, 0)->allocated == VS_BYTES_UNKNOWN);
    release(k, 0x1000000);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_UNKNOWN_USE), 0);
}

TEST(arenas_block_of_a_pool_is_reserved_once, kit_setup, kit_teardown)
{
    KIT;
    feed(k, (struct vs_event){.op = VS_OP_ARENA_RESERVED, .size = 4 * MIB});
    feed(k, (struct vs_event){.op = VS_OP_ALLOC,
                              .space = VS_SPACE_ARENA,
                              .address = 0x1000000,
                              .size = 3 * MIB,
                              .arg1 = VS_CALLED_BY(VS_CALLER_POOL)});
    assert_int_equal(last(k)->reserved, 4 * MIB);
    assert_int_equal(last(k)->direct, 0);
}

TEST(known_piece_does_not_pass_what_is_held_before_it, kit_setup, kit_teardown)
{
    KIT;
    alloc(k, 0x9000000, 8 * MIB);
    piece(k, 0x70, VS_CALLER_CARVER, 0);
    assert_int_equal(k->out.rows.n, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(k->out.rows.at[0].direct, 8 * MIB);
    assert_int_equal(last(k)->managed, 1);
    assert_int_equal(last(k)->direct, 8 * MIB);
}

TEST(pieces_given_back_before_an_out_of_memory_are_the_frameworks, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x7000, 0);
    for (uint64_t i = 0; i < 3; i++)
        piece(k, 0x70 + i, VS_CALLER_UNKNOWN, 0);
    create(k, 0x90, MIB); /* another size: the thread's own */
    piece(k, 0, VS_CALLER_UNKNOWN, 2);
    for (uint64_t i = 0; i < 3; i++)
        vmm(k, VS_OP_PHYS_RELEASE, 0x70 + i, 0, 0);
    vmm(k, VS_OP_PHYS_RELEASE, 0x90, 0, 0);
    give_up(k, 100 * MIB);
    for (size_t i = 0; i < k->out.rows.n; i++)
        assert_true(k->out.rows.at[i].direct <= MIB);
    assert_int_equal(row_of(k, VS_OP_PHYS_CREATE)->direct, MIB);
    assert_int_equal(row_of(k, VS_OP_PHYS_CREATE)->reserved, 61 * MIB);
}

TEST(pieces_given_back_without_a_refusal_are_direct, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x7000, 0);
    piece(k, 0x70, VS_CALLER_UNKNOWN, 0);
    vmm(k, VS_OP_PHYS_RELEASE, 0x70, 0, 0);
    give_up(k, 100 * MIB);
    assert_int_equal(row_of(k, VS_OP_PHYS_CREATE)->direct, 20 * MIB);
}

TEST(pieces_of_a_first_try_go_with_those_of_the_second, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x7000, 0);
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    piece(k, 0x70, VS_CALLER_UNKNOWN, 0);
    piece(k, 0, VS_CALLER_UNKNOWN, 2);
    vmm(k, VS_OP_PHYS_RELEASE, 0x70, 0, 0);
    for (uint64_t i = 0; i < 2; i++)
        piece(k, 0x70 + i, VS_CALLER_UNKNOWN, 0); /* the same handle again */
    for (uint64_t i = 0; i < 2; i++)
        vmm(k, VS_OP_MAP, 0x200000000 + i * 20 * MIB, 20 * MIB, 0x70 + i);
    k->reserved = 40 * MIB;
    block(k, 0x200000000, 30 * MIB);
    for (size_t i = 0; i < k->out.rows.n; i++)
        assert_int_equal(k->out.rows.at[i].direct, 0);
    assert_int_equal(last(k)->reserved, 40 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
}

TEST(pieces_do_not_age_while_their_thread_goes_on, kit_setup, kit_teardown)
{
    KIT;
    block(k, 0x7000, 0);
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    for (uint64_t i = 0; i < 10; i++, k->t += 20000000)
        piece(k, 0x70 + i, VS_CALLER_UNKNOWN, 0);
    assert_int_equal(vs_ledger_held(k->l), 10);
    k->t += 60000000;
    alloc_in(k, VS_SPACE_PINNED, 0x100, 1);
    assert_int_equal(vs_ledger_held(k->l), 0);
}

TEST(known_piece_tells_of_its_whole_reservation, kit_setup, kit_teardown)
{
    KIT;
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    create(k, 0x70, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x200000000, 2 * MIB, 0x70);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, 2 * MIB);
    piece(k, 0x71, VS_CALLER_CARVER, 0);
    vmm(k, VS_OP_MAP, 0x200000000 + 20 * MIB, 20 * MIB, 0x71);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(last(k)->reserved, 22 * MIB);
    assert_int_equal(row_of(k, VS_OP_RECLASSIFY)->mate, 2);
}
