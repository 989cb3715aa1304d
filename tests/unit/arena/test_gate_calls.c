/*
 * test_gate_calls.c - every row of driver.def that gives the device work.  Its function waits while the gate
 * is closed.  Then it passes, or asks for memory that is away if it touches that.
 */
#define _GNU_SOURCE
#include "gate_kit.h"

static void begin(enum vs_gate_state state)
{
    memset(&mover, 0, sizeof mover);
    memset(&ledger, 0, sizeof ledger);
    memset(calls, 0, sizeof calls);
    memset(stored, 0, sizeof stored);
    ledger.word = ADDRESS;
    atomic_store(&vs_hot.access, 1);
    if (vs_presence_mine == NULL)
        vs_presence_claim();
    vs_gate_set(state);
}

/* The call is made once, with its own result, and has left. */
static void make(const struct row *r, bool named)
{
    mover.under_way = r->api;
    errno = 77;
    CUresult got = r->call(named);
    if (got != ANSWER || calls[r->api] != 1 || errno != 77)
        fail_msg("%s: %d calls, answer %d, errno %d", r->symbol, calls[r->api], (int)got, errno);
    assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
}

static void expect(const struct row *r, int waits, int needed)
{
    if (mover.waits != waits || mover.needed != needed)
        fail_msg("%s: waits %d times, needs %d times", r->symbol, mover.waits, mover.needed);
}

#define EACH_GATED(r)                                                                                        \
    for (const struct row *r = rows; r < rows + ROWS; r++)                                                   \
        if (r->gives != GIVES_NONE)

TEST(every_row_that_gives_work_has_its_function_and_no_other)
{
    unsigned gated = 0, there = 0;
    EACH_GATED(r)
    {
        gated++;
        if (stand_in(r->api) == NULL)
            fail_msg("%s has none", r->symbol);
    }
    for (const struct vs_stand_in *row = vs_stand_ins_gate; row->function != NULL; row++)
        there++;
    assert_int_equal(there, gated + 6); /* textures */
    assert_true(gated > 130);
}

TEST(an_open_gate_asks_nothing)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_OPEN);
        mover.away = true;
        make(r, true);
        expect(r, 0, 0);
        assert_int_equal(mover.asked, 0);
    }
}

TEST(every_function_waits_while_the_gate_is_closed)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CLOSED);
        make(r, true);
        expect(r, 1, 0);
        assert_int_equal(mover.asked, 0); /* while memory moves nothing is known */
    }
}

TEST(what_touches_nothing_that_is_away_passes)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CHECKED);
        make(r, true);
        expect(r, 0, is_unseen(r));
        if (!is_unseen(r) && !is_later(r) && mover.asked == 0)
            fail_msg("%s: nothing was asked about", r->symbol);
        for (int i = 0; i < mover.asked && i < 16; i++)
            assert_true(mover.address[i] >= 4096);
    }
}

TEST(what_touches_something_that_is_away_needs_it)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CHECKED);
        mover.away = true;
        make(r, true);
        expect(r, 0, !is_later(r));
    }
}

TEST(what_needs_something_that_does_not_come_back_fails_as_at_the_drivers_end)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CHECKED);
        mover.away = mover.lost = true;
        mover.under_way = r->api;
        errno = 77;
        assert_int_equal(r->call(true), is_later(r) ? ANSWER : CUDA_ERROR_DEINITIALIZED);
        assert_int_equal(calls[r->api], is_later(r));
        assert_int_equal(errno, 77);
        assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
    }
}

TEST(what_was_closed_is_looked_at_again_once_it_is_not)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CLOSED);
        mover.after_wait = VS_GATE_CHECKED;
        mover.away = true;
        make(r, true);
        expect(r, 1, !is_later(r));
    }
}

TEST(who_begins_to_close_waits_for_a_call_that_is_being_looked_at)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CHECKED);
        mover.closing = true;
        make(r, true);
        expect(r, 0, is_unseen(r));
    }
}

TEST(what_the_device_has_no_memory_for_is_not_made)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CHECKED);
        mover.lacks = true;
        mover.under_way = r->api;
        errno = 77;
        assert_int_equal(r->call(true), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(calls[r->api], 0);
        assert_int_equal(errno, 77);
        assert_int_equal(atomic_load(&vs_presence_mine->giving), 0);
        begin(VS_GATE_OPEN);
        mover.lacks = true; /* of an earlier one */
        make(r, true);
    }
}

/* The driver says what is wrong with them. */
TEST(calls_without_arguments_reach_the_driver)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CHECKED);
        ledger.word = 0;
        make(r, false);
        expect(r, 0, is_unseen(r));
    }
}

TEST(a_captured_launch_passes_a_closed_gate_and_a_captured_copy_does_not)
{
    EACH_GATED(r)
    {
        begin(VS_GATE_CLOSED);
        ledger.captured = true;
        make(r, true);
        expect(r, r->gives == GIVES_LAUNCH ? 0 : 1, 0);
    }
}

/* ---- what is known of launches ---- */

static int needs_of(const char *symbol)
{
    int needed = 0;
    EACH_GATED(r)
    {
        if (strcmp(r->symbol, symbol) == 0) {
            make(r, true);
            needed = mover.needed;
        }
    }
    return needed;
}

TEST(a_kernel_that_is_not_known_needs_all)
{
    begin(VS_GATE_CHECKED);
    ledger.unknown = true;
    assert_int_equal(needs_of("cuLaunchKernel"), 1);
    begin(VS_GATE_CHECKED);
    ledger.reaches = true;
    assert_int_equal(needs_of("cuLaunchKernelEx_ptsz"), 1);
    begin(VS_GATE_CHECKED);
    ledger.unseen = true;
    assert_int_equal(needs_of("cuGraphLaunch"), 1);
}

TEST(without_the_access_ledger_no_launch_is_known_and_copies_are)
{
    begin(VS_GATE_CHECKED);
    atomic_store(&vs_hot.access, 0);
    assert_int_equal(needs_of("cuLaunchCooperativeKernel"), 1);
    begin(VS_GATE_CHECKED);
    atomic_store(&vs_hot.access, 0);
    assert_int_equal(needs_of("cuGraphLaunch_ptsz"), 1);
    begin(VS_GATE_CHECKED);
    atomic_store(&vs_hot.access, 0);
    assert_int_equal(needs_of("cuMemcpyAsync"), 0);
}

TEST(a_block_that_memory_leads_to_makes_all_launches_unknown)
{
    begin(VS_GATE_CHECKED);
    vs_operands_reached(true);
    assert_int_equal(needs_of("cuLaunchKernel"), 1);
    begin(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuGraphLaunch"), 1);
    begin(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuMemcpyAsync"), 0);
    vs_operands_reached(false);
    begin(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuLaunchKernel"), 0);
}

/* ---- what exactly is asked about ---- */

static void asked(int nth, uint64_t address, uint64_t size)
{
    assert_true(mover.asked > nth);
    assert_int_equal(mover.address[nth], address);
    assert_int_equal(mover.size[nth], size);
}

TEST(rows_are_asked_about_from_the_first_byte_to_the_last)
{
    begin(VS_GATE_CHECKED);
    needs_of("cuMemcpy2DAsync_v2");
    asked(0, ADDRESS + 8 + 2 * 1000, 3 * 1000 + 64);
    asked(1, 2 * ADDRESS, 3 * 100 + 64);
    begin(VS_GATE_CHECKED);
    needs_of("cuMemcpy3D_v2");
    asked(0, ADDRESS + 10 * 1000, 2 * 10 * 1000 + 3 * 1000 + 64);
    assert_int_equal(mover.asked, 1); /* the other side is the host's */
    begin(VS_GATE_CHECKED);
    needs_of("cuMemcpy3DPeer");
    asked(0, ADDRESS, 64);
    assert_int_equal(mover.asked, 1); /* the other side is an array */
    begin(VS_GATE_CHECKED);
    needs_of("cuMemcpy3DBatchAsync_v2");
    asked(0, ADDRESS, 2 * 10 * 1000 + 3 * 1000 + 64);
    asked(1, 2 * ADDRESS, 3 * 4 * 64); /* nothing lies between its rows */
    begin(VS_GATE_CHECKED);
    some_op.dst.type = 2; /* an array, whose elements the other end counts in */
    assert_int_equal(needs_of("cuMemcpy3DBatchAsync"), 1);
    some_op.dst.type = 1;
    begin(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuMemcpy3DWithAttributesAsync"), 0);
    asked(1, 2 * ADDRESS, 3 * 4 * 64);
}

TEST(fills_and_words_are_asked_about_to_the_byte)
{
    begin(VS_GATE_CHECKED);
    needs_of("cuGraphExecMemsetNodeSetParams");
    asked(0, ADDRESS, 2 * 1000 + 40);
    begin(VS_GATE_CHECKED);
    needs_of("cuGraphExecNodeSetParams");
    asked(0, ADDRESS, 2 * 1000 + 40);
    begin(VS_GATE_CHECKED);
    needs_of("cuMemsetD32Async");
    asked(0, ADDRESS, 4);
    begin(VS_GATE_CHECKED);
    needs_of("cuStreamWaitValue32");
    asked(0, ADDRESS, 4);
    begin(VS_GATE_CHECKED);
    needs_of("cuStreamBatchMemOp_v2");
    asked(0, ADDRESS, 8);
    begin(VS_GATE_CHECKED);
    needs_of("cuMemPrefetchBatchAsync");
    asked(0, ADDRESS, 512);
}

TEST(addresses_among_copied_bytes_are_asked_about)
{
    begin(VS_GATE_CHECKED);
    stored[2] = 3 * ADDRESS;
    assert_false(vs_operands_copy(ADDRESS, (uintptr_t)stored, sizeof stored));
    assert_int_equal(mover.asked, 3);
    asked(2, 3 * ADDRESS, 0);
    mover.away_block = 3 * ADDRESS;
    assert_true(vs_operands_copy(ADDRESS, (uintptr_t)stored, sizeof stored));
    assert_false(vs_operands_copy(ADDRESS, (uintptr_t)stored, 2 * sizeof *stored));
    atomic_store(&vs_hot.access, 0); /* it may be on later */
    assert_true(vs_operands_copy(ADDRESS, (uintptr_t)stored, sizeof stored));
}

/* The address is the last word there. */
static void begin_stored(void)
{
    begin(VS_GATE_CHECKED);
    stored[3] = mover.away_block = 3 * ADDRESS;
}

TEST(addresses_that_copies_of_rows_and_words_store_are_seen)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = stored,
                          .srcPitch = 16,
                          .srcY = 1,
                          .srcXInBytes = 8,
                          .WidthInBytes = 8,
                          .Height = 1};
    CUDA_MEMCPY3D slices = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .srcDevice = (uintptr_t)stored,
                            .srcPitch = 8,
                            .srcHeight = 3,
                            .WidthInBytes = 8,
                            .Height = 1,
                            .Depth = 2};
    CUstreamBatchMemOpParams word = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                                                    .address = ADDRESS,
                                                    .value64 = 3 * ADDRESS}};
    begin_stored();
    assert_true(vs_operands_copy_2d(&flat));
    assert_true(vs_operands_copy_3d(&slices));
    assert_true(vs_operands_copy(ADDRESS + 4, (uintptr_t)stored + 4, sizeof stored - 4));
    assert_true(vs_operands_words(&word, 1));
    assert_int_equal(mover.stored, 4);
    flat.srcXInBytes = 4; /* the address is whole where it is copied to */
    flat.WidthInBytes = 12;
    flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    flat.dstDevice = ADDRESS;
    flat.dstXInBytes = 4;
    assert_true(vs_operands_copy_2d(&flat));
    CUDA_MEMCPY2D dense = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = stored,
                           .srcPitch = 2,
                           .WidthInBytes = 2,
                           .Height = sizeof stored / 2};
    assert_true(vs_operands_copy_2d(&dense));
    slices.Depth = 1;
    assert_false(vs_operands_copy_3d(&slices));
}

TEST(addresses_that_a_graph_stores_are_seen_though_it_may_need_all)
{
    begin_stored();
    assert_int_equal(needs_of("cuGraphLaunch"), 1);
    assert_int_equal(mover.stored, 1);
    begin_stored();
    mover.away_block = 0;
    vs_operands_reached(true);
    assert_int_equal(needs_of("cuGraphLaunch"), 1);
    assert_int_equal(mover.stored, 1);
    vs_operands_reached(false);
}

TEST(where_nothing_can_be_away_a_launch_is_not_looked_at)
{
    begin(VS_GATE_CHECKED);
    mover.nothing = true;
    assert_int_equal(needs_of("cuLaunchKernel"), 0);
    assert_int_equal(mover.asked, 0);
}

/* ---- textures; the last, because one is never forgotten ---- */

static void make_texture(CUresourcetype type)
{
    CUresult (*create)(CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                       const CUDA_RESOURCE_VIEW_DESC *) = stand_in(VS_API_cuTexObjectCreate);
    CUDA_RESOURCE_DESC made = {.resType = type};
    atomic_store(&vs_presence_mine->giving, 1); /* `called` wants it: the call does not enter */
    errno = 77;
    assert_int_equal(create(NULL, &made, NULL, NULL), ANSWER);
    atomic_store(&vs_presence_mine->giving, 0);
}

TEST(once_there_is_a_texture_over_linear_memory_no_launch_is_known)
{
    begin(VS_GATE_OPEN);
    make_texture(CU_RESOURCE_TYPE_ARRAY);
    vs_gate_set(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuLaunchKernel"), 0);
    begin(VS_GATE_OPEN);
    make_texture(CU_RESOURCE_TYPE_PITCH2D);
    vs_gate_set(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuLaunchKernel"), 1);
    begin(VS_GATE_CHECKED);
    assert_int_equal(needs_of("cuGraphLaunch"), 1);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
