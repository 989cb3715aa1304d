/*
 * keeper.c - the second thread of a recording, beside the drain's, which has a table of descriptors of its
 * own: were that one the last thread of the process, the host's output could not be written at exit.  So this
 * one shares the host's table and ends last; until then it runs the suppliers' function that takes samples
 * (sample/), and starts the threads of requests (control.c).
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/own_threads.h"
#include "core/procstat.h"
#include "recording.h"

#define LAST_MS 5000

static void wait_for_the_end(struct vs_recording *r)
{
    for (uint32_t rung = vs_keeper_bell(r);
         atomic_load_explicit(&r->look, memory_order_acquire) != VS_LOOK_END; rung = vs_keeper_bell(r))
        syscall(SYS_futex, &r->bell, FUTEX_WAIT_PRIVATE, rung, NULL, NULL, 0);
}

/* The host's threads are gone.  When this thread returns as the very last one, glibc calls exit on it, which
 * runs the host's handlers and flushes its output.  So the drain's thread must have ended completely
 * before. */
static void be_the_last(void)
{
    struct vs_procstat s;
    struct timespec t = {0, 1000000};
    for (int ms = 0; ms < LAST_MS && vs_procstat(getpid(), &s) && s.threads > 2; ms++)
        nanosleep(&t, NULL);
}

void *vs_keeper_main(void *recording)
{
    struct vs_recording *r = recording;
    vs_own_thread_begin();
    vs_record_enter_internal();
    prctl(PR_SET_NAME, "vramscope-nvml");
    vs_suppliers.second_thread(r);
    wait_for_the_end(r);
    if (atomic_load(&r->alone))
        be_the_last();
    vs_record_leave_internal();
    atomic_fetch_sub(&r->threads, 1);
    vs_own_thread_end();
    pthread_sigmask(SIG_SETMASK, &r->host_signals, NULL);
    return NULL;
}

void vs_keeper_ring(struct vs_recording *r)
{
    /* release: a thread that sees the new number sees the request behind it */
    atomic_fetch_add_explicit(&r->bell, 1, memory_order_release);
    syscall(SYS_futex, &r->bell, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- the thread of a request ----
 *
 * A thread shares the descriptors of who starts it.  The drain's are not those that the driver opened, so
 * this thread starts it, where there is one; without one the drain has the host's. */

static void *carry_out(void *recording)
{
    struct vs_recording *r = recording;
    vs_own_thread_begin();
    vs_record_enter_internal();
    prctl(PR_SET_NAME, "vramscope-away");
    vs_control_carry_out(r);
    vs_record_leave_internal();
    atomic_fetch_sub(&r->threads, 1);
    vs_own_thread_end();
    pthread_sigmask(SIG_SETMASK, &r->host_signals, NULL);
    return NULL;
}

static void start_request(struct vs_recording *r)
{
    int error = vs_control_begin(r) ? vs_record_thread(r, carry_out, r) : 0;
    if (error)
        vs_control_no_thread(r, error);
}

void vs_keeper_request(struct vs_recording *r)
{
    if (atomic_load(&r->keeper))
        vs_keeper_ring(r);
    else
        start_request(r);
}

uint32_t vs_keeper_bell(struct vs_recording *r)
{
    /* acquire: the ring's release; what it rang for is seen behind it */
    uint32_t rung = atomic_load_explicit(&r->bell, memory_order_acquire);
    start_request(r);
    return rung;
}

/* Takes the last sample if no exit handler did (main called pthread_exit).  It does not wait for a sampler
 * that is stuck in the driver: a sample after the end is a late event like others. */
void vs_keeper_end(struct vs_recording *r)
{
    if (atomic_load(&r->alone))
        vs_suppliers.last_look(r);
    atomic_store(&r->look, VS_LOOK_END);
    syscall(SYS_futex, &r->look, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    vs_keeper_ring(r);
}
