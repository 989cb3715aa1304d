/*
 * test_report_away.c - what a report finds of a recording in which memory was away while it was allocated:
 * how much then, and that what was reserved and not allocated is what the device held beside the rest.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "unit/trace/store/job_kit.h"
#include "read/curve.h"
#include "read/ooms.h"
#include "show/report/report.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t moment;

static void happens(struct job *job, struct vs_event e)
{
    e.t_ns = 500 + ++moment * 1000;
    e.thread = 1;
    emit(job->j, &e);
}

static void holds(struct job *job, uint64_t reserved, uint64_t away)
{
    happens(job, (struct vs_event){
                     .op = VS_OP_ARENA_RESERVED, .space = VS_SPACE_ARENA, .size = reserved, .address = away});
}

static void gives(struct job *job, uint64_t address, uint64_t size)
{
    happens(job,
            (struct vs_event){.op = VS_OP_ALLOC, .space = VS_SPACE_ARENA, .address = address, .size = size});
}

/* The peak is 26 MiB, of which 8 are away; 20 are reserved, of which 2 are in no block.  Then the driver
 * refuses 64 MiB while 24 of 26 are away and 4 are reserved. */
static void record(void)
{
    struct job job;
    moment = 0;
    job_open(&job, "away");
    holds(&job, 18 * MIB, 0);
    gives(&job, 0x10000000, 10 * MIB);
    gives(&job, 0x20000000, 8 * MIB);
    holds(&job, 10 * MIB, 8 * MIB);
    holds(&job, 20 * MIB, 8 * MIB);
    gives(&job, 0x30000000, 8 * MIB);
    holds(&job, 4 * MIB, 24 * MIB);
    happens(&job,
            (struct vs_event){.op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .size = 64 * MIB, .status = 2});
    drain(&job);
    job_close(&job);
}

static void open_recording(struct trace *t)
{
    char path[300];
    snprintf(path, sizeof path, "%s/away.db", dir);
    if (trace_open(t, path))
        fail_msg("%s", t->why);
}

TEST(a_report_has_what_was_away_at_the_peak_and_when_memory_ran_out, make_dir, drop_dir)
{
    struct trace t;
    struct report r;
    record();
    open_recording(&t);
    if (report_load(&r, &t, REPORT_UNUSED | REPORT_REFUSAL))
        fail_msg("%s", t.why);
    assert_int_equal(r.device_count, 1);
    const struct device_report *d = &r.devices[0];
    assert_int_equal(d->allocated->bytes, 26 * MIB);
    assert_int_equal(d->reserved_at_peak, 20 * MIB);
    assert_int_equal(d->away_at_peak, 8 * MIB);
    assert_int_equal(d->away_most, 24 * MIB);
    assert_int_equal(d->unused_at_peak, 2 * MIB);
    assert_int_equal(d->unused.bytes, 2 * MIB);
    assert_int_equal(unused_sum(&d->unused, UNUSED_ARENA), 2 * MIB);
    assert_int_equal(d->unused.count, 1); /* and nothing of it is unknown */
    assert_non_null(r.oom.lead);
    assert_int_equal(r.oom.lead->framework + r.oom.lead->direct, 26 * MIB);
    assert_int_equal(r.oom.lead->reserved, 4 * MIB);
    assert_int_equal(r.oom.lead->away, 24 * MIB);
    assert_int_equal(r.oom.unused.bytes, 2 * MIB);
    report_free(&r);
    trace_close(&t);
}

static void add_up(void *context, const struct trace_point *p)
{
    int64_t *seen = context;
    assert_true(p->allocated_max - p->away <= p->reserved_max);
    assert_true(p->allocated_last - p->away_last <= p->reserved_last);
    seen[0] = p->away > seen[0] ? p->away : seen[0];
    seen[1]++;
}

/* Event by event, and as one column. */
TEST(no_more_is_on_the_device_than_is_reserved_anywhere_in_the_curve, make_dir, drop_dir)
{
    struct trace t;
    struct trace_point before;
    record();
    open_recording(&t);
    for (int64_t coarse = 0; coarse < 1000000; coarse += 999999) {
        int64_t seen[2] = {0, 0};
        assert_int_equal(trace_curve(&t, 0, 0, 1000000, coarse, &before, add_up, seen), 0);
        assert_true(seen[1] > 0);
        assert_int_equal(seen[0], coarse ? 8 * MIB : 24 * MIB); /* of a zone: where allocated was greatest */
    }
    assert_int_equal(trace_away_after(&t, 0, 3), 0);
    assert_int_equal(trace_away_after(&t, 0, 4), 8 * MIB);
    assert_int_equal(trace_away_after(&t, 1, 4), 0);
    trace_close(&t);
}
