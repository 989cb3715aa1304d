/*
 * ring.c - the ring: many producers, one consumer, no locks, no lost sequence.
 *
 *      a slot:  free --(head moves: claimed)--> stores --> published --> free for next lap
 *                                         \--(100 ms, or nobody left)--> dead
 *
 * Claiming moves `head` by compare-and-swap, only where the slot there is free.  It is the last thing before
 * the stores, so a writer is between the two for a few ns only.  Publishing is a plain store, which need not
 * wait for the slot's cache line to come from another core.
 */
#include "format.h"

#include "claim.h"
#include "core/arch/cpu.h"
#include "core/clock.h"

#define WAIT_NS           1000000u   /* a full ring is waited for this long, once */
#define KILL_NS           100000000u /* a claim this old belongs to a thread that was stopped or killed */
#define STUCK_STEP_NS     25000000u  /* added by one look at most: a stopped process does not age */
#define BACKOFF_DOUBLINGS 3u /* at most 8 pauses, a few hundred ns: less than moving the line once more */

/* `dropping`: the classes of events that are dropped without a try until the ring has room again. */
enum { DROP_NOTHING, DROP_BEGINNINGS, DROP_ALL };

#ifdef VS_JOURNAL_TESTING
void (*vs_journal_test_claimed)(uint64_t seq); /* called between claim and publication */
#endif

static inline struct vs_ring ring_of(const struct vs_journal *j)
{
    return (struct vs_ring){j->header, j->slot, j->mask};
}

static inline struct vs_slot *slot_of(const struct vs_journal *j, uint64_t seq)
{
    struct vs_ring r = ring_of(j);
    return vs_ring_slot(&r, seq);
}

static inline uint64_t lap_of(const struct vs_journal *j, uint64_t seq)
{
    struct vs_ring r = ring_of(j);
    return vs_ring_lap(&r, seq);
}

/* Whether the event ends something, or gives a current figure: if it is lost a total stays too high.  A false
 * peak is worse than a total that is too low, so the last eighth of the ring is reserved for these.  One is
 * lost only if more recorded allocations than an eighth of the ring are freed while the drain does not run.
 */
static inline bool is_end(uint8_t op)
{
    const uint64_t ends =
        UINT64_C(1) << VS_OP_FREE | UINT64_C(1) << VS_OP_FREE_FAILED | UINT64_C(1) << VS_OP_PHYS_RELEASE |
        UINT64_C(1) << VS_OP_UNMAP | UINT64_C(1) << VS_OP_VA_FREE | UINT64_C(1) << VS_OP_POOL_RESERVED |
        UINT64_C(1) << VS_OP_UNBIND | UINT64_C(1) << VS_OP_CONTEXT_DESTROY |
        UINT64_C(1) << VS_OP_MODULE_UNLOAD | UINT64_C(1) << VS_OP_BLOCK_FREE |
        UINT64_C(1) << VS_OP_ARENA_RESERVED | UINT64_C(1) << VS_OP_BLOCK_AWAY |
        UINT64_C(1) << VS_OP_RANGE_POP | UINT64_C(1) << VS_OP_RECORD_START | UINT64_C(1) << VS_OP_RECORD_STOP;
    return op < 64 && ends >> op & 1;
}

/* The slots that events of this class may fill. */
static inline uint64_t room(const struct vs_journal *j, bool end)
{
    uint64_t slots = j->mask + 1;
    return end ? slots : vs_journal_room(slots);
}

/* How far beyond `limit` they may go. */
static inline uint64_t reserve(const struct vs_journal *j, bool end)
{
    return room(j, end) - room(j, false);
}

static bool has_room(const struct vs_journal *j, bool end)
{
    return atomic_load_explicit(&j->header->head, memory_order_relaxed) <
           atomic_load_explicit(&j->header->limit, memory_order_relaxed) + reserve(j, end);
}

/* Waits a moment after a lost race, longer each time. */
static __attribute__((noinline, cold)) void step_back(unsigned failures)
{
    for (unsigned i = 0; i < 1u << (failures < BACKOFF_DOUBLINGS ? failures : BACKOFF_DOUBLINGS); i++)
        vs_arch_relax();
}

/* Claims the next free sequence, or VS_SEQ_NONE where there is no room for events of this class; *FAILURES
 * counts lost races.  Whether the slot is free follows from one word that the consumer moves once a batch.
 * The slot itself is not read: its cache line comes from another core, and while it comes, between the load
 * of `head` and the swap, any other producer makes the swap fail.  Orders: see vs_ring_claim. */
static inline uint64_t claim(struct vs_journal *j, bool end, unsigned *failures)
{
    struct vs_journal_header *h = j->header;
    struct vs_ring ring = ring_of(j);
    uint64_t seq = atomic_load_explicit(&h->head, memory_order_relaxed);
    while (likely(seq < atomic_load_explicit(&h->limit, memory_order_acquire) + reserve(j, end))) {
        if (unlikely(!atomic_compare_exchange_weak_explicit(&h->head, &seq, seq + 1, memory_order_relaxed,
                                                            memory_order_relaxed))) {
            step_back((*failures)++);
            seq = atomic_load_explicit(&h->head, memory_order_relaxed);
            continue;
        }
        if (likely(vs_ring_usable(&ring, seq)))
            return seq;
        if (atomic_load_explicit(&h->dead, memory_order_relaxed) > j->mask / 2)
            return VS_SEQ_NONE; /* most slots are dead: the ring counts as full */
        seq = atomic_load_explicit(&h->head, memory_order_relaxed);
    }
    return VS_SEQ_NONE;
}

/* Copies EVENT field by field, each as wide as it was written: a wider load over narrower recent stores must
 * wait until they have left the store buffer.  The stores are atomic so that the compiler does not merge
 * them, and relaxed because publishing orders them. */
static inline void fill(struct vs_slot *slot, const struct vs_event *event)
{
    struct vs_event *to = (struct vs_event *)(void *)slot;
#define MOVE(field)                                                                                          \
    __atomic_store_n(&to->field, __atomic_load_n(&event->field, __ATOMIC_RELAXED), __ATOMIC_RELAXED)
    MOVE(t_ns);
    MOVE(address);
    MOVE(size);
    MOVE(arg0);
    MOVE(arg1);
    MOVE(stack);
    MOVE(range);
    MOVE(thread);
    MOVE(op);
    MOVE(space);
    MOVE(device);
    MOVE(context);
    MOVE(status);
#undef MOVE
}

bool vs_ring_publish_doubtful(const struct vs_ring *r, uint64_t seq)
{
    if (!vs_ring_usable(r, seq)) {
        atomic_fetch_add_explicit(&r->header->late, 1, memory_order_relaxed);
        return false;
    }
    atomic_store_explicit(&vs_ring_slot(r, seq)->state, vs_ring_lap(r, seq) + 1, memory_order_release);
    return true;
}

/* Fills and publishes a claimed slot. */
static inline uint64_t publish(struct vs_journal *j, uint64_t seq, const struct vs_event *event, bool alone)
{
    struct vs_slot *slot = slot_of(j, seq);
#ifdef VS_JOURNAL_TESTING
    if (vs_journal_test_claimed)
        vs_journal_test_claimed(seq);
#endif
    struct vs_ring ring = ring_of(j);
    fill(slot, event);
    if (unlikely(!vs_ring_publish(&ring, seq)) && !vs_ring_publish_doubtful(&ring, seq))
        return VS_SEQ_NONE;
    if (likely(alone)) /* if other threads record too the next slots are probably theirs */
        vs_ring_fetch(slot);
    return seq;
}

/* The kind of event SEQ, if it was published and no later lap has overwritten it (the consumer may have
 * handed its slot back); else false.  The acquire load pairs with publish(); the check of `head` after the
 * fence shows that no writer of the next lap has claimed the slot. */
static bool kind_of(const struct vs_journal *j, uint64_t seq, uint8_t *op, uint8_t *space)
{
    const struct vs_slot *slot = slot_of(j, seq);
    const struct vs_event *event = (const struct vs_event *)(const void *)slot;
    uint64_t published = lap_of(j, seq) + 1, handed_back = lap_of(j, seq) + j->mask + 1;
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    if (state != published && state != handed_back)
        return false;
    *op = __atomic_load_n(&event->op, __ATOMIC_RELAXED);
    *space = __atomic_load_n(&event->space, __ATOMIC_RELAXED);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&j->header->head, memory_order_relaxed) <= seq + j->mask + 1;
}

bool vs_journal_any(const struct vs_journal *j, uint64_t from, uint64_t to,
                    bool (*matters)(uint8_t op, uint8_t space))
{
    uint8_t op, space;
    for (uint64_t seq = from; seq < to; seq++)
        if (!kind_of(j, seq, &op, &space) || matters(op, space))
            return true;
    return false;
}

/* Notes that an end is lost, and from which sequence on the totals show it: an event of a thread that reuses
 * the freed memory is claimed later, at `head` or beyond.  `ends_first` is the first such sequence since the
 * consumer last looked, `ends_last` the last.  The count is stored last, with release: a consumer that sees
 * it, or an event that was published after it, sees both sequences. */
static void note_lost_end(struct vs_journal_header *h)
{
    uint64_t none = 0, at = atomic_load_explicit(&h->head, memory_order_relaxed);
    uint64_t last = atomic_load_explicit(&h->ends_last, memory_order_relaxed);
    atomic_compare_exchange_strong_explicit(&h->ends_first, &none, at, memory_order_relaxed,
                                            memory_order_relaxed);
    while (last < at && !atomic_compare_exchange_weak_explicit(&h->ends_last, &last, at, memory_order_relaxed,
                                                               memory_order_relaxed)) {
    }
    atomic_fetch_add_explicit(&h->lost_ends, 1, memory_order_release);
}

void vs_journal_count_lost(struct vs_journal *j, uint8_t op)
{
    if (is_end(op))
        note_lost_end(j->header);
    atomic_fetch_add_explicit(&j->header->lost, 1, memory_order_relaxed);
}

static uint64_t drop(struct vs_journal *j, const struct vs_event *event)
{
    vs_dropped_add(&j->dropped, event);
    if (!(atomic_load_explicit(&j->header->doubt, memory_order_relaxed) & VS_DOUBT_DROPPED))
        atomic_fetch_or_explicit(&j->header->doubt, VS_DOUBT_DROPPED, memory_order_relaxed);
    if (event->op != VS_OP_RANGE_PUSH && event->op != VS_OP_RANGE_POP) /* the caller tries again */
        vs_journal_count_lost(j, event->op);
    return VS_SEQ_NONE;
}

/* Dropping ends when the ring is half empty (for ends: when an eighth is free again).  Otherwise producers
 * would compete for each freed slot and record only fragments.  Relaxed: the word is a hint between
 * producers and guards no data. */
static bool still_dropping(struct vs_journal *j, bool end)
{
    struct vs_journal_header *h = j->header;
    uint32_t level = atomic_load_explicit(&h->dropping, memory_order_relaxed);
    if (level <= (end ? DROP_BEGINNINGS : DROP_NOTHING))
        return false;
    uint64_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
    uint64_t used = atomic_load_explicit(&h->head, memory_order_relaxed) - tail;
    if (used <= (j->mask + 1) / 2)
        atomic_store_explicit(&h->dropping, DROP_NOTHING, memory_order_relaxed);
    else if (!end || used > room(j, false))
        return true;
    else
        atomic_store_explicit(&h->dropping, DROP_BEGINNINGS, memory_order_relaxed);
    return false;
}

static void begin_dropping(struct vs_journal *j, bool end)
{
    uint32_t nothing = DROP_NOTHING;
    if (end)
        atomic_store_explicit(&j->header->dropping, DROP_ALL, memory_order_relaxed);
    else
        atomic_compare_exchange_strong_explicit(&j->header->dropping, &nothing, DROP_BEGINNINGS,
                                                memory_order_relaxed, memory_order_relaxed);
}

/* The ring is full, or was: waits, claims, or gives up. */
static __attribute__((noinline, cold)) uint64_t claim_slow(struct vs_journal *j, bool end, bool wait)
{
    unsigned failures = 0;
    if (still_dropping(j, end))
        return VS_SEQ_NONE;
    uint64_t seq = claim(j, end, &failures);
    if (seq != VS_SEQ_NONE || !wait)
        return seq;
    uint64_t until = vs_clock_ns() + WAIT_NS;
    do {
        for (int i = 0; i < 32; i++)
            vs_arch_relax();
        if ((seq = claim(j, end, &failures)) != VS_SEQ_NONE)
            return seq;
        if (atomic_load_explicit(&j->header->dropping, memory_order_relaxed) > end)
            return VS_SEQ_NONE; /* another thread has waited already */
    } while (vs_clock_ns() < until);
    begin_dropping(j, end);
    return VS_SEQ_NONE;
}

/* The free of an allocation that was dropped. */
static __attribute__((noinline, cold)) bool goes_with_its_beginning(struct vs_journal *j,
                                                                    const struct vs_event *event)
{
    if (!vs_dropped_take(&j->dropped, event))
        return false;
    atomic_fetch_add_explicit(&j->header->lost, 1, memory_order_relaxed);
    return true;
}

bool vs_journal_tell_dropped(struct vs_journal *j, uint64_t t_ns)
{
    struct vs_dropped *u = &j->dropped;
    struct vs_event event = {0};
    unsigned failures = 0;
    bool told = true;
    if (!atomic_load_explicit(&u->changed, memory_order_relaxed))
        return !atomic_load_explicit(&u->telling, memory_order_acquire);
    if (atomic_exchange_explicit(&u->telling, true, memory_order_acquire))
        return false; /* another thread is at it, or this one below a signal handler */
    while (vs_dropped_next(j, &event)) {
        uint64_t seq = claim(j, true, &failures);
        event.t_ns = t_ns;
        if (seq == VS_SEQ_NONE || publish(j, seq, &event, false) == VS_SEQ_NONE) {
            atomic_fetch_or_explicit(&u->changed, VS_DROPPED_CHANGED, memory_order_relaxed);
            told = false;
            break;
        }
        vs_dropped_told(u, &event);
    }
    /* release: with what was told, for the next */
    atomic_store_explicit(&u->telling, false, memory_order_release);
    return told;
}

/* Called after vs_ring_claim() failed: other producers interfere, the ring is full, or something
 * was lost. */
static __attribute__((noinline)) uint64_t append_carefully(struct vs_journal *j, const struct vs_event *event,
                                                           bool wait)
{
    uint64_t seq = VS_SEQ_NONE;
    unsigned failures = 0;
    bool end = is_end(event->op);
    if (unlikely(atomic_load_explicit(&j->dropped.count, memory_order_relaxed)) &&
        goes_with_its_beginning(j, event))
        return VS_SEQ_NONE;
    bool dropped = atomic_load_explicit(&j->header->doubt, memory_order_relaxed) & VS_DOUBT_DROPPED;
    if (unlikely(dropped) && vs_dropped_matters(&j->dropped, event, end) &&
        !(has_room(j, end) && vs_journal_tell_dropped(j, event->t_ns)) &&
        (event->op == VS_OP_ALLOC || event->op == VS_OP_BLOCK_ALLOC))
        return drop(j, event); /* beside an older sum it would make a total that never was */
    if (likely(atomic_load_explicit(&j->header->dropping, memory_order_relaxed) <= end))
        seq = claim(j, end, &failures);
    if (unlikely(seq == VS_SEQ_NONE)) {
        seq = claim_slow(j, end, wait);
        if (seq == VS_SEQ_NONE)
            return drop(j, event);
    }
    return publish(j, seq, event, failures == 0);
}

static inline __attribute__((always_inline)) uint64_t append(struct vs_journal *j,
                                                             const struct vs_event *event, bool wait)
{
    struct vs_ring ring = ring_of(j);
    uint64_t seq;
    if (likely(vs_ring_claim(&ring, &seq)))
        return publish(j, seq, event, true);
    return append_carefully(j, event, wait);
}

struct vs_ring vs_journal_ring(const struct vs_journal *j)
{
    return ring_of(j);
}

const void *vs_journal_head_line(const struct vs_journal *j)
{
    return &j->header->head;
}

VS_HOT_CODE uint64_t vs_journal_append(struct vs_journal *j, const struct vs_event *event)
{
    return append(j, event, true);
}

uint64_t vs_journal_try_append(struct vs_journal *j, const struct vs_event *event)
{
    return append(j, event, false);
}

/* ---- consumer ---- */

/* Whether the consumer has waited long enough for the unpublished slot at SEQ.  Time counts only while the
 * consumer looks, so that a process that was stopped (SIGSTOP) does not lose its writers' events. */
static bool stuck_too_long(struct vs_journal *j, uint64_t seq)
{
    uint64_t now = vs_clock_ns();
    if (j->stuck_seq != seq) {
        j->stuck_seq = seq;
        j->stuck_ns = 0;
    } else {
        uint64_t step = now - j->stuck_seen_ns;
        j->stuck_ns += step < STUCK_STEP_NS ? step : STUCK_STEP_NS;
    }
    j->stuck_seen_ns = now;
    return j->stuck_ns >= KILL_NS;
}

/* Marks the claimed slot of SEQ dead, unless its writer has just published.  A writer that comes back later
 * notices that, and its event is counted as late.  If the kill comes between that check and the writer's
 * store, the event is complete: the consumer takes it, or has passed the slot, where it stays unread.  Two
 * writers never use one slot, since a killed slot is used again only when its late writer has published, the
 * last thing that a writer does. Relaxed: no data goes with the mark.  (A writer that publishes at this very
 * moment overwrites the mark: the slot is counted as dead although its event may be taken, which is
 * harmless.) */
static void kill_slot(struct vs_journal *j, uint64_t seq)
{
    uint64_t expected = lap_of(j, seq);
    if (atomic_compare_exchange_strong_explicit(&slot_of(j, seq)->state, &expected, VS_STATE_DEAD,
                                                memory_order_relaxed, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&j->header->dead, 1, memory_order_relaxed);
        atomic_fetch_or_explicit(&j->header->doubt, VS_DOUBT_DEAD, memory_order_relaxed);
    }
}

/* What peek does at one slot. */
enum slot_step { TAKE, SKIP, STOP, AGAIN };

static enum slot_step look(struct vs_journal *j, uint64_t seq, bool final)
{
    uint64_t state = atomic_load_explicit(&slot_of(j, seq)->state, memory_order_acquire);
    if (state == lap_of(j, seq) + 1)
        return TAKE;
    if (state != lap_of(j, seq)) /* dead; or, in another process's file, damaged */
        return SKIP;
    if (!final && !stuck_too_long(j, seq))
        return STOP;
    if (!j->writable)
        return SKIP;
    kill_slot(j, seq);
    return AGAIN;
}

/* The acquire load of the count pairs with note_lost_end.  A loss that is noted between the reads of
 * `ends_first` and `lost_ends` is reported twice: one interval too many, never one too few. */
bool vs_journal_lost_ends(struct vs_journal *j, uint64_t *seen, uint64_t *first, uint64_t *last)
{
    struct vs_journal_header *h = j->header;
    uint64_t count = atomic_load_explicit(&h->lost_ends, memory_order_acquire);
    if (count <= *seen)
        return false;
    *seen = count;
    *first = j->writable ? atomic_exchange_explicit(&h->ends_first, 0, memory_order_relaxed)
                         : atomic_load_explicit(&h->ends_first, memory_order_relaxed);
    *last = atomic_load_explicit(&h->ends_last, memory_order_relaxed);
    return true;
}

/* Lets producers claim the slots of sequences below FREED, as the last step of a release.  The store to
 * `limit` publishes the slots' new state words and orders our copies of the events before the next writers'
 * stores. */
static void hand_back(struct vs_journal *j, uint64_t freed)
{
    struct vs_journal_header *h = j->header;
    atomic_store_explicit(&h->freed, freed, memory_order_release);
    atomic_store_explicit(&h->limit, freed + room(j, false), memory_order_release);
}

size_t vs_journal_peek(struct vs_journal *j, struct vs_event *out, uint64_t *seq, size_t max, bool final)
{
    struct vs_journal_header *h = j->header;
    uint64_t first = atomic_load_explicit(&h->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&h->head, memory_order_acquire);
    /* Dead slots are skipped and not handed back, so the loop may need a second lap; more laps mean a
     * damaged file. */
    uint64_t span = head - first <= 2 * (j->mask + 1) ? head - first : 0;
    uint64_t at = first;
    size_t n = 0;
    while (n < max && at - first < span) {
        enum slot_step step = look(j, at, final);
        if (step == STOP)
            break;
        if (step == TAKE) {
            memcpy(&out[n], slot_of(j, at), sizeof *out);
            out[n].state = 0;
            seq[n++] = at;
        }
        if (step != AGAIN)
            at++;
    }
    if (n == 0 && at != first && j->writable) { /* nothing but dead slots: they need no release */
        atomic_store_explicit(&h->tail, at, memory_order_relaxed);
        hand_back(j, at);
    }
    return n;
}

/* `tail` moves first: a kill of the process between the two stores then leaves slots that cannot be claimed,
 * rather than free slots that look unread. */
void vs_journal_release(struct vs_journal *j, uint64_t seq)
{
    struct vs_journal_header *h = j->header;
    uint64_t tail = atomic_load_explicit(&h->tail, memory_order_relaxed);
    uint64_t count = seq + 1 - tail;
    if (!j->writable || count > 2 * (j->mask + 1))
        return;
    atomic_store_explicit(&h->tail, seq + 1, memory_order_relaxed);
    for (uint64_t s = tail; s != seq + 1; s++) {
        struct vs_slot *slot = slot_of(j, s);
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
        if (state == lap_of(j, s) + 1)
            atomic_store_explicit(&slot->state, lap_of(j, s) + j->mask + 1, memory_order_relaxed);
    }
    hand_back(j, seq + 1);
}
