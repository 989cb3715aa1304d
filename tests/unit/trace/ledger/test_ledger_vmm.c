/*
 * test_ledger_vmm.c - virtual memory management in the ledger: physical memory lives until its references and
 * its mappings are gone, counts once however often it is mapped, and belongs to whose reservation it is
 * mapped into.
 */
#include "ledger_kit.h"

TEST(physical_memory_lives_until_references_and_mappings_are_gone, kit_setup, kit_teardown)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->size, 0);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    assert_int_equal(last(k)->op, VS_OP_PHYS_FREED);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->reserved, 0);
}

TEST(release_after_unmap_frees_and_says_how_much, kit_setup, kit_teardown)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->op, VS_OP_PHYS_RELEASE);
    assert_int_equal(last(k)->size, 2 * MIB);
    assert_int_equal(last(k)->reserved, 0);
}

TEST(one_unmap_may_end_several_allocations, kit_setup, kit_teardown)
{
    KIT;
    for (uint64_t i = 0; i < 3; i++) {
        create(k, 0x70 + i, 2 * MIB);
        vmm(k, VS_OP_MAP, 0x10000000 + i * 2 * MIB, 2 * MIB, 0x70 + i);
        vmm(k, VS_OP_PHYS_RELEASE, 0x70 + i, 0, 0);
    }
    vmm(k, VS_OP_UNMAP, 0x10000000, 6 * MIB, 0);
    vs_ledger_flush(k->l, &k->out);
    size_t n = k->out.rows.n;
    assert_int_equal(k->out.rows.at[n - 4].op, VS_OP_UNMAP);
    assert_int_equal(k->out.rows.at[n - 4].reserved, 6 * MIB);
    assert_int_equal(k->out.rows.at[n - 3].reserved, 4 * MIB);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(vs_ledger_live_count(k->l), 0);
}

TEST(two_mappings_of_one_handle_count_once, kit_setup, kit_teardown)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_MAP, 0x20000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_UNMAP, 0x20000000, 2 * MIB, 0);
    assert_int_equal(last(k)->reserved, 0);
}

TEST(retain_by_address_adds_a_reference, kit_setup, kit_teardown)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vmm(k, VS_OP_PHYS_RETAIN, 0x88, 0, 0x10000000 + MIB);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_PHYS_RELEASE, 0x88, 0, 0);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(last(k)->mate, 1);
}

TEST(host_located_memory_has_its_own_curve, kit_setup, kit_teardown)
{
    KIT;
    vmm(k, VS_OP_PHYS_CREATE, 0x77, 2 * MIB, 3ull << 32);
    assert_int_equal(last(k)->space, VS_SPACE_HOST_VMM);
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_HOST_VMM), 2 * MIB);
}

TEST(failed_unmap_and_release_take_their_effect_back, kit_setup, kit_teardown)
{
    KIT;
    create(k, 0x77, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x10000000, 2 * MIB, 0x77);
    vmm(k, VS_OP_PHYS_RELEASE, 0x77, 0, 0);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    vmm(k, VS_OP_FREE_FAILED, 0x10000000, 0, k->ring);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
    vmm(k, VS_OP_UNMAP, 0x10000000, 2 * MIB, 0);
    assert_int_equal(last(k)->reserved, 0);
    create(k, 0x99, 2 * MIB);
    vmm(k, VS_OP_PHYS_RELEASE, 0x99, 0, 0);
    vmm(k, VS_OP_FREE_FAILED, 0x99, 0, k->ring);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->reserved, 2 * MIB);
}

/* What PyTorch's expandable segments do: reserve, create, map, set access, report a block. */
TEST(expandable_segment_is_managed_from_birth, kit_setup, kit_teardown)
{
    KIT;
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    for (uint64_t i = 0; i < 3; i++)
        create(k, 0x70 + i, 20 * MIB);
    for (uint64_t i = 0; i < 3; i++)
        vmm(k, VS_OP_MAP, 0x200000000 + i * 20 * MIB, 20 * MIB, 0x70 + i);
    vmm(k, VS_OP_SET_ACCESS, 0x200000000, 60 * MIB, 1);
    k->reserved = 60 * MIB;
    block(k, 0x200000000, 50 * MIB);
    for (size_t i = 0; i < k->out.rows.n; i++) {
        assert_int_equal(k->out.rows.at[i].direct, 0);
        if (k->out.rows.at[i].op == VS_OP_PHYS_CREATE)
            assert_int_equal(k->out.rows.at[i].managed, 1);
    }
    assert_int_equal(last(k)->reserved, 60 * MIB);
    assert_int_equal(k->out.mismatches.n, 0);
    unblock(k, 0x200000000, 50 * MIB);
    for (uint64_t i = 0; i < 3; i++) {
        vmm(k, VS_OP_UNMAP, 0x200000000 + i * 20 * MIB, 20 * MIB, 0);
        vmm(k, VS_OP_PHYS_RELEASE, 0x70 + i, 0, 0);
    }
    assert_int_equal(last(k)->reserved, 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 0);
}

TEST(mapping_into_a_frameworks_reservation_reclassifies, kit_setup, kit_teardown)
{
    KIT;
    vmm(k, VS_OP_VA_RESERVE, 0x200000000, 1024 * MIB, 0);
    create(k, 0x70, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x200000000, 2 * MIB, 0x70);
    k->reserved = 2 * MIB;
    block(k, 0x200000000, MIB);
    create(k, 0x71, 2 * MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(last(k)->direct, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x200000000 + 2 * MIB, 2 * MIB, 0x71);
    assert_int_equal(last(k)->direct, 0);
    assert_int_equal(row_of(k, VS_OP_RECLASSIFY)->size, 2 * MIB);
}
