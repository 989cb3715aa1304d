/* The ledger where things interleave: calls that failed on several devices, ranges of several sources, a
 * framework whose totals came before its memory was known as its own. */
#include "ledger_kit.h"

static void failed(struct kit *k, uint64_t ring, uint64_t address)
{
    feed(k, (struct vs_event){
                .op = VS_OP_FREE_FAILED, .device = -1, .arg0 = ring, .address = address, .status = 1});
}

static void create_on(struct kit *k, int8_t device, uint64_t handle, uint64_t address)
{
    feed(k,
         (struct vs_event){
             .op = VS_OP_PHYS_CREATE, .device = device, .address = handle, .size = MIB, .arg0 = 1ull << 32});
    vmm(k, VS_OP_MAP, address, MIB, handle);
    vmm(k, VS_OP_PHYS_RELEASE, handle, 0, 0);
}

TEST(an_unmap_that_failed_brings_back_the_totals_of_every_device, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    create_on(k, 0, 0x10, 0x100000);
    create_on(k, 1, 0x20, 0x200000);
    uint64_t ring =
        feed(k, (struct vs_event){.op = VS_OP_UNMAP, .device = -1, .address = 0x100000, .size = 2 * MIB});
    failed(k, ring, 0x100000);
    vs_ledger_flush(k->l, &k->out);
    for (int8_t device = 0; device < 2; device++) {
        assert_int_equal(curve_end(k, device, VS_CURVE_DIRECT), MIB);
        bool told = false;
        for (size_t i = 0; i < k->out.rows.n; i++)
            told |= k->out.rows.at[i].op == VS_OP_FREE_FAILED && k->out.rows.at[i].device == device &&
                    k->out.rows.at[i].direct == MIB && k->out.rows.at[i].mate != 0;
        assert_true(told);
    }
    assert_int_equal(count_of(k, -1, VS_COUNT_FAILED_FREE), 1);
}

TEST(a_context_whose_end_failed_has_its_memory_at_once, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    feed(k, (struct vs_event){
                .op = VS_OP_CONTEXT_CREATE, .address = 0x100, .context = 1, .arg0 = VS_CONTEXT_CREATED});
    feed(k, (struct vs_event){
                .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .address = 0x9000, .size = MIB, .context = 1});
    uint64_t ring = feed(k, (struct vs_event){.op = VS_OP_CONTEXT_DESTROY, .address = 0x100, .context = 1});
    failed(k, ring, 0x100);
    vs_ledger_flush(k->l, &k->out);
    assert_int_equal(row_of(k, VS_OP_FREE_FAILED)->device, 0);
    assert_int_equal(row_of(k, VS_OP_FREE_FAILED)->direct, MIB);
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), MIB);
}

/* forward of a marker, a library's range in it, the marker popped inside the range's own: a second forward */
TEST(a_range_is_outermost_only_where_none_of_its_phase_is_open_on_the_thread, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    push(k, 1, VS_PHASE_FORWARD, 0);
    push(k, 2, VS_PHASE_LOGITS, 1);
    push(k, 3, VS_PHASE_OPTIMIZER, 2);
    pop(k, 2); /* of another source: between the two */
    push(k, 4, VS_PHASE_FORWARD, 3);
    pop(k, 4);
    pop(k, 3);
    pop(k, 1);
    end_batch(k);
    for (size_t i = 0; i < k->out.ranges.n; i++)
        assert_int_equal(k->out.ranges.at[i].outermost, k->out.ranges.at[i].id != 4);
    alloc_in(k, VS_SPACE_POOL, 0x1000, 512); /* a device to tell it of */
    push(k, 5, VS_PHASE_FORWARD, 0);
    pop(k, 5);
    assert_int_equal(stat_of(k, 0, VS_PHASE_FORWARD)->ns, 8000); /* 7 and 1: the inner one is in the 7 */
}

TEST(a_phase_s_peak_is_dated_when_it_was_first_reached_whoever_saw_it, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_POOL, 0x1000, MIB);
    push(k, 1, VS_PHASE_FORWARD, 0);
    k->range = 1;
    alloc_in(k, VS_SPACE_POOL, 0x2000, 1);
    release(k, 0x2000);
    release(k, 0x1000);
    k->range = 0;
    alloc_in(k, VS_SPACE_POOL, 0x3000, 2 * MIB); /* another thread's, while the range is open */
    uint64_t peak = k->t;
    k->range = 1;
    alloc_in(k, VS_SPACE_POOL, 0x4000, 0); /* the phase's own event sees it later */
    pop(k, 1);
    assert_int_equal(stat_of(k, 0, VS_PHASE_FORWARD)->allocated, 2 * MIB);
    assert_int_equal(stat_of(k, 0, VS_PHASE_FORWARD)->t_allocated, peak);
}

/* Two segments before the first report: the one without a block looked as if it were from before the
 * recording. */
TEST(memory_that_is_known_as_managed_late_is_not_counted_beside_the_framework_s_own_figure, kit_setup,
     kit_teardown)
{
    struct kit *k = *state;
    alloc(k, 0x100000, MIB);
    alloc(k, 0x200000, MIB);
    k->reserved = 2 * MIB;
    block(k, 0x200000, 512);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 2 * MIB);
    block(k, 0x100000, 512); /* and so the other one was the framework's as well */
    assert_int_equal(row_of(k, VS_OP_RECLASSIFY)->reserved, 2 * MIB);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 2 * MIB);
    assert_int_equal(curve_end(k, 0, VS_CURVE_RESERVED), 2 * MIB);
}

/* ---- the look-ahead: memory that is gone is not what a later block lies in ---- */

TEST(a_block_where_a_destroyed_context_s_memory_was_does_not_claim_it, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    feed(k, (struct vs_event){
                .op = VS_OP_CONTEXT_CREATE, .address = 0x100, .context = 1, .arg0 = VS_CONTEXT_CREATED});
    feed(k, (struct vs_event){.op = VS_OP_ALLOC,
                              .space = VS_SPACE_DEVICE,
                              .address = 0x40000000,
                              .size = 1024 * MIB,
                              .context = 1});
    feed(k, (struct vs_event){.op = VS_OP_CONTEXT_DESTROY, .address = 0x100, .context = 1});
    alloc(k, 0x40000000, MIB); /* the address again */
    k->reserved = MIB;
    block(k, 0x40000000, 512);
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), 0);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), MIB);
    struct vs_peak_info peak;
    assert_int_equal(vs_ledger_peaks(k->l, &peak, 1), 1);
    assert_int_equal(peak.bytes, 1024 * MIB);
}

TEST(a_block_where_memory_was_unmapped_does_not_claim_it, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    vmm(k, VS_OP_VA_RESERVE, 0x40000000, 64 * MIB, 0);
    create(k, 0x10, 32 * MIB);
    vmm(k, VS_OP_MAP, 0x40000000, 32 * MIB, 0x10);
    vmm(k, VS_OP_PHYS_RELEASE, 0x10, 0, 0);
    vmm(k, VS_OP_UNMAP, 0x40000000, 32 * MIB, 0);
    vmm(k, VS_OP_VA_FREE, 0x40000000, 64 * MIB, 0);
    alloc(k, 0x40000000, MIB);
    k->reserved = MIB;
    block(k, 0x40000000, 512);
    struct vs_peak_info peak;
    assert_int_equal(vs_ledger_peaks(k->l, &peak, 1), 1);
    assert_int_equal(peak.bytes, 32 * MIB);
    assert_int_equal(count_of(k, 0, VS_COUNT_MISMATCHED), 0);
}

/* The handle lives on, and is mapped into a framework's range after all. */
TEST(memory_that_is_mapped_elsewhere_later_is_claimed_there, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    create(k, 0x10, 2 * MIB);
    vmm(k, VS_OP_MAP, 0x40000000, 2 * MIB, 0x10);
    vmm(k, VS_OP_UNMAP, 0x40000000, 2 * MIB, 0);
    vmm(k, VS_OP_MAP, 0x80000000, 2 * MIB, 0x10);
    vmm(k, VS_OP_PHYS_RELEASE, 0x10, 0, 0);
    k->reserved = 2 * MIB;
    block(k, 0x80000000, 512);
    struct vs_peak_info peak;
    assert_int_equal(vs_ledger_peaks(k->l, &peak, 1), 1);
    assert_int_equal(peak.bytes, 512);
    assert_int_equal(curve_end(k, 0, VS_CURVE_MANAGED), 2 * MIB);
}

/* cuMemFree waits for the device: other threads may free any number of times before it fails. */
TEST(a_free_that_fails_late_is_taken_back_whatever_others_freed_meanwhile, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    alloc_in(k, VS_SPACE_POOL, 0x1000, MIB);
    uint64_t ring = release(k, 0x1000);
    k->thread = 2;
    for (int i = 0; i < 20000; i++) {
        alloc_in(k, VS_SPACE_POOL, 0x2000, 512);
        release(k, 0x2000);
    }
    for (int i = 0; i < 10000; i++)
        alloc_in(k, VS_SPACE_POOL, 0x10000 + (uint64_t)i * 512, 512);
    for (int i = 0; i < 10000; i++) /* a thread that does nothing but free */
        release(k, 0x10000 + (uint64_t)i * 512);
    k->thread = 1;
    failed(k, ring, 0x1000);
    assert_int_equal(curve_end(k, 0, VS_CURVE_DIRECT), MIB);
    assert_int_equal(row_of(k, VS_OP_FREE_FAILED)->size, MIB);
}

static void add_up(void *context, const struct vs_alloc *a)
{
    *(uint64_t *)context += a->size;
}

/* Thread 1's free is under way and will fail; thread 2 makes the peak meanwhile.  What is missing from the
 * peak is missing from what lived then, and an out-of-memory before both has all of it. */
TEST(what_lived_at_a_peak_adds_up_to_it_where_a_free_failed_around_it, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    uint64_t at_peak = 0, at_oom = 0;
    struct vs_peak_info peak;
    alloc_in(k, VS_SPACE_POOL, 0x1000, MIB);
    feed(k, (struct vs_event){.op = VS_OP_ALLOC, .space = VS_SPACE_POOL, .size = 99 * MIB, .status = 2});
    uint64_t oom = last(k)->seq, ring = release(k, 0x1000);
    k->thread = 2;
    alloc_in(k, VS_SPACE_POOL, 0x2000, 8 * MIB);
    release(k, 0x2000);
    k->thread = 1;
    failed(k, ring, 0x1000);
    release(k, 0x1000);
    vs_ledger_finish(k->l, &k->out);
    assert_int_equal(vs_ledger_peaks(k->l, &peak, 1), 1);
    vs_ledger_each_at_peak(k->l, 0, add_up, &at_peak);
    assert_int_equal(at_peak, peak.bytes);
    assert_int_equal(at_peak, 8 * MIB);
    vs_ledger_each_at_oom(k->l, oom, add_up, &at_oom);
    assert_int_equal(at_oom, MIB);
}

TEST(steps_are_numbered_in_the_ring_s_order_with_those_that_have_no_event, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    const uint64_t unrecorded[] = {0, 3, 0}, wanted[] = {1, 5, 6};
    for (size_t i = 0; i < 3; i++) {
        feed(k, (struct vs_event){.op = VS_OP_STEP, .device = -1, .arg0 = unrecorded[i]});
        assert_int_equal(k->out.steps.at[i].step, wanted[i]);
    }
    push(k, 1, VS_PHASE_FORWARD, 0);
    end_batch(k);
    assert_int_equal(range_of(k, 1)->step, 7);
}

TEST(an_open_range_has_its_time_so_far, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    push(k, 1, VS_PHASE_FORWARD, 0); /* at 1000; an event each 1000 */
    push(k, 2, VS_PHASE_FORWARD, 1); /* within its own phase: its time is the outer one's */
    alloc_in(k, VS_SPACE_DEVICE, 0x1000, MIB);
    vs_ledger_flush(k->l, &k->out);
    assert_true(stat_of(k, 0, VS_PHASE_FORWARD)->ns == 0 && stat_of(k, 0, VS_PHASE_FORWARD)->open_ns == 2000);
    pop(k, 2);
    assert_true(stat_of(k, 0, VS_PHASE_FORWARD)->ns == 0 && stat_of(k, 0, VS_PHASE_FORWARD)->open_ns == 3000);
    pop(k, 1);
    assert_true(stat_of(k, 0, VS_PHASE_FORWARD)->ns == 4000 && stat_of(k, 0, VS_PHASE_FORWARD)->open_ns == 0);
}

TEST(a_range_that_is_open_at_the_end_keeps_its_time, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    push(k, 1, VS_PHASE_BACKWARD, 0);
    pop(k, 1);
    push(k, 2, VS_PHASE_BACKWARD, 0);
    alloc_in(k, VS_SPACE_DEVICE, 0x1000, MIB);
    vs_ledger_finish(k->l, &k->out);
    assert_true(stat_of(k, 0, VS_PHASE_BACKWARD)->ns == 1000 &&
                stat_of(k, 0, VS_PHASE_BACKWARD)->open_ns == 1000);
}

TEST(a_range_whose_pop_was_lost_has_no_time, kit_setup, kit_teardown)
{
    struct kit *k = *state;
    push(k, 1, VS_PHASE_FORWARD, 0);
    alloc_in(k, VS_SPACE_DEVICE, 0x1000, MIB);
    push(k, 2, VS_PHASE_BACKWARD, 0); /* beside it on the same thread: the first one's pop was lost */
    alloc_in(k, VS_SPACE_DEVICE, 0x2000, MIB);
    vs_ledger_finish(k->l, &k->out);
    assert_true(stat_of(k, 0, VS_PHASE_FORWARD)->ns == 0 && stat_of(k, 0, VS_PHASE_FORWARD)->open_ns == 0);
    assert_true(stat_of(k, 0, VS_PHASE_BACKWARD)->open_ns == 1000);
    assert_true(range_of(k, 1)->lost && !range_of(k, 2)->lost);
}
