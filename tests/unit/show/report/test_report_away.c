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

static void tells(struct job *job, uint64_t address, enum vs_role role)
{
    happens(job, (struct vs_event){.op = VS_OP_FRAMEWORK_ROLE, .address = address, .arg1 = role});
}

static void moves(struct job *job, uint64_t address, uint64_t away, enum vs_away_why why, uint64_t waited)
{
    happens(job, (struct vs_event){.op = VS_OP_BLOCK_AWAY,
                                   .space = VS_SPACE_ARENA,
                                   .address = address,
                                   .size = away,
                                   .arg0 = why,
                                   .arg1 = waited});
}

static void notes(struct job *job, const char *key, const char *value)
{
    happens(job, (struct vs_event){.op = VS_OP_FRAMEWORK_FACT,
                                   .device = VS_DEVICE_UNKNOWN,
                                   .address = vs_journal_string(job->j, key, strlen(key)),
                                   .size = vs_journal_string(job->j, value, strlen(value))});
}

static uint64_t waited = 1500;

/* The peak is 26 MiB, of which 8 are away; 20 are reserved, of which 2 are in no block.  Then the driver
 * refuses 64 MiB while 24 of 26 are away and 4 are reserved: 8 of them as at the peak, parked, and others. */
static void record(void)
{
    struct job job;
    moment = 0;
    job_open(&job, "away");
    holds(&job, 18 * MIB, 0);
    gives(&job, 0x10000000, 10 * MIB);
    gives(&job, 0x20000000, 8 * MIB);
    tells(&job, 0x20000000, VS_ROLE_STATE);
    notes(&job, "park", "idle=8388608,ns=5000000,link=10000000000,parked=8388608");
    moves(&job, 0x20000000, 8 * MIB, VS_AWAY_PARKED, 0);
    moves(&job, 0x20000000, 0, VS_AWAY_PARKED, 0);
    moves(&job, 0x20000000, 7 * MIB, VS_AWAY_PARKED, waited);
    holds(&job, 10 * MIB, 8 * MIB);
    holds(&job, 20 * MIB, 8 * MIB);
    gives(&job, 0x30000000, 8 * MIB);
    notes(&job, "park_first", "parked=9437184,waited=700");
    notes(&job, "park_unforeseen", "1");
    notes(&job, "park_unforeseen", "2");
    tells(&job, 0x10000000, VS_ROLE_GRADIENT);
    moves(&job, 0x10000000, 10 * MIB, VS_AWAY_SPILLED, VS_BYTES_UNKNOWN);
    moves(&job, 0x30000000, 6 * MIB, VS_AWAY_SPILLED, VS_BYTES_UNKNOWN);
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
    assert_int_equal(trace_away_after(&t, 0, 6), 0);
    assert_int_equal(trace_away_after(&t, 0, 7), 8 * MIB);
    assert_int_equal(trace_away_after(&t, 1, 7), 0);
    trace_close(&t);
}

static void part(const struct trace_away_part *p, const char *role, const char *why, uint64_t bytes)
{
    assert_int_equal(p->bytes, bytes);
    assert_string_equal(p->why, why);
    assert_true(role ? p->role && !strcmp(p->role, role) : !p->role);
    assert_false(p->all);
}

TEST(what_was_away_has_its_roles_and_reasons, make_dir, drop_dir)
{
    struct trace t;
    struct report r;
    record();
    open_recording(&t);
    assert_int_equal(report_load(&r, &t, 0), 0);
    const struct device_report *d = &r.devices[0];
    assert_int_equal(d->away_part_count, 1);
    part(&d->away_parts[0], "optimizer state", "parked", 7 * MIB);
    assert_int_equal(d->away_most_count, 3);
    part(&d->away_most_parts[0], "gradient", "spilled", 10 * MIB);
    part(&d->away_most_parts[1], "optimizer state", "parked", 7 * MIB);
    part(&d->away_most_parts[2], NULL, "spilled", 6 * MIB);
    char *words = trace_away_words(d->away_most_parts, 3, AWAY_BYTES), *always = trace_away_always(&t, 0);
    assert_string_equal(words,
                        "10.00 MiB gradient, spilled; 7.00 MiB optimizer state, parked; 6.00 MiB spilled");
    assert_null(always); /* at times it is the states alone */
    free(words);
    report_free(&r);
    trace_close(&t);
}

TEST(what_became_of_states_that_were_to_be_parked_is_known, make_dir, drop_dir)
{
    struct trace t;
    struct trace_park p;
    record();
    open_recording(&t);
    assert_int_equal(trace_park(&t, 0, false, &p), 0);
    assert_true(p.decided && !p.none && !p.ended);
    assert_true(p.idle == 8 * MIB && p.parked == 8 * MIB && p.idle_ns == 5000000 && p.link == 10000000000);
    assert_true(p.out == 15 * MIB && p.back == 8 * MIB && p.times == 2 && p.waited_ns == 1500);
    assert_true(p.first_parked == 9 * MIB && p.first_waited_ns == 700);
    assert_int_equal(p.unforeseen, 2);
    assert_true(p.spilled == 16 * MIB && p.unspilled == 0);
    assert_int_equal(trace_park(&t, 1, true, &p),
                     0); /* the plan is with the device from which something went */
    assert_true(!p.decided && p.out == 0 && p.times == 0 && p.waited_ns == UNKNOWN &&
                p.first_parked == UNKNOWN);
    trace_close(&t);
}

/* What the report says of P, on one line. */
static void says(const struct trace_park *p, const char *text)
{
    struct device_report d = {.park = *p};
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    report_park_text(&d, out, false);
    fclose(out);
    for (char *c = page, *to = page; (*to = *c) != 0; c++) /* blanks and ends of lines to one blank */
        to += !(*c == ' ' || *c == '\n') || (to > page && to[-1] != ' ' && (*to = ' '));
    assert_string_equal(page, text);
    free(page);
}

TEST(what_could_not_be_timed_is_unknown, make_dir, drop_dir)
{
    struct trace t;
    struct trace_park p;
    waited = VS_BYTES_UNKNOWN;
    record();
    waited = 1500;
    open_recording(&t);
    assert_int_equal(trace_park(&t, 0, true, &p), 0);
    assert_true(p.times == 2 && p.waited_ns == UNKNOWN);
    trace_close(&t);
}

TEST(no_more_is_said_of_parking_than_is_known)
{
    struct trace_park p = {.waited_ns = UNKNOWN};
    says(&p, "");
    p.none = "why";
    says(&p, "nothing was parked: why ");
    p = (struct trace_park){.spilled = 3 * MIB, .unspilled = MIB};
    says(&p, "spilled: 3.00 MiB went to the host because the device was full, and 1.00 MiB came back or were "
             "freed there ");
    p = (struct trace_park){
        .decided = true, .idle = 8 * MIB, .idle_ns = 1000000, .link = 1 << 30, .waited_ns = UNKNOWN};
    says(&p, "nothing was parked: 8.00 MiB of optimizer states lay idle for 1 ms of a step at first, and at "
             "1.00 GiB/s none of them goes there and back in nine tenths of that ");
    p.parked = 4 * MIB;
    p.times = 1;
    p.out = 4 * MIB;
    p.later_ns = 2000000;
    p.ended = "why";
    says(&p,
         "parked: 4.00 MiB of 8.00 MiB of optimizer states that lay idle for 1 ms of a step at first, for "
         "2 ms later; at "
         "1.00 GiB/s they go there and back in 7.81 ms they went 1 time, 4.00 MiB each on average, and 0 B "
         "of 4.00 MiB came back or were freed there; the optimizer waited for them for an unknown time "
         "parking ended: why ");
    p = (struct trace_park){.decided = true,
                            .idle = 8 * MIB,
                            .idle_ns = 1000000,
                            .link = 1 << 30,
                            .parked = MIB,
                            .first_parked = 6 * MIB,
                            .first_waited_ns = 5000000};
    says(&p, "parked: 1.00 MiB of 8.00 MiB of optimizer states that lay idle for 1 ms of a step at first; at "
             "1.00 GiB/s they go there and back in 1.95 ms at first it was 6.00 MiB, for which the optimizer "
             "waited 5 ms in each step ");
}
