/*
 * drain.c - the thread that moves events from the journal into the database, and the end of a recording.
 *
 *      every 100 ms (200 ms when idle), or when a quarter of the ring has been filled:
 *          the suppliers' work of a round, such as noting newly loaded objects
 *          drain until nothing is left
 *          sample the host's memory
 *          look for a request of another process (control.c)
 *
 * The thread has all signals blocked, is marked internal (hooks pass through) and detached.  When the
 * database can't be written it reports that once, keeps all events in the journal and tries again with
 * growing pauses.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/contracts.h"
#include "core/log.h"
#include "core/options.h"
#include "core/own_threads.h"
#include "recording.h"
#include "core/own_work.h"
#include "core/procstat.h"
#include "trace/writer/writer.h"

#define MS            UINT64_C(1000000)
#define BUSY_NS       (100 * MS)
#define IDLE_NS       (200 * MS)
#define ALONE_NS      (500 * MS)
#define ROUND_NS      (50 * MS)
#define HELD_NS       (20 * MS)
#define RETRY_NS      (500 * MS)
#define RETRY_MAX     (30000 * MS)
#define STRAGGLERS_NS (5 * MS)
#define STACK_BYTES   (1024 * 1024)

struct drain {
    struct vs_recording *r;
    struct vs_journal *j;
    struct vs_writer *writer; /* NULL until it could be opened */
    uint64_t next_sample_ns, next_try_ns, retry_ns;
    uint64_t next_alone_ns;
    uint32_t simulated_told, contracts_told;
    bool failure_said;
};

/* Everything in it belongs to one recording: a fork child's start clears its copy. */
static struct drain drain;

static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t ns)
{
    if (ns == 0)
        return;
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- writing ---- */

static void failed(struct drain *d, const char *why)
{
    size_t named = strlen(d->r->database);
    if (strncmp(why, d->r->database, named) == 0 && strncmp(why + named, ": ", 2) == 0)
        why += named + 2; /* the reason names the database already */
    if (!d->failure_said)
        vs_log(
            "can't write %s: %s; events stay in %s and are tried again; after the end: vramscope recover %s",
            d->r->database, why, d->r->journal_path, d->r->journal_path);
    d->failure_said = true;
    d->retry_ns = d->retry_ns == 0 ? RETRY_NS : d->retry_ns * 2 > RETRY_MAX ? RETRY_MAX : d->retry_ns * 2;
    d->next_try_ns = vs_clock_ns() + d->retry_ns;
}

static int32_t fact_number(const struct vs_journal *j, const char *key)
{
    const char *text = vs_journal_fact(j, key);
    return text ? (int32_t)atoi(text) : VS_UNKNOWN_NUMBER;
}

static bool open_writer(struct drain *d)
{
    char why[256] = "";
    struct vs_database c = {
        .path = d->r->database,
        .max_bytes = vs_options.max_bytes,
        .version = VRAMSCOPE_VERSION,
        .host = vs_journal_fact(d->j, "host"),
        .boot_id = vs_journal_fact(d->j, "boot_id"),
        .command = vs_journal_fact(d->j, "command"),
        .labels = vs_journal_fact(d->j, "labels"),
        .limit = vs_journal_fact(d->j, VS_FACT_LIMIT),
        .pid = getpid(),
        .rank = fact_number(d->j, "rank"),
        .local_rank = fact_number(d->j, "local_rank"),
        .world_size = fact_number(d->j, "world_size"),
        .simulated = atomic_load(&d->r->simulated) > 0 ? (int)atomic_load(&d->r->simulated) - 1 : 0,
        .journal_path = d->r->journal_path,
    };
    if (d->writer)
        return true;
    int err = vs_writer_open(&d->writer, &c, d->j, why, sizeof why);
    if (err == 0)
        return true;
    d->writer = NULL;
    failed(d, *why ? why : strerror(-err));
    return false;
}

/* Opens another writer, which continues after the database's mark: the ring still has the later events. */
static void mend_writer(struct drain *d)
{
    if (!d->writer || !vs_writer_broken())
        return;
    vs_writer_close(d->writer, false);
    d->writer = NULL;
    d->simulated_told = d->contracts_told = 0;
    vs_log("the shared memory beside %s was truncated by somebody; opened the database again",
           d->r->database);
}

/* False: there is nothing to complete. */
static bool note_cut_short(struct drain *d)
{
    if (!atomic_load(&d->r->cut_short))
        return true;
    vs_log(
        "the journal %s was truncated by somebody: the recording ends here; %s has what was written before",
        d->r->journal_path, d->r->database);
    if (d->writer)
        vs_writer_loss(d->writer, 0, VS_LOSS_JOURNAL_CUT, NULL);
    return d->writer != NULL;
}

static void tell_simulated(struct drain *d)
{
    uint32_t simulated = atomic_load_explicit(&d->r->simulated, memory_order_relaxed);
    if (simulated != d->simulated_told)
        vs_writer_set_simulated(d->writer, (int)simulated - 1, vs_journal_fact(d->j, VS_FACT_DRY));
    d->simulated_told = simulated;
}

/* A row of table meta each, "contract.NAME": view contract.  Written again, they are the same. */
static void tell_contracts(struct drain *d)
{
    uint32_t said = vs_contracts_said();
    for (unsigned i = 0; said != d->contracts_told && i < VS_CONTRACTS; i++) {
        const struct vs_contract_row *row = &vs_contract_rows[i];
        enum vs_contract_state state = vs_contract_state(i);
        char key[64], text[400];
        if (state == VS_CONTRACT_UNASKED)
            continue;
        snprintf(key, sizeof key, "contract.%s", row->name);
        if (state == VS_CONTRACT_PROVEN)
            snprintf(text, sizeof text, "proven: %s: %s", vs_party_name(row->party), vs_contract_detail(i));
        else
            snprintf(text, sizeof text, "broken: %s: %s: %s", vs_party_name(row->party), row->lost,
                     vs_contract_detail(i));
        if (vs_writer_fact(d->writer, key, text) < 0)
            return; /* the next round tells them all */
    }
    d->contracts_told = said;
}

static uint64_t ring_head(const struct vs_journal *j)
{
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    return s.head;
}

/* Whether everything before sequence GOAL is in the database. */
static bool reached(const struct vs_journal *j, uint64_t goal)
{
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    return s.tail >= goal;
}

/* Drains until the time UNTIL, and not beyond sequence GOAL, because producers may be as fast as the drain.
 * Returns the number of events, or a negative errno. */
static long drain_all(struct drain *d, bool final, uint64_t until, uint64_t goal)
{
    long n, sum = 0;
    tell_simulated(d);
    tell_contracts(d);
    while ((n = vs_writer_drain(d->writer, final)) > 0) {
        sum += n;
        if (vs_clock_ns() >= until || reached(d->j, goal))
            break;
    }
    if (n < 0) {
        failed(d, strerror((int)-n));
        return n;
    }
    d->retry_ns = 0;
    return sum;
}

static bool journal_empty(const struct vs_journal *j)
{
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    return s.head == s.tail;
}

/* ---- the end ----
 *
 * vs_drain_finish runs after every other exit handler and every library's destructors.  It wakes the thread
 * for a last round and waits two seconds at most (VRAMSCOPE_EXIT_MS).  From then on a thread that records an
 * event also drains it (late mode).  Without the thread (it could not be started, or is gone) the finisher
 * does the last round itself. */

/* Waits a moment for threads that are just writing an event, because the last drain does not wait for
 * them. */
static long drain_stragglers(struct drain *d, uint64_t until)
{
    uint64_t goal = ring_head(d->j); /* later events must not delay the exit */
    long n = drain_all(d, false, until, goal);
    if (until > vs_clock_ns() + STRAGGLERS_NS)
        until = vs_clock_ns() + STRAGGLERS_NS;
    while (n >= 0 && !reached(d->j, goal) && vs_clock_ns() < until) {
        usleep(500);
        n = drain_all(d, false, until, goal);
    }
    return n;
}

/* Completes the file: all events in one file, the journal removed.  If something can't be written the
 * journal stays, and readers merge it.  Late mode begins before the last look into the ring, so that no
 * event falls between the two. */
static void finish(struct drain *d)
{
    uint64_t until = vs_clock_ns() + vs_options.exit_ms * MS * 3 / 4;
    mend_writer(d);
    if (!note_cut_short(d) || !open_writer(d))
        return;
    vs_journal_tell_dropped(d->j, vs_event_clock_ns());
    long n = drain_stragglers(d, until);
    atomic_store(&d->r->late, 1);
    atomic_store(&vs_hot.nudge_mask, 0);
    if (n >= 0)
        n = drain_all(d, true, until, ring_head(d->j));
    int err = vs_writer_close(d->writer, n >= 0 && journal_empty(d->j));
    d->writer = NULL;
    d->simulated_told = d->contracts_told = 0;
    if (err)
        failed(d, strerror(-err));
    if (n < 0 || err || !journal_empty(d->j))
        return;
    unlink(d->r->journal_path);
    vs_log_person("recorded into %s: vramscope report shows it", d->r->database);
}

/* Takes the writer if no thread has it. */
static bool take_writing(struct vs_recording *r)
{
    uint32_t nobody = 0;
    return atomic_compare_exchange_strong(&r->writing, &nobody, 1);
}

static void finish_on(void *d)
{
    finish(d);
}

/* Likewise on a thread of the host's, which has taken the writer. */
static void finish_here(struct vs_recording *r)
{
    struct vs_signal_mask mask;
    vs_signal_mask_block(&mask);
    vs_record_enter_internal();
    vs_on_own_stack(finish_on, &drain);
    vs_record_leave_internal();
    atomic_store(&r->writing, 0);
    vs_signal_mask_restore(&mask);
}

/* After the end: drains on the spot.  A thread that cannot take the writer leaves its event to the thread
 * that has it, which looks again after releasing it. */
static void drain_late(struct vs_recording *r)
{
    int rounds = 0;
    while (!journal_empty(drain.j) && rounds++ < 3 && take_writing(r))
        finish_here(r);
}

/* ---- the thread ---- */

static uint64_t pause_ns(const struct drain *d, long moved)
{
    uint64_t now = vs_clock_ns(), ns = moved > 0 ? BUSY_NS : IDLE_NS;
    struct vs_journal_stats s;
    vs_journal_stats(d->j, &s);
    bool can_write = d->writer && d->retry_ns == 0;
    if (can_write && s.head - s.tail > atomic_load_explicit(&vs_hot.nudge_mask, memory_order_relaxed))
        return 0; /* the round was cut short */
    if (can_write && s.head != s.tail)
        ns = HELD_NS; /* the ledger waits for reports that decide about these */
    if (vs_options.sample_ms && d->next_sample_ns < now + ns)
        ns = d->next_sample_ns > now ? d->next_sample_ns - now : 0;
    return ns;
}

static void sample(struct drain *d)
{
    uint64_t now = vs_clock_ns();
    if (vs_options.sample_ms == 0 || now < d->next_sample_ns)
        return;
    d->next_sample_ns = now + vs_options.sample_ms * MS;
    atomic_store_explicit(&d->r->host_rss, vs_procstat_rss(), memory_order_relaxed);
    if (atomic_load_explicit(&d->r->nvml, memory_order_relaxed) != VS_NVML_USED &&
        vs_journal_get_device(d->j, 1))
        atomic_store_explicit(&d->r->sample_wanted, 1, memory_order_relaxed);
}

static long one_round(struct drain *d)
{
    vs_suppliers.round(d->j);
    vs_event_clock_tune();
    sample(d);
    mend_writer(d);
    if (vs_clock_ns() < d->next_try_ns || !open_writer(d))
        return 0;
    vs_journal_tell_dropped(d->j, vs_event_clock_ns());
    return drain_all(d, false, vs_clock_ns() + ROUND_NS, UINT64_MAX);
}

/* Whether all threads of the host have ended without ending the process: after pthread_exit in main the last
 * thread calls exit, and the process must not wait for our threads for ever.  Then this thread ends.  The
 * sampler's thread, which shares the host's descriptors, ends last, so that the host's output can still be
 * written at exit. */
static bool alone(struct drain *d, long moved)
{
    struct vs_procstat s;
    uint64_t now = vs_clock_ns();
    if (moved || now < d->next_alone_ns)
        return false;
    d->next_alone_ns = now + ALONE_NS;
    return vs_procstat(getpid(), &s) && s.state == 'Z' && s.threads == 1 + (long)atomic_load(&d->r->threads);
}

static void run_rounds(struct drain *d)
{
    while (!atomic_load_explicit(&d->r->stop, memory_order_acquire)) {
        uint32_t seen = atomic_load_explicit(&d->r->nudge, memory_order_acquire);
        long moved = one_round(d);
        if (vs_control_round(d->r, d->j, d->writer))
            vs_keeper_request(d->r);
        if (atomic_load(&d->r->cut_short))
            return;
        if (alone(d, moved)) {
            atomic_store(&d->r->alone, 1);
            return;
        }
        if (!atomic_load_explicit(&d->r->stop, memory_order_acquire))
            futex_wait(&d->r->nudge, seen, pause_ns(d, moved));
    }
}

/* Gives the thread a descriptor table of its own.  If that is refused, or there is no thread of ours, the
 * store checks each descriptor before use. */
static void own_descriptors(const struct vs_recording *r)
{
    if (!atomic_load(&r->keeper) || !vs_own_descriptors())
        return;
    vs_log_from_afar();
    vs_writer_alone();
}

static void *drain_main(void *arg)
{
    struct drain *d = arg;
    struct vs_recording *r = d->r;
    vs_own_thread_begin();
    vs_record_enter_internal();
    prctl(PR_SET_NAME, "vramscope");
    own_descriptors(r);
    run_rounds(d);
    vs_keeper_end(r);
    sample(d);
    finish(d);
    atomic_store(&r->writing, 0);
    atomic_store(&r->drained, 1);
    futex_wake(&r->drained);
    if (atomic_load(&r->late))
        drain_late(r);
    vs_record_leave_internal();
    atomic_fetch_sub(&r->threads, 1);
    vs_own_thread_end();
    pthread_sigmask(SIG_SETMASK, &r->host_signals, NULL);
    return NULL;
}

int vs_record_thread(struct vs_recording *r, void *(*function)(void *), void *argument)
{
    atomic_fetch_add(&r->threads, 1);
    int err = vs_own_thread(NULL, STACK_BYTES, function, argument);
    if (err)
        atomic_fetch_sub(&r->threads, 1);
    return err;
}

void vs_drain_start(struct vs_recording *r, struct vs_journal *j, const sigset_t *host_signals)
{
    drain = (struct drain){.r = r, .j = j};
    r->sampler_journal = j;
    r->host_signals = *host_signals;
    r->pid = getpid();
    atomic_store(&r->writing, 1); /* the drain's thread has it or, without one, the thread that finishes */
    /* The keeper's thread first: the drain's thread must know whether it may be the last one. */
    atomic_store(&r->keeper, vs_record_thread(r, vs_keeper_main, r) == 0);
    int err = vs_record_thread(r, drain_main, &drain);
    atomic_store(&r->has_thread, err == 0);
    if (err) {
        vs_keeper_end(r);
        vs_log("no drain thread: %s; the journal keeps what it can until the end of the process",
               strerror(err));
    }
}

void vs_drain_here(struct vs_recording *r, struct vs_journal *j)
{
    drain = (struct drain){.r = r, .j = j};
    atomic_store(&r->writing, 1);
    finish_here(r);
}

void vs_drain_nudge(struct vs_recording *r)
{
    int kept = errno;
    if (atomic_load_explicit(&r->late, memory_order_relaxed)) {
        drain_late(r);
    } else {
        atomic_fetch_add_explicit(&r->nudge, 1, memory_order_release);
        futex_wake(&r->nudge);
    }
    errno = kept;
}

static void wait_drained(struct vs_recording *r)
{
    uint64_t until = vs_clock_ns() + vs_options.exit_ms * MS;
    while (!atomic_load_explicit(&r->drained, memory_order_acquire) && vs_clock_ns() < until)
        futex_wait(&r->drained, 0, 100 * MS);
}

void vs_drain_finish(void)
{
    struct vs_recording *r = vs_recording;
    uint32_t running = 0;
    int kept = errno;
    vs_record_await_start(r); /* otherwise an empty database and a journal would stay */
    errno = kept;
    bool recorded = atomic_load_explicit(&r->journal, memory_order_acquire) || atomic_load(&r->cut_short);
    if (!recorded || r->pid != getpid())
        return;
    vs_journal_set_fact(drain.j, VS_FACT_CAME_TO_EXIT, "1"); /* what is not written in time is no kill's */
    if (!atomic_compare_exchange_strong(&r->stop, &running, 1))
        return;
    if (atomic_load(&r->has_thread)) {
        atomic_fetch_add_explicit(&r->nudge, 1, memory_order_release);
        futex_wake(&r->nudge);
        wait_drained(r);
    } else {
        finish_here(r);
        if (atomic_load(&r->late))
            drain_late(r);
    }
    errno = kept;
}
