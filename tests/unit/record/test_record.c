/*
 * test_record.c - the recording API: what its first event begins, what each event is given on the way, the
 * threads' rows, and windows in which nothing is recorded.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "core/clock.h"

#include "child_kit.h"

IN_CHILD(nothing_exists_before_the_first_successful_allocation)
{
    struct vs_event failed = {.op = VS_OP_ALLOC, .status = 2};
    CHECK(vs_record_enabled() && !vs_record_journal());
    CHECK(record(VS_OP_FREE, 1) == VS_SEQ_NONE);
    CHECK(record(VS_OP_RANGE_PUSH, 1) == VS_SEQ_NONE);
    CHECK(vs_record(&failed) == VS_SEQ_NONE);
    CHECK(!exists(in_dir("run.db")) && !vs_record_journal());
    vs_drain_finish();
    CHECK(alloc(1) != VS_SEQ_NONE);
    CHECK(exists(in_dir("run.db")) && vs_record_journal());
    CHECK(strcmp(vs_journal_fact(vs_record_journal(), "version"), VRAMSCOPE_VERSION) == 0);
    CHECK(vs_journal_fact(vs_record_journal(), "command") && vs_journal_fact(vs_record_journal(), "host"));
}

IN_CHILD(fields_are_filled_in_and_those_of_ranges_left_alone)
{
    struct vs_event *e, push = {.op = VS_OP_RANGE_PUSH, .range = 5, .stack = 6},
                        foreign = {.op = VS_OP_RANGE_POP, .range = 5, .thread = VS_THREAD_UNKNOWN},
                        block = {.op = VS_OP_BLOCK_ALLOC};
    uint64_t before = vs_clock_ns();
    vs_self.range = VS_RANGE_UNKNOWN; /* what the stand-in says, 17 */
    alloc(1);
    vs_record(&push);
    vs_record(&foreign);
    vs_record(&block);
    record(VS_OP_FREE, 1);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 5);
    CHECK(e[0].range == 17 && e[0].stack == 23 && e[0].thread == 1);
    CHECK(e[0].t_ns >= before && e[1].t_ns >= e[0].t_ns);
    CHECK(e[1].range == 5 && e[1].stack == 6 && e[1].thread == 1);
    CHECK(e[2].thread == VS_THREAD_UNKNOWN);
    CHECK(e[3].range == 17 && e[3].stack == 29); /* framework blocks: Python frames */
    CHECK(e[4].op == VS_OP_FREE && e[4].stack == 0 && e[4].range == 17);
}

IN_CHILD(the_range_is_asked_for_where_the_lines_do_not_say_it)
{
    struct vs_event *e;
    vs_self.range = 5;
    alloc(1);
    atomic_fetch_add(&vs_hot.careful, UINT64_C(1) << VS_CAREFUL_PENDING); /* a push that waits */
    alloc(2);
    atomic_fetch_sub(&vs_hot.careful, UINT64_C(1) << VS_CAREFUL_PENDING);
    vs_self.range = 0;
    alloc(3);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 3);
    CHECK(e[0].range == 5 && e[1].range == 17 && e[2].range == 0);
}

static void stacks_of(unsigned which, uint32_t of_alloc, uint32_t of_block)
{
    struct vs_event *e;
    vs_options.stacks = which;
    alloc(1);
    record(VS_OP_BLOCK_ALLOC, 1);
    record(VS_OP_BLOCK_FREE, 1);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 3);
    CHECK(e[0].stack == of_alloc && e[1].stack == of_block && e[2].stack == 0);
}

IN_CHILD(without_stacks_no_event_has_one)
{
    stacks_of(VS_STACKS_OFF, 0, 0);
}

IN_CHILD(with_driver_stacks_blocks_have_none)
{
    stacks_of(VS_STACKS_DRIVER, 23, 0);
}

IN_CHILD(with_all_stacks_blocks_have_one_too_and_what_ends_has_none)
{
    stacks_of(VS_STACKS_ALL, 23, 23);
}

static void *start_at_once(void *barrier)
{
    pthread_barrier_wait(barrier);
    for (uint64_t i = 0; i < 500; i++)
        CHECK(alloc(i) != VS_SEQ_NONE);
    return NULL;
}

IN_CHILD(threads_that_start_together_lose_nothing)
{
    pthread_t t[4];
    pthread_barrier_t b;
    struct vs_event *e;
    pthread_barrier_init(&b, NULL, 4);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, start_at_once, &b);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2000);
    CHECK(!exists(in_dir("run-2.db")));
}

IN_CHILD(a_thread_inside_vramscope_records_nothing)
{
    alloc(1);
    vs_record_enter_internal();
    vs_record_enter_internal();
    CHECK(!vs_record_enabled() && alloc(2) == VS_SEQ_NONE);
    vs_record_leave_internal();
    CHECK(!vs_record_enabled());
    vs_record_leave_internal();
    CHECK(vs_record_enabled() && alloc(3) != VS_SEQ_NONE);
}

static void *name_and_record(void *name)
{
    pthread_setname_np(pthread_self(), name);
    alloc(1);
    return NULL;
}

IN_CHILD(threads_have_rows_and_autograds_are_marked)
{
    pthread_t t;
    alloc(1);
    char name[] = "pt_autograd_0";
    pthread_create(&t, NULL, name_and_record, name);
    pthread_join(t, NULL);
    bool found = false;
    const struct vs_thread_row *row;
    for (uint32_t id = 1; (row = vs_journal_get_thread(vs_record_journal(), id)); id++) {
        if (strcmp(row->name, "pt_autograd_0") == 0)
            found = row->flags == VS_THREAD_AUTOGRAD && row->tid != (uint32_t)getpid();
        else
            CHECK(row->flags == 0);
    }
    CHECK(found);
}

/* ---- window, samples ---- */

IN_CHILD(a_closed_window_records_ends_only)
{
    struct vs_event *e;
    static const uint8_t expected[] = {VS_OP_ALLOC,     VS_OP_RECORD_STOP,  VS_OP_FREE,
                                       VS_OP_RANGE_POP, VS_OP_RECORD_START, VS_OP_ALLOC};
    alloc(1);
    vs_record_window(false);
    vs_record_window(false);
    CHECK(alloc(2) == VS_SEQ_NONE);
    CHECK(record(VS_OP_RANGE_PUSH, 2) == VS_SEQ_NONE);
    CHECK(record(VS_OP_FREE, 1) != VS_SEQ_NONE);
    CHECK(record(VS_OP_RANGE_POP, 1) != VS_SEQ_NONE);
    vs_record_window(true);
    alloc(3);
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == sizeof expected);
    for (size_t i = 0; i < sizeof expected; i++)
        CHECK(e[i].op == expected[i]);
}

IN_CHILD(with_recording_off_nothing_starts_until_it_is_asked_for)
{
    set_options("VRAMSCOPE_ENABLED=off");
    CHECK(alloc(1) == VS_SEQ_NONE && !vs_record_start());
    CHECK(!exists(in_dir("run.db")));
    vs_record_window(true);
    CHECK(!exists(in_dir("run.db")));
    CHECK(alloc(2) != VS_SEQ_NONE);
    CHECK(exists(in_dir("run.db")));
}

IN_CHILD(without_nvml_the_host_is_asked_for_a_sample_once_a_tick)
{
    struct vs_device_row d = {.ordinal = 0, .name = "simcuda"};
    struct vs_event e = {.op = VS_OP_SAMPLE, .size = 5, .arg0 = VS_SAMPLE_MEMINFO};
    CHECK(!vs_sample_take_request());
    alloc(1);
    vs_record_simulated(true);
    vs_journal_device(vs_record_journal(), &d);
    uint64_t until = vs_clock_ns() + 8000000000;
    int asked = 0;
    while (asked < 3 && vs_clock_ns() < until) {
        asked += vs_sample_take_request();
        usleep(1000);
    }
    CHECK(asked == 3);
    vs_record(&e);
    CHECK(e.arg1 > 100000); /* the host's memory was filled in */
}
