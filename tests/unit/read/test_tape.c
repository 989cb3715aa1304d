/* test_tape.c - a device's history: what it says of blocks and moments, and that it is read once. */

#include "unit/test.h"
#include "read/steps.h"
#include "read/tape_parts.h"

#define MIB(n)  ((uint64_t)(n) << 20)
#define RANGE   MIB(1 << 20)
#define COMMON  0
#define PRIVATE 1

/* ---- what reads the file ---- */

static struct trace_row rows[64];
static size_t row_count;
static int scans;

int trace_rows(struct trace *t, const struct trace_part *part, trace_row_visit *visit, void *context)
{
    scans++;
    for (size_t i = 0; i < row_count && rows[i].seq <= part->last; i++)
        if (part->ops >> rows[i].op & 1)
            visit(context, &rows[i]);
    return 0;
}

int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n)
{
    *n = 0;
    *PUSH(*out, *n) = (struct trace_step_end){.seq = 4};
    return 0;
}

int asked_read(struct trace *t, struct asked_table *out)
{
    *PUSH(out->at, out->n) = (struct asked){0};
    *PUSH(out->at, out->n) = (struct asked){.id = 1, .bytes = 700};
    return 0;
}

uint32_t asked_find(const struct asked_table *a, int64_t id)
{
    return id == 1;
}

void asked_free(struct asked_table *a)
{
    free(a->at);
}

void tape_read_settings(struct trace *t, struct trace_tape *tape) {}

/* ---- what happened ---- */

#define PROCESS (INT64_C(3) << 40) /* what numbers a process in a file of several */

static struct trace_row *happened(enum vs_op op, uint64_t address, int64_t size, int64_t mate)
{
    struct trace_row *row = &rows[row_count++];
    *row = (struct trace_row){.seq = PROCESS + (int64_t)row_count,
                              .t = (int64_t)row_count * 10,
                              .op = (int)op,
                              .address = (int64_t)address,
                              .size = size,
                              .mate = mate ? PROCESS + mate : 0,
                              .phase = 1,
                              .space = VS_SPACE_DEVICE};
    return row;
}

static struct trace a_run(void)
{
    row_count = 0;
    scans = 0;
    return (struct trace){.phase_name_count = 2, .events = 10};
}

TEST(a_free_ends_the_block_that_it_names_whoever_lies_there)
{
    struct trace t = a_run();
    happened(VS_OP_BLOCK_ALLOC, RANGE, 1024, 0)->tensor = 1;
    happened(VS_OP_BLOCK_FREE, RANGE, 1024, 1);
    happened(VS_OP_BLOCK_ALLOC, RANGE, 512, 0)->stack = 9;
    happened(VS_OP_BLOCK_FREE, RANGE, 1024, 1); /* once */
    happened(VS_OP_BLOCK_FREE, RANGE, 2048, 0); /* of a block before the recording */
    const struct trace_tape *tape = trace_tape(&t, 0);
    assert_int_equal(tape->ids, 2);
    assert_int_equal(tape->n, 3);
    assert_true(tape->blocks[0].freed);
    assert_false(tape->blocks[1].freed);
    assert_int_equal(tape->blocks[0].seq, PROCESS + 1);
    assert_int_equal(tape->blocks[0].size, 1024);
    assert_int_equal(tape->blocks[0].request, 700);
    assert_int_equal(tape->blocks[1].stack, 9);
    assert_int_equal(tape->at[1].what, TAPE_FREE);
    assert_int_equal(tape->at[1].id, 0);
    assert_int_equal(tape->at[1].phase, 1);
    trace_forget_tapes(&t);
}

TEST(a_step_ends_before_the_event_behind_it)
{
    struct trace t = a_run();
    for (int i = 0; i < 6; i++)
        happened(VS_OP_BLOCK_ALLOC, RANGE + MIB(i), 512, 0)->seq = i + 1;
    const struct trace_tape *tape = trace_tape(&t, 0);
    assert_int_equal(tape->step_count, 1);
    assert_int_equal(tape->steps[0], 4);
    trace_forget_tapes(&t);
}

TEST(a_refusal_has_the_limit_that_it_met)
{
    struct trace t = a_run();
    happened(VS_OP_BLOCK_OOM, 0, 1024, 0);
    happened(VS_OP_MEMORY_LIMIT, 0, 4096, 0);
    happened(VS_OP_BLOCK_OOM, 0, 8192, 0)->stack = 5;
    const struct trace_tape *tape = trace_tape(&t, 0);
    assert_int_equal(tape->refusal_count, 2);
    assert_int_equal(tape->refusals[0].limit, 0);
    assert_int_equal(tape->refusals[1].limit, 4096);
    assert_int_equal(tape->refusals[1].size, 8192);
    assert_int_equal(tape->refusals[1].stack, 5);
    assert_int_equal(tape->at[tape->n - 1].id, 1);
    trace_forget_tapes(&t);
}

TEST(a_moment_has_what_was_there_then)
{
    struct trace t = a_run();
    struct tape_moment m;
    happened(VS_OP_BLOCK_ALLOC, RANGE, 512, 0);
    happened(VS_OP_ALLOC, RANGE + MIB(1), 4096, 0)->space = VS_SPACE_POOL;
    rows[1].stack = 8;
    happened(VS_OP_POOL_RESERVED, 77, 8192, 0)->space = VS_SPACE_POOL;
    happened(VS_OP_FREE, RANGE + MIB(1), 4096, 2)->space = VS_SPACE_POOL;
    happened(VS_OP_POOL_RESERVED, 77, 1024, 0)->space = VS_SPACE_POOL;     /* it shrank: the stack stays */
    happened(VS_OP_ARENA_RESERVED, 1024, 1024, 0)->space = VS_SPACE_ARENA; /* 1024 are away, and its own */
    happened(VS_OP_BLOCK_ALLOC, RANGE + MIB(2), 512, 0);
    const struct trace_tape *tape = trace_tape(&t, 0);
    tape_moment_at(tape, PROCESS + 3, &m);
    assert_int_equal(m.n, 1);
    assert_int_equal(m.live[BESIDE_POOL], 4096);
    assert_int_equal(m.holder_count, 1);
    assert_int_equal(m.holders[0].bytes, 8192);
    assert_int_equal(m.holders[0].stack, 8);
    assert_int_equal(m.arena_held, 0);
    free(m.holders);
    tape_moment_at(tape, PROCESS + 7, &m);
    assert_int_equal(m.n, 2);
    assert_int_equal(m.live[BESIDE_POOL], 0);
    assert_int_equal(m.holders[0].bytes, 1024);
    assert_int_equal(m.holders[0].stack, 8);
    assert_int_equal(m.arena_held, 2048);
    free(m.holders);
    trace_forget_tapes(&t);
}

TEST(a_history_is_read_once_for_all_who_ask)
{
    struct trace t = a_run();
    happened(VS_OP_BLOCK_ALLOC, RANGE, 512, 0);
    const struct trace_tape *tape = trace_tape_to(&t, 0, 1); /* of a short run all */
    assert_ptr_equal(trace_tape(&t, 0), tape);
    assert_ptr_equal(trace_tape_to(&t, 0, PROCESS + 1), tape);
    assert_int_equal(scans, 1);
    assert_ptr_not_equal(trace_tape(&t, 1), tape); /* another device's */
    assert_ptr_equal(trace_tape(&t, 0), tape);
    assert_int_equal(scans, 2);
    trace_forget_tapes(&t);
}

TEST(of_many_events_those_up_to_the_moment_are_read)
{
    struct trace t = a_run();
    t.events = 4000000;
    for (int i = 0; i < 6; i++)
        happened(VS_OP_BLOCK_ALLOC, RANGE + MIB(i), 512, 0);
    assert_int_equal(trace_tape_to(&t, 0, PROCESS + 2)->ids, 2);
    assert_int_equal(trace_tape_to(&t, 0, PROCESS + 1)->ids, 2);
    assert_int_equal(scans, 1);
    assert_int_equal(trace_tape(&t, 0)->ids, 6);
    assert_int_equal(trace_tape_to(&t, 0, PROCESS + 3)->ids, 6);
    assert_int_equal(scans, 2);
    trace_forget_tapes(&t);
}

/* ---- streams ---- */
static struct tape_event event(enum tape_what what, uint64_t offset, uint64_t size, uint16_t stream)
{
    return (struct tape_event){.what = what, .address = RANGE + offset, .size = size, .stream = stream};
}

static void find_streams(struct tape_event *events, size_t n)
{
    struct trace_tape tape = {.at = events, .n = n, .streams = 2};
    struct vs_spans reserved = {0};
    assert_int_equal(vs_spans_insert(&reserved, RANGE, RANGE + MIB(100), 0), 0);
    assert_true(tape_find_streams(&tape, &reserved));
    vs_spans_free(&reserved);
}

TEST(test_a_reservation_is_of_the_stream_of_most_of_its_blocks)
{
    struct tape_event events[] = {
        event(TAPE_MAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_ALLOC, 0, MIB(2), COMMON),
        event(TAPE_ALLOC, MIB(2), MIB(2), PRIVATE), /* the thread's current one was another */
        event(TAPE_ALLOC, MIB(4), MIB(2), COMMON),
    };
    find_streams(events, sizeof events / sizeof *events);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_int_equal(events[i].stream, COMMON);
}

TEST(test_addresses_that_are_reserved_again_may_be_another_pools)
{
    struct tape_event events[] = {
        event(TAPE_MAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_MAP, MIB(20), MIB(20), STREAM_UNKNOWN),
        event(TAPE_ALLOC, 0, MIB(2), COMMON),
        event(TAPE_ALLOC, MIB(2), MIB(30), COMMON),
        event(TAPE_UNMAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_UNMAP, MIB(20), MIB(20), STREAM_UNKNOWN), /* nothing is left: the addresses go back */
        event(TAPE_MAP, 0, MIB(20), STREAM_UNKNOWN),
        event(TAPE_ALLOC, 0, MIB(2), PRIVATE),
    };
    size_t n = sizeof events / sizeof *events;
    find_streams(events, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(events[i].stream, i < n - 2 ? COMMON : PRIVATE);
}
