/* test_blocks_by_role.c - which blocks a request of another process is about: those of the arena that live,
 * by what the framework said that they are for. */
#include "ledger_kit.h"
#include "trace/roles.h"

#define BIT(role) (1u << VS_ROLE_##role)
#define ARENA     0x100000ull

static void arena_block(struct kit *k, uint64_t address, uint64_t size)
{
    k->framework += size;
    feed(k, (struct vs_event){.op = VS_OP_BLOCK_ALLOC,
                              .space = VS_SPACE_ARENA,
                              .address = address,
                              .size = size,
                              .arg0 = k->framework});
}

static void tell(struct kit *k, uint64_t address, enum vs_role role)
{
    feed(k, (struct vs_event){.op = VS_OP_FRAMEWORK_ROLE, .address = address, .arg1 = role});
}

/* Five blocks of the arena: two parameters, a gradient, a state, and one that nobody spoke of. */
static void five(struct kit *k)
{
    for (uint64_t i = 0; i < 5; i++)
        arena_block(k, ARENA * (i + 1), 512 * (i + 1));
    tell(k, ARENA * 1, VS_ROLE_PARAMETER);
    tell(k, ARENA * 2, VS_ROLE_PARAMETER);
    tell(k, ARENA * 3, VS_ROLE_GRADIENT);
    tell(k, ARENA * 4, VS_ROLE_STATE);
}

/* The sum of the sizes of the blocks, in units of 512 bytes: says which of the five they are. */
static size_t units(struct kit *k, uint32_t roles, uint32_t keep, size_t *named)
{
    struct vs_control_block b[16];
    struct vs_control_request q = {.kind = VS_CONTROL_SUSPEND, .roles = roles, .keep = keep};
    size_t n = vs_ledger_blocks(k->l, &q, b, 16, named), sum = 0;
    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(b[i].size, b[i].address / ARENA * 512);
        sum += b[i].size / 512;
    }
    return sum;
}

TEST(the_blocks_of_roles_that_were_told, kit_setup, kit_teardown)
{
    KIT;
    size_t named;
    five(k);
    assert_int_equal(units(k, BIT(PARAMETER), 0, &named), 1 + 2);
    assert_int_equal(named, 2);
    assert_int_equal(units(k, BIT(GRADIENT) | BIT(STATE), 0, &named), 3 + 4);
    assert_int_equal(named, 2);
    assert_int_equal(units(k, BIT(BUFFER), 0, &named), 0);
    assert_int_equal(named, 0);
    assert_int_equal(units(k, 0, BIT(PARAMETER), &named), 3 + 4 + 5);
    assert_int_equal(named, 2);
    assert_int_equal(units(k, 0, BIT(BUFFER), &named), 1 + 2 + 3 + 4 + 5);
    assert_int_equal(named, 0); /* nothing of what is to stay is known */
}

TEST(what_was_freed_or_is_another_allocators_is_not_among_them, kit_setup, kit_teardown)
{
    KIT;
    size_t named;
    five(k);
    k->framework -= 512;
    feed(k, (struct vs_event){.op = VS_OP_BLOCK_FREE,
                              .space = VS_SPACE_ARENA,
                              .address = ARENA,
                              .size = 512,
                              .arg0 = k->framework});
    assert_int_equal(units(k, BIT(PARAMETER), 0, &named), 2);
    /* of the driver's, and blocks that PyTorch's own allocator carves out of the arena's memory */
    alloc(k, ARENA * 8, 512);
    alloc_in(k, VS_SPACE_ARENA, ARENA * 9, 4 * MIB);
    block(k, ARENA * 9, 512);
    tell(k, ARENA * 9, VS_ROLE_PARAMETER);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(units(k, BIT(PARAMETER), 0, &named), 2);
    assert_int_equal(units(k, 0, BIT(STATE), &named), 2 + 3 + 5);
    /* but what a program got of the arena without a framework is */
    alloc_in(k, VS_SPACE_ARENA, ARENA * 90, 512 * 90);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(units(k, 0, BIT(STATE), &named), 2 + 3 + 5 + 90);
}

TEST(a_list_that_is_too_short_is_filled_and_its_true_length_said, kit_setup, kit_teardown)
{
    KIT;
    size_t named;
    struct vs_control_block b[2] = {{.size = 0}, {.size = 77}};
    struct vs_control_request q = {.roles = BIT(PARAMETER)};
    five(k);
    assert_int_equal(vs_ledger_blocks(k->l, &q, b, 1, &named), 2);
    assert_int_not_equal(b[0].size, 0);
    assert_int_equal(b[1].size, 77);
    assert_int_equal(vs_ledger_blocks(k->l, &q, NULL, 0, &named), 2);
}
