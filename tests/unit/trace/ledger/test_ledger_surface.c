/* The ledger's answers for arrays, graphs, bindings, imports and contexts. */
#include "ledger_kit.h"

static uint64_t direct_now(struct kit *k)
{
    vs_ledger_flush(k->l, &k->out);
    return curve_end(k, 0, VS_CURVE_DIRECT);
}

static uint64_t reserved_now(struct kit *k)
{
    vs_ledger_flush(k->l, &k->out);
    return curve_end(k, 0, VS_CURVE_RESERVED);
}

static void bind_to(struct kit *k, uint64_t object, uint64_t key, uint64_t memory)
{
    feed(k, (struct vs_event){.op = VS_OP_BIND, .address = object, .arg0 = memory, .arg1 = key});
}

static uint64_t unbind(struct kit *k, uint64_t object, uint64_t key)
{
    return feed(k, (struct vs_event){.op = VS_OP_UNBIND, .address = object, .arg1 = key});
}

static uint64_t context(struct kit *k, uint8_t op, uint64_t handle, uint8_t id, uint64_t kind)
{
    return feed(k, (struct vs_event){.op = op, .address = handle, .context = id, .arg0 = kind, .size = 500});
}

static void failed(struct kit *k, uint64_t ring, uint64_t address)
{
    feed(k, (struct vs_event){.op = VS_OP_FREE_FAILED, .arg0 = ring, .address = address, .status = 1});
}

static void own(struct kit *k, uint8_t space, uint64_t address, uint64_t size, uint8_t id)
{
    feed(k, (struct vs_event){
                .op = VS_OP_ALLOC, .space = space, .address = address, .size = size, .context = id});
}

TEST(arrays_and_graphs_count_and_imports_and_multicast_do_not, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_ARRAY, 0x1000, 100);
    alloc_in(k, VS_SPACE_GRAPH, 0x2000, 200);
    alloc_in(k, VS_SPACE_IMPORTED, 0x3000, 400);
    feed(k, (struct vs_event){
                .op = VS_OP_PHYS_CREATE, .space = VS_SPACE_MULTICAST, .address = 0x4000, .size = 800});
    assert_int_equal(direct_now(k), 300);
    assert_int_equal(reserved_now(k), 300);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_IMPORTED), 400);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_MULTICAST), 0);
    release(k, 0x1000);
    release(k, 0x2000);
    assert_int_equal(direct_now(k), 0);
}

TEST(graphs_reserve_the_greater_of_sample_and_living, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_GRAPH, 0x2000, 200);
    feed(k,
         (struct vs_event){
             .op = VS_OP_POOL_RESERVED, .space = VS_SPACE_GRAPH, .address = VS_GRAPH_POOL(0), .size = 1000});
    feed(k, (struct vs_event){
                .op = VS_OP_POOL_RESERVED, .space = VS_SPACE_POOL, .address = 0x77000, .size = 5000});
    assert_int_equal(reserved_now(k), 6000);
    alloc_in(k, VS_SPACE_GRAPH, 0x3000, 2000);
    assert_int_equal(reserved_now(k), 7200);
    assert_int_equal(direct_now(k), 2200);
}

TEST(graph_nodes_and_costs_change_no_total, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    feed(k,
         (struct vs_event){.op = VS_OP_GRAPH_NODE, .space = VS_SPACE_GRAPH, .address = 0x1000, .size = 4096});
    context(k, VS_OP_CONTEXT_CREATE, 0x100, 1, VS_CONTEXT_CREATED);
    feed(k, (struct vs_event){.op = VS_OP_LIMIT, .arg0 = 16384, .size = (uint64_t)-4096});
    assert_int_equal(last(k)->size, 4096);
    assert_int_equal(last(k)->mate, 1);
    assert_int_equal(last(k)->stream, 16384);
    feed(k, (struct vs_event){.op = VS_OP_OVERHEAD, .arg0 = VS_OVERHEAD_STREAM, .size = 4096});
    assert_int_equal(last(k)->mate, 0);
    assert_int_equal(reserved_now(k), 0);
}

TEST(binding_keeps_physical_memory_alive, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_ARRAY, 0x900, 0);
    create(k, 7, 4096);
    vs_ledger_flush(k->l, &k->out);
    bind_to(k, 0x900, 1, 7);
    bind_to(k, 0x900, 2, 7);
    vmm(k, VS_OP_PHYS_RELEASE, 7, 0, 0);
    assert_int_equal(reserved_now(k), 4096);
    unbind(k, 0x900, 1);
    assert_int_equal(reserved_now(k), 4096);
    uint64_t ring = unbind(k, 0x900, 2);
    assert_int_equal(row_of(k, VS_OP_PHYS_FREED)->size, 4096);
    assert_int_equal(reserved_now(k), 0);
    failed(k, ring, 0x900);
    assert_int_equal(reserved_now(k), 4096);
    release(k, 0x900); /* the array goes, and with it what was bound into it */
    assert_int_equal(reserved_now(k), 0);
}

static bool amended(struct kit *k, uint64_t seq)
{
    for (size_t i = 0; i < k->out.amends.n; i++)
        if (k->out.amends.at[i].seq == seq && k->out.amends.at[i].op == VS_OP_FREE_FAILED)
            return true;
    return false;
}

/* Physical memory that nothing but one binding into OBJECT holds. */
static void bound_only(struct kit *k, uint64_t object, uint64_t memory)
{
    create(k, memory, 4096);
    vs_ledger_flush(k->l, &k->out);
    bind_to(k, object, 1, memory);
    vmm(k, VS_OP_PHYS_RELEASE, memory, 0, 0);
}

TEST(failed_unmap_takes_back_the_row_that_ended_the_memory, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    create(k, 7, 4096);
    vs_ledger_flush(k->l, &k->out);
    vmm(k, VS_OP_MAP, 0x50000, 4096, 7);
    vmm(k, VS_OP_PHYS_RELEASE, 7, 0, 0);
    uint64_t ring = feed(k, (struct vs_event){.op = VS_OP_UNMAP, .address = 0x50000, .size = 4096});
    uint64_t freed = row_of(k, VS_OP_PHYS_FREED)->seq;
    assert_int_equal(reserved_now(k), 0);
    assert_false(amended(k, freed));
    failed(k, ring, 0x50000);
    assert_true(amended(k, freed));
    assert_int_equal(reserved_now(k), 4096);
    vmm(k, VS_OP_UNMAP, 0x50000, 4096, 0);
    assert_false(amended(k, row_of(k, VS_OP_PHYS_FREED)->seq));
    assert_int_equal(reserved_now(k), 0);
}

TEST(failed_unbind_takes_back_the_row_that_ended_the_memory, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_ARRAY, 0x900, 0);
    bound_only(k, 0x900, 7);
    uint64_t ring = unbind(k, 0x900, 1);
    uint64_t freed = row_of(k, VS_OP_PHYS_FREED)->seq;
    failed(k, ring, 0x900);
    assert_true(amended(k, freed));
    assert_int_equal(reserved_now(k), 4096);
}

TEST(failed_end_of_an_array_gives_its_bindings_back, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_ARRAY, 0x900, 0);
    bound_only(k, 0x900, 7);
    uint64_t ring = release(k, 0x900);
    uint64_t freed = row_of(k, VS_OP_PHYS_FREED)->seq;
    assert_int_equal(reserved_now(k), 0);
    failed(k, ring, 0x900);
    assert_true(amended(k, freed));
    assert_int_equal(reserved_now(k), 4096);
    unbind(k, 0x900, 1); /* the binding is there again, and once */
    assert_int_equal(reserved_now(k), 0);
}

TEST(failed_release_of_a_multicast_object_gives_its_bindings_back, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    feed(k, (struct vs_event){.op = VS_OP_PHYS_CREATE, .space = VS_SPACE_MULTICAST, .address = 0x4000});
    bound_only(k, 0x4000, 7);
    uint64_t ring = feed(k, (struct vs_event){.op = VS_OP_PHYS_RELEASE, .address = 0x4000});
    assert_int_equal(reserved_now(k), 0);
    failed(k, ring, 0x4000);
    assert_true(amended(k, row_of(k, VS_OP_PHYS_FREED)->seq));
    assert_int_equal(reserved_now(k), 4096);
}

TEST(an_unbind_from_an_endpoint_ends_what_a_device_has_in_its_range, kit_setup, kit_teardown)
{
    const uint64_t one = UINT64_C(1) << 56, two = UINT64_C(2) << 56;
    struct kit *k = *state;
    for (uint64_t memory = 1; memory <= 4; memory++)
        create(k, memory, 4096);
    vs_ledger_flush(k->l, &k->out);
    feed(k, (struct vs_event){.op = VS_OP_PHYS_CREATE, .space = VS_SPACE_MULTICAST, .address = 0x4000});
    bind_to(k, 0x4000, one, 1);
    bind_to(k, 0x4000, one + 4096, 2);
    bind_to(k, 0x4000, one + 8192, 3); /* behind the range */
    bind_to(k, 0x4000, two + 4096, 4); /* another device's */
    for (uint64_t memory = 1; memory <= 4; memory++)
        vmm(k, VS_OP_PHYS_RELEASE, memory, 0, 0);
    assert_int_equal(reserved_now(k), 4 * 4096);
    struct vs_event whole = {
        .op = VS_OP_UNBIND, .space = VS_SPACE_MULTICAST, .address = 0x4000, .size = 8192, .arg1 = one};
    uint64_t ring = feed(k, whole);
    assert_int_equal(reserved_now(k), 2 * 4096);
    failed(k, ring, 0x4000);
    assert_int_equal(reserved_now(k), 4 * 4096);
    feed(k, whole);
    vmm(k, VS_OP_PHYS_RELEASE, 0x4000, 0, 0);
    assert_int_equal(reserved_now(k), 0);
}

TEST(failed_destroy_of_a_context_gives_the_bindings_of_its_arrays_back, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    context(k, VS_OP_CONTEXT_CREATE, 0x100, 1, VS_CONTEXT_CREATED);
    own(k, VS_SPACE_ARRAY, 0x900, 0, 1);
    bound_only(k, 0x900, 7);
    uint64_t ring = context(k, VS_OP_CONTEXT_DESTROY, 0x100, 1, VS_CONTEXT_CREATED);
    assert_int_equal(reserved_now(k), 0);
    failed(k, ring, 0x100);
    assert_true(amended(k, row_of(k, VS_OP_PHYS_FREED)->seq));
    assert_true(amended(k, row_of(k, VS_OP_CONTEXT_FREED)->seq));
    assert_int_equal(reserved_now(k), 4096);
    unbind(k, 0x900, 1);
    assert_int_equal(reserved_now(k), 0);
}

TEST(multicast_binds_by_address_too, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    create(k, 7, 4096);
    vs_ledger_flush(k->l, &k->out);
    vmm(k, VS_OP_MAP, 0x50000, 4096, 7);
    vmm(k, VS_OP_PHYS_RELEASE, 7, 0, 0);
    feed(k, (struct vs_event){
                .op = VS_OP_PHYS_CREATE, .space = VS_SPACE_MULTICAST, .address = 0x4000, .size = 800});
    bind_to(k, 0x4000, 0, 0x50000);
    assert_int_not_equal(last(k)->mate, 0);
    vmm(k, VS_OP_UNMAP, 0x50000, 4096, 0);
    assert_int_equal(reserved_now(k), 4096);
    vmm(k, VS_OP_PHYS_RELEASE, 0x4000, 0, 0);
    assert_int_equal(reserved_now(k), 0);
}

TEST(import_opened_twice_ends_with_its_second_close, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_IMPORTED, 0x3000, 400);
    alloc_in(k, VS_SPACE_IMPORTED, 0x3000, 400);
    assert_int_equal(last(k)->op, VS_OP_PHYS_RETAIN);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_IMPORTED), 400);
    uint64_t ring = release(k, 0x3000);
    assert_int_equal(last(k)->op, VS_OP_PHYS_RELEASE);
    assert_int_equal(last(k)->size, 0);
    failed(k, ring, 0x3000);
    release(k, 0x3000);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_IMPORTED), 400);
    release(k, 0x3000);
    assert_int_equal(last(k)->op, VS_OP_FREE);
    assert_int_equal(last(k)->size, 400);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_IMPORTED), 0);
    assert_int_equal(k->out.mismatches.n, 0);
    assert_int_equal(count_of(k, -1, VS_COUNT_UNKNOWN_FREE), 0);
}

/* Own import of memory that this process exported: the driver may give the same handle or another. */
TEST(import_of_own_memory_is_not_counted_twice, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    create(k, 7, 4096);
    feed(k, (struct vs_event){.op = VS_OP_PHYS_RETAIN, .space = VS_SPACE_IMPORTED, .address = 7});
    feed(k, (struct vs_event){.op = VS_OP_PHYS_RETAIN, .space = VS_SPACE_IMPORTED, .address = 9});
    assert_int_equal(reserved_now(k), 4096);
    vmm(k, VS_OP_PHYS_RELEASE, 7, 0, 0);
    assert_int_equal(reserved_now(k), 4096);
    vmm(k, VS_OP_PHYS_RELEASE, 7, 0, 0);
    assert_int_equal(reserved_now(k), 0);
    vmm(k, VS_OP_PHYS_RELEASE, 9, 0, 0);
    assert_int_equal(count_of(k, 0, VS_COUNT_UNKNOWN_FREE), 0);
}

static void fill(struct kit *k)
{
    context(k, VS_OP_CONTEXT_CREATE, 0x100, 1, VS_CONTEXT_CREATED);
    context(k, VS_OP_MODULE_LOAD, 0x700, 1, 0);
    own(k, VS_SPACE_DEVICE, 0x1000, 100, 1);
    own(k, VS_SPACE_DEVICE, 0x2000, 200, 2); /* another context's */
    own(k, VS_SPACE_POOL, 0x3000, 400, 1);   /* the device's */
    own(k, VS_SPACE_ARRAY, 0x4000, 800, 1);
    own(k, VS_SPACE_PINNED, 0x5000, 50, 1);
    create(k, 7, 4096); /* nobody's */
}

TEST(end_of_a_context_ends_what_it_owned, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    fill(k);
    assert_int_equal(direct_now(k), 100 + 200 + 400 + 800 + 4096);
    uint64_t ring = context(k, VS_OP_CONTEXT_DESTROY, 0x100, 1, VS_CONTEXT_CREATED);
    assert_int_equal(row_of(k, VS_OP_CONTEXT_DESTROY)->size, 500);
    assert_int_equal(row_of(k, VS_OP_CONTEXT_DESTROY)->mate, row_of(k, VS_OP_CONTEXT_CREATE)->seq);
    assert_int_equal(direct_now(k), 200 + 400 + 4096);
    assert_int_equal(curve_end(k, -1, VS_CURVE_END + VS_SPACE_PINNED), 0);
    unsigned ended = 0;
    for (size_t i = 0; i < k->out.rows.n; i++)
        ended += k->out.rows.at[i].op == VS_OP_CONTEXT_FREED && k->out.rows.at[i].mate != 0;
    assert_int_equal(ended, 4); /* three allocations and the module */
    size_t amends = k->out.amends.n;
    failed(k, ring, 0x100);
    assert_int_equal(direct_now(k), 100 + 200 + 400 + 800 + 4096);
    assert_int_equal(k->out.amends.n, amends + 5); /* each row that said so, and the end itself */
    release(k, 0x1000);
    release(k, 0x4000);
    assert_int_equal(direct_now(k), 200 + 400 + 4096);
    context(k, VS_OP_CONTEXT_DESTROY, 0x100, 1, VS_CONTEXT_CREATED);
    assert_int_not_equal(row_of(k, VS_OP_CONTEXT_DESTROY)->mate, 0);
    release(k, 0x1000); /* by a library's destructor: it is gone already */
    assert_int_equal(direct_now(k), 200 + 400 + 4096);
    assert_int_equal(k->out.mismatches.n, 0);
}

static void reserves(struct kit *k, uint8_t space, uint64_t size)
{
    uint64_t pool = space == VS_SPACE_GRAPH ? VS_GRAPH_POOL(0) : 0x77000;
    feed(k, (struct vs_event){.op = VS_OP_POOL_RESERVED, .space = space, .address = pool, .size = size});
}

static void fill_with_reserves(struct kit *k)
{
    fill(k);
    own(k, VS_SPACE_GRAPH, 0x6000, 600, 1);
    reserves(k, VS_SPACE_POOL, 5000);
    reserves(k, VS_SPACE_GRAPH, 6000);
}

TEST(pools_that_outlive_a_primary_context_keep_their_memory, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    fill_with_reserves(k);
    context(k, VS_OP_CONTEXT_DESTROY, 0x100, 1, VS_CONTEXT_PRIMARY);
    reserves(k, VS_SPACE_POOL, 5000);
    reserves(k, VS_SPACE_GRAPH, 6000);
    assert_int_equal(direct_now(k), 200 + 400 + 600 + 4096);
    assert_int_equal(reserved_now(k), 200 + 5000 + 6000 + 4096);
    reserves(k, VS_SPACE_GRAPH, 0); /* trimmed later: no more than a figure */
    assert_int_equal(direct_now(k), 200 + 400 + 600 + 4096);
    release(k, 0x6000);
    release(k, 0x3000);
    assert_int_equal(direct_now(k), 200 + 4096);
    assert_int_equal(k->out.mismatches.n, 0);
}

TEST(pools_that_a_primary_context_took_along_end, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    fill_with_reserves(k);
    context(k, VS_OP_CONTEXT_DESTROY, 0x100, 1, VS_CONTEXT_PRIMARY);
    reserves(k, VS_SPACE_POOL, 0);
    assert_int_equal(direct_now(k), 200 + 600 + 4096);
    reserves(k, VS_SPACE_GRAPH, 0);
    assert_int_equal(direct_now(k), 200 + 4096);
    assert_int_equal(reserved_now(k), 200 + 4096);
    reserves(k, VS_SPACE_POOL, 7000);
    assert_int_equal(reserved_now(k), 200 + 4096 + 7000);
}

TEST(an_empty_pool_ends_nothing_where_no_context_went, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    fill_with_reserves(k);
    uint64_t ring = context(k, VS_OP_CONTEXT_DESTROY, 0x100, 1, VS_CONTEXT_PRIMARY);
    failed(k, ring, 0x100);
    reserves(k, VS_SPACE_POOL, 0); /* another pool of the same handle */
    assert_int_equal(direct_now(k), 100 + 200 + 400 + 600 + 800 + 4096);
}

TEST(green_and_unknown_contexts_end_nothing, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    own(k, VS_SPACE_DEVICE, 0x1000, 100, 0);
    own(k, VS_SPACE_DEVICE, 0x2000, 100, VS_CONTEXT_UNKNOWN);
    context(k, VS_OP_CONTEXT_DESTROY, 0x100, 0, VS_CONTEXT_GREEN);
    context(k, VS_OP_CONTEXT_DESTROY, 0x200, VS_CONTEXT_UNKNOWN, VS_CONTEXT_CREATED);
    assert_int_equal(direct_now(k), 200);
}
