/*
 * query.c - queries of the host's threads to the sampler's thread (sampler.h).
 *
 * A query is a small cell in the recording's mapping, so a fork child has none of its parent's:
 *
 *      FREE ─▶ TAKEN ─▶ ASKED ─▶ ANSWERING ─▶ ANSWERED ─▶ FREE
 *                         │          └─ gave up ─▶ ABANDONED ─▶ FREE (by the sampler)
 *                         └─ gave up ─▶ FREE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/options.h"
#include "record/recording.h"
#include "sampler.h"
#include "core/own_work.h"

#define GIVE_UP 3

enum { FREE, TAKEN, ASKED, ANSWERING, ANSWERED, ABANDONED };

/* ---- the querying thread ---- */

static bool move(struct vs_question *q, uint32_t from, uint32_t to)
{
    /* acquire and release: the cell's other fields go with the state, in both directions */
    return atomic_compare_exchange_strong_explicit(&q->state, &from, to, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static struct vs_question *take_cell(struct vs_recording *r)
{
    for (int i = 0; i < VS_QUESTIONS; i++)
        if (move(&r->questions[i], FREE, TAKEN))
            return &r->questions[i];
    return NULL;
}

/* Waits for the answer, NS at most; false: none came in time, and the cell is abandoned. */
static bool await(struct vs_question *q, uint64_t ns)
{
    uint64_t now, until = vs_clock_ns() + ns;
    uint32_t state;
    while ((state = atomic_load_explicit(&q->state, memory_order_acquire)) != ANSWERED &&
           (now = vs_clock_ns()) < until) {
        struct timespec left = {0, (long)(until - now)};
        syscall(SYS_futex, &q->state, FUTEX_WAIT_PRIVATE, state, &left, NULL, 0);
    }
    return state == ANSWERED || (!move(q, ASKED, FREE) && !move(q, ANSWERING, ABANDONED));
}

/* ---- the bound on queries; relaxed throughout, because the sums are only compared with the bound ---- */

static uint64_t left_ns(struct vs_recording *r)
{
    uint64_t first = atomic_load_explicit(&r->first_query_ns, memory_order_relaxed);
    uint64_t took = atomic_load_explicit(&r->query_ns, memory_order_relaxed);
    uint64_t may = VS_QUERY_FREE_MS * UINT64_C(1000000), share = first ? (vs_clock_ns() - first) / 1000 : 0;
    may = share > may ? share : may;
    return took < may ? may - took : 0;
}

bool vs_query_time_spent(void)
{
    struct vs_recording *r = vs_recording;
    return left_ns(r) <= atomic_load_explicit(&r->last_query_ns, memory_order_relaxed);
}

void vs_query_took(uint64_t begin, uint64_t ns)
{
    struct vs_recording *r = vs_recording;
    uint64_t none = 0;
    atomic_compare_exchange_strong_explicit(&r->first_query_ns, &none, begin, memory_order_relaxed,
                                            memory_order_relaxed);
    atomic_fetch_add_explicit(&r->query_ns, ns, memory_order_relaxed);
    atomic_store_explicit(&r->last_query_ns, ns, memory_order_relaxed);
}

bool vs_used_alone(int device)
{
    struct vs_recording *r = vs_recording;
    if (device < 0 || device >= VS_ALONE_DEVICES ||
        atomic_load_explicit(&r->look, memory_order_relaxed) != VS_LOOK_ALWAYS)
        return false;
    uint64_t seen = atomic_load_explicit(&r->alone_ns[device], memory_order_relaxed);
    return seen != 0 && vs_clock_ns() - seen < VS_ALONE_MS * UINT64_C(1000000);
}

/* ---- a query ---- */

static bool ask(struct vs_recording *r, int device, uint64_t ns, struct vs_used *used)
{
    struct vs_question *q = take_cell(r);
    if (!q)
        return false;
    q->device = device;
    atomic_store_explicit(&q->state, ASKED, memory_order_release);
    vs_keeper_ring(r);
    if (!await(q, ns)) {
        atomic_fetch_add_explicit(&r->unanswered, 1, memory_order_relaxed);
        return false;
    }
    *used = (struct vs_used){q->process, q->whole, q->answered};
    atomic_store_explicit(&q->state, FREE, memory_order_release);
    return used->process != VS_BYTES_UNKNOWN || used->device != VS_BYTES_UNKNOWN || used->answered;
}

/* Relaxed loads: a stale value costs a query that is not made, or one that waits in vain. */
static bool can_answer(struct vs_recording *r)
{
    return atomic_load_explicit(&r->nvml, memory_order_relaxed) == VS_NVML_USED &&
           atomic_load_explicit(&r->look, memory_order_relaxed) == VS_LOOK_ALWAYS && r->pid == getpid() &&
           atomic_load_explicit(&r->unanswered, memory_order_relaxed) < GIVE_UP;
}

/* Takes NS at most; *TOOK gets the time that it took.
 *
 * All signals are blocked meanwhile, because a handler that jumps out would leave the cell taken for ever.
 * After GIVE_UP unanswered queries in a row (the sampler is starved, or stuck in the driver) there are no
 * more until the sampler has answered something or ticked, so that its trouble costs the host some tens of
 * milliseconds in all.  The total waiting time is bounded as well (vs_query_time_spent), because an NVML that
 * takes milliseconds must not slow down the first launches of thousands of kernels. */
static bool query_within(int device, uint64_t ns, struct vs_used *used, uint64_t *begin, uint64_t *took)
{
    struct vs_recording *r = vs_recording;
    struct vs_signal_mask mask;
    int kept = errno;
    *used = (struct vs_used){VS_BYTES_UNKNOWN, VS_BYTES_UNKNOWN, false};
    *took = 0;
    if (ns == 0 || !vs_record_enabled() || !can_answer(r))
        return false;
    vs_signal_mask_block(&mask);
    *begin = vs_clock_ns();
    bool known = ask(r, device, ns, used);
    *took = vs_clock_ns() - *begin;
    vs_signal_mask_restore(&mask);
    errno = kept;
    return known;
}

bool vs_used_now(int device, struct vs_used *used)
{
    uint64_t left = left_ns(vs_recording), most = VS_QUERY_MS * UINT64_C(1000000), begin, took;
    bool known = query_within(device, left < most ? left : most, used, &begin, &took);
    if (took != 0)
        vs_query_took(begin, took);
    return known;
}

bool vs_used_first(int device, struct vs_used *used)
{
    uint64_t begin, took;
    return query_within(device, VS_QUERY_FIRST_MS * UINT64_C(1000000), used, &begin, &took);
}

bool vs_used_undecided(void)
{
    struct vs_recording *r = vs_recording;
    return vs_record_journal() && atomic_load_explicit(&r->keeper, memory_order_relaxed) &&
           atomic_load_explicit(&r->nvml, memory_order_relaxed) == VS_NVML_UNDECIDED &&
           vs_options.sample_ms > 0 &&
           atomic_load_explicit(&r->look, memory_order_relaxed) == VS_LOOK_ALWAYS && r->pid == getpid();
}

uint64_t vs_used_cost(const struct vs_used *before, const struct vs_used *after)
{
    if (!before->answered || !after->answered)
        return VS_BYTES_UNKNOWN;
    if (after->process != VS_BYTES_UNKNOWN) /* not listed before, so it used nothing on the device */
        return after->process - (before->process == VS_BYTES_UNKNOWN ? 0 : before->process);
    if (before->process != VS_BYTES_UNKNOWN) /* its last context has ended */
        return 0 - before->process;
    if (before->device == VS_BYTES_UNKNOWN || after->device == VS_BYTES_UNKNOWN)
        return VS_BYTES_UNKNOWN;
    return after->device - before->device;
}

void vs_sample_soon(void)
{
    struct vs_recording *r = vs_recording;
    int kept = errno;
    if (!vs_record_journal() || r->pid != getpid())
        return;
    atomic_store_explicit(&r->sample_soon, 1, memory_order_relaxed);
    vs_keeper_ring(r);
    errno = kept;
}

bool vs_sample_take_request(void)
{
    _Atomic uint32_t *wanted = &vs_recording->sample_wanted;
    return unlikely_(atomic_load_explicit(wanted, memory_order_relaxed)) &&
           atomic_exchange_explicit(wanted, 0, memory_order_relaxed);
}

/* ---- the sampler's thread ---- */

void vs_sampler_answer(struct vs_recording *r, struct vs_used (*look)(int device))
{
    for (int i = 0; i < VS_QUESTIONS; i++) {
        struct vs_question *q = &r->questions[i];
        if (atomic_load_explicit(&q->state, memory_order_relaxed) != ASKED || !move(q, ASKED, ANSWERING))
            continue;
        struct vs_used used = look(q->device);
        q->process = used.process;
        q->whole = used.device;
        q->answered = used.answered;
        if (!move(q, ANSWERING, ANSWERED))
            atomic_store_explicit(&q->state, FREE, memory_order_release); /* abandoned */
        syscall(SYS_futex, &q->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    atomic_store_explicit(&r->unanswered, 0, memory_order_relaxed);
}
