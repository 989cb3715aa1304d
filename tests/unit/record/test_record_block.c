/*
 * test_record_block.c - a block's report goes straight into the ring as vs_record would put it, and takes the
 * long way wherever something is to be looked at first.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "core/clock.h"
#include "core/options.h"
#include "record/block.h"
#include "child_kit.h"

static uint64_t slowly(uint8_t op, uint64_t address)
{
    struct vs_event e = {.op = op,
                         .space = VS_SPACE_DEVICE,
                         .device = 3,
                         .address = address,
                         .size = 512,
                         .arg0 = 7,
                         .arg1 = 9};
    return vs_record(&e);
}

static bool straight(uint8_t op, uint64_t address)
{
    return vs_record_block(op, VS_SPACE_DEVICE, 3, 0, address, 512, 7, 9, 0);
}

/* As framework/torch.c does it. */
static bool report(uint8_t op, uint64_t address)
{
    return straight(op, address) || slowly(op, address) != VS_SEQ_NONE;
}

/* ---- straight ---- */

IN_CHILD(a_block_is_the_same_event_on_both_ways)
{
    struct vs_event *e;
    uint64_t before = vs_clock_ns();
    vs_self.range = 17;
    CHECK(slowly(VS_OP_BLOCK_ALLOC, 4096) != VS_SEQ_NONE);
    CHECK(straight(VS_OP_BLOCK_ALLOC, 4096));
    CHECK(slowly(VS_OP_BLOCK_FREE, 4096) != VS_SEQ_NONE);
    CHECK(straight(VS_OP_BLOCK_FREE, 4096));
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 4);
    for (int i = 0; i < 4; i++) {
        CHECK(e[i].t_ns + VS_EVENT_CLOCK_ERROR_NS >= (i ? e[i - 1].t_ns : before));
        e[i].t_ns = e[i].state = 0;
        CHECK(e[i].address == 4096 && e[i].size == 512 && e[i].arg0 == 7 && e[i].arg1 == 9 &&
              e[i].device == 3);
        CHECK(e[i].range == 17 && e[i].thread == 1 && e[i].stack == 0 && e[i].status == 0 &&
              e[i].context == 0);
    }
    CHECK(memcmp(&e[0], &e[1], sizeof *e) == 0 && e[0].op == VS_OP_BLOCK_ALLOC);
    CHECK(memcmp(&e[2], &e[3], sizeof *e) == 0 && e[2].op == VS_OP_BLOCK_FREE);
}

IN_CHILD(a_thread_without_a_range_has_the_leads)
{
    static const uint32_t leads = 23;
    struct vs_event *e;
    report(VS_OP_BLOCK_ALLOC, 1);
    CHECK(straight(VS_OP_BLOCK_ALLOC, 2));
    atomic_store(&vs_hot.lead, &leads);
    CHECK(straight(VS_OP_BLOCK_ALLOC, 3));
    vs_self.range = 5;
    CHECK(straight(VS_OP_BLOCK_ALLOC, 4));
    vs_self.range = VS_RANGE_UNKNOWN;
    CHECK(!straight(VS_OP_BLOCK_ALLOC, 5));
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 4);
    CHECK(e[1].range == 0 && e[2].range == 23 && e[3].range == 5);
}

/* ---- the long way ---- */

IN_CHILD(nothing_goes_straight_before_the_recording_and_its_thread_are_known)
{
    CHECK(!straight(VS_OP_BLOCK_ALLOC, 1) && !vs_record_journal());
    CHECK(vs_record_start());
    CHECK(!straight(VS_OP_BLOCK_ALLOC, 1)); /* this thread has no row yet */
    CHECK(report(VS_OP_BLOCK_ALLOC, 1));
    CHECK(straight(VS_OP_BLOCK_ALLOC, 2));
}

IN_CHILD(what_is_to_be_looked_at_first_takes_the_long_way)
{
    report(VS_OP_BLOCK_ALLOC, 1);
    vs_record_window(false);
    CHECK(!straight(VS_OP_BLOCK_FREE, 1) && slowly(VS_OP_BLOCK_FREE, 1) != VS_SEQ_NONE);
    vs_record_window(true);
    CHECK(straight(VS_OP_BLOCK_FREE, 1));
    vs_record_enter_internal();
    CHECK(!straight(VS_OP_BLOCK_FREE, 1));
    vs_record_leave_internal();
    atomic_fetch_add(&vs_hot.careful, UINT64_C(1) << VS_CAREFUL_PENDING); /* a push waits to be written */
    CHECK(!straight(VS_OP_BLOCK_FREE, 1));
    atomic_fetch_sub(&vs_hot.careful, UINT64_C(1) << VS_CAREFUL_PENDING);
    CHECK(straight(VS_OP_BLOCK_FREE, 1));
    vs_record_into(NULL); /* a benchmark pauses the recording */
    CHECK(!straight(VS_OP_BLOCK_FREE, 1));
    vs_record_into(vs_record_journal());
    CHECK(straight(VS_OP_BLOCK_FREE, 1));
}

IN_CHILD(a_block_that_gets_a_call_stack_takes_the_long_way_and_its_free_does_not)
{
    vs_options.stacks = VS_STACKS_ALL;
    CHECK(report(VS_OP_BLOCK_ALLOC, 1));
    CHECK(!straight(VS_OP_BLOCK_ALLOC, 2) && straight(VS_OP_BLOCK_FREE, 1));
}

static uint32_t python_stack(struct vs_journal *j)
{
    return j == vs_record_journal() ? 77 : 0;
}

IN_CHILD(a_block_with_python_frames_alone_goes_straight_with_them)
{
    struct vs_event *e;
    vs_options.stacks = VS_STACKS_PYTHON;
    vs_suppliers.python_stack = python_stack;
    CHECK(slowly(VS_OP_BLOCK_ALLOC, 1) != VS_SEQ_NONE);
    CHECK(straight(VS_OP_BLOCK_ALLOC, 1) && straight(VS_OP_BLOCK_FREE, 1));
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 3);
    CHECK(e[1].stack == 77 && e[2].stack == 0);
    e[0].t_ns = e[1].t_ns = e[0].state = e[1].state = 0;
    CHECK(memcmp(&e[0], &e[1], sizeof *e) == 0);
}

IN_CHILD(births_are_taken_with_python_frames_while_the_recording_runs)
{
    vs_options.stacks = VS_STACKS_PYTHON;
    CHECK(!vs_record_of_births());
    CHECK(vs_record_start() && vs_record_of_births() == vs_record_journal());
    vs_record_window(false);
    CHECK(!vs_record_of_births());
    vs_record_window(true);
    vs_record_enter_internal();
    CHECK(!vs_record_of_births());
    vs_record_leave_internal();
    vs_record_into(NULL); /* a benchmark pauses the recording */
    CHECK(!vs_record_of_births());
    vs_record_into(vs_record_journal());
    CHECK(vs_record_of_births() == vs_record_journal());
}

IN_CHILD(births_are_not_taken_without_python_frames)
{
    vs_options.stacks = VS_STACKS_DRIVER;
    CHECK(vs_record_start() && !vs_record_of_births());
}

IN_CHILD(a_full_ring_is_left_to_the_long_way_which_counts)
{
    struct vs_journal_stats s;
    writer_error = -EAGAIN; /* nothing is taken out */
    report(VS_OP_BLOCK_ALLOC, 1);
    int n = 1;
    while (straight(VS_OP_BLOCK_ALLOC, 2))
        CHECK(n++ <= 4096);
    CHECK(n > 3500 && n <= 4096 - 4096 / 8); /* the last eighth is for ends */
    CHECK(!report(VS_OP_BLOCK_ALLOC, 3));
    vs_journal_stats(vs_record_journal(), &s);
    CHECK(s.lost == 1 && s.lost_ends == 0);
    CHECK(report(VS_OP_BLOCK_FREE, 2));  /* an end has room */
    CHECK(!report(VS_OP_BLOCK_FREE, 3)); /* its beginning was dropped */
    vs_journal_stats(vs_record_journal(), &s);
    CHECK(s.lost == 2 && s.lost_ends == 0);
}

/* ---- other processes, other threads, the end ---- */

static void fork_and_check(pid_t pid)
{
    int status;
    struct vs_event *e;
    if (pid == 0) {
        CHECK(!straight(VS_OP_BLOCK_ALLOC, 1000)); /* never into the parent's ring */
        CHECK(slowly(VS_OP_BLOCK_FREE, 1) == VS_SEQ_NONE);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(straight(VS_OP_BLOCK_ALLOC, 2));
    vs_drain_finish();
    CHECK(load(in_dir("run.db"), &e) == 2 && e[0].address == 1 && e[1].address == 2);
}

IN_CHILD(a_fork_child_never_writes_into_its_parents_ring)
{
    report(VS_OP_BLOCK_ALLOC, 1);
    fork_and_check(fork());
}

IN_CHILD(a_raw_clone_child_does_not_either)
{
    report(VS_OP_BLOCK_ALLOC, 1);
    fork_and_check((pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL));
}

IN_CHILD(after_the_final_drain_blocks_still_get_in)
{
    struct vs_event *e;
    report(VS_OP_BLOCK_ALLOC, 1);
    vs_drain_finish();
    CHECK(straight(VS_OP_BLOCK_ALLOC, 2)); /* drained on the spot */
    CHECK(load(in_dir("run.db"), &e) == 2 && e[1].address == 2);
}

static _Atomic uint64_t from_handler;

static void on_timer(int signal)
{
    from_handler += report(VS_OP_BLOCK_FREE, 7);
}

IN_CHILD(a_signal_handler_may_report_at_any_point_of_a_report)
{
    struct vs_event *e;
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval fast = {{0, 50}, {0, 50}}, none = {{0, 0}, {0, 0}};
    uint64_t from_thread = 0, until;
    report(VS_OP_BLOCK_ALLOC, 1);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &fast, NULL);
    until = vs_clock_ns() + 500000000;
    while (vs_clock_ns() < until || from_handler <= 100) /* longer where the machine is busy */
        from_thread += report(VS_OP_BLOCK_FREE, 8);
    setitimer(ITIMER_REAL, &none, NULL);
    settle();
    vs_drain_finish();
    size_t n = load(in_dir("run.db"), &e), handler = 0, thread = 0;
    for (size_t i = 0; i < n; i++) {
        handler += e[i].address == 7;
        thread += e[i].address == 8;
        CHECK(e[i].address == 1 || (e[i].op == VS_OP_BLOCK_FREE && e[i].size == 512 && e[i].arg1 == 9));
    }
    CHECK(handler == from_handler && handler > 100);
    CHECK(thread == from_thread);
}

enum { THREADS = 4, EACH = 100000 };

static void *report_in_order(void *argument)
{
    uint64_t got = 0;
    for (uint64_t i = 0; i < EACH; i++)
        got += report(VS_OP_BLOCK_FREE, (uint64_t)(uintptr_t)argument << 32 | (i + 1));
    return (void *)(uintptr_t)got;
}

IN_CHILD(threads_that_report_at_once_lose_nothing_unsaid_and_keep_their_order)
{
    struct vs_event *e;
    struct vs_journal_stats s;
    pthread_t t[THREADS];
    uint64_t accepted = 0, last[THREADS] = {0};
    void *got;
    report(VS_OP_BLOCK_ALLOC, UINT64_C(1) << 40);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, report_in_order, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], &got);
        accepted += (uintptr_t)got;
    }
    settle();
    vs_journal_stats(vs_record_journal(), &s);
    CHECK(accepted + s.lost == THREADS * EACH);
    vs_drain_finish();
    size_t n = load(in_dir("run.db"), &e);
    CHECK(n == accepted + 1);
    for (size_t i = 1; i < n; i++) {
        uint64_t of = e[i].address >> 32, number = e[i].address & UINT32_MAX;
        CHECK(of < THREADS && number > last[of]);
        last[of] = number;
    }
}

int main(void)
{
    option = "VRAMSCOPE_STACKS=driver";
    return run_all_tests(NULL, NULL);
}
