/*
 * pending.c - the look-ahead queue: was a driver allocation made by a caching allocator?
 *
 * If so it is managed, else direct (docs/design.md).  A framework reports a block right after the driver
 * allocation that it carves it from, on the same thread.  So a driver allocation, and every event behind it,
 * waits until that thread reports:
 *
 *      alloc A (thread 1)    push    alloc B (thread 2)    block in A (thread 1)
 *      provisional ------------------------------------------> managed; A and the push go out
 *                                    provisional ... 50 ms ... -> direct
 *
 * The requests of a caching allocator's own code are known at birth, by the call's return address
 * (hooks/caller.c).
 */
#include "internal.h"

/* Whether the event allocates device memory that a caching allocator may carve. */
static bool carvable(const struct vs_event *e)
{
    if (e->status != 0)
        return false;
    if (e->op == VS_OP_ALLOC)
        return e->space == VS_SPACE_DEVICE || e->space == VS_SPACE_ARENA;
    return e->op == VS_OP_PHYS_CREATE && e->space != VS_SPACE_HOST_VMM && e->space != VS_SPACE_IMPORTED &&
           e->space != VS_SPACE_MULTICAST && (e->arg0 >> 32) <= 1;
}

enum verdict vs_verdict_at_birth(const struct vs_event *e)
{
    static const enum verdict verdicts[] = {
        [VS_CALLER_CARVER] = VERDICT_MANAGED, [VS_CALLER_POOL] = VERDICT_UNKNOWN_USE};
    enum vs_caller caller = carvable(e) ? VS_CALLER_OF(e->arg1) : VS_CALLER_UNKNOWN;
    return caller < sizeof verdicts / sizeof *verdicts ? verdicts[caller] : VERDICT_NONE;
}

static struct held *held_at(struct vs_ledger *l, uint64_t position)
{
    return &l->queue.at[position & (l->queue.size - 1)];
}

static bool queue_grow(struct vs_ledger *l)
{
    size_t size = l->queue.size ? l->queue.size * 2 : 1024;
    struct held *at = malloc(size * sizeof *at);
    if (!at)
        return false;
    for (uint64_t p = l->queue_head; p != l->queue_tail; p++)
        at[p & (size - 1)] = *held_at(l, p);
    free(l->queue.at);
    l->queue.at = at;
    l->queue.size = size;
    return true;
}

/* The verdict on an allocation that no report claimed: direct.  But if events were lost since, the report
 * may be among them, and managed is the choice that makes no total too high. */
static enum verdict unclaimed(struct vs_ledger *l, const struct pending *p)
{
    bool gap = l->lost_to >= held_at(l, p->position)->ring_seq;
    return gap && l->framework_seen ? VERDICT_MANAGED : VERDICT_DIRECT;
}

static void decide(struct vs_ledger *l, size_t index, enum verdict verdict)
{
    if (l->resumed.again)
        return;
    held_at(l, l->pending.at[index].position)->verdict = verdict;
    l->pending.n--;
    memmove(&l->pending.at[index], &l->pending.at[index + 1], (l->pending.n - index) * sizeof *l->pending.at);
}

static bool overlap(uint64_t start, uint64_t end, uint64_t other_start, uint64_t other_end)
{
    return start < other_end && other_start < end;
}

/* Whether the block belongs to the provisional allocation: it lies inside it or, for physical memory, inside
 * a range that it is mapped to or in the same reservation as such a range. */
static bool holds(struct vs_ledger *l, const struct pending *p, const struct vs_event *block)
{
    uint64_t end = block->address + (block->size ? block->size : 1);
    if (!p->phys)
        return overlap(p->address, p->address + p->size, block->address, end);
    const struct vs_span *home = vs_spans_at(&l->reservations, block->address);
    for (int i = 0; i < p->maps; i++) {
        if (overlap(p->map_start[i], p->map_end[i], block->address, end))
            return true;
        if (home && home->start <= p->map_start[i] && p->map_end[i] <= home->end)
            return true;
    }
    return false;
}

/* ---- physical memory that a framework makes piece by piece ---- */

static struct maker *maker_of(struct vs_ledger *l, uint16_t thread)
{
    struct maker *m = &l->maker[thread % VS_MAKERS];
    if (m->thread != thread)
        *m = (struct maker){.thread = thread};
    return m;
}

static void note_maker(struct vs_ledger *l, const struct vs_event *e)
{
    struct maker *m = maker_of(l, e->thread);
    m->t_ns = e->t_ns;
    if (e->op == VS_OP_PHYS_CREATE && e->status != 0)
        m->refused = e->size;
}

/* The size of the pieces that the framework made before its report E; 0: it made none. */
static uint64_t piece_of(struct vs_ledger *l, const struct vs_event *e)
{
    if (e->op == VS_OP_BLOCK_OOM)
        return maker_of(l, e->thread)->refused;
    for (size_t i = 0; e->op == VS_OP_BLOCK_ALLOC && i < l->pending.n; i++)
        if (l->pending.at[i].phys && l->pending.at[i].thread == e->thread && holds(l, &l->pending.at[i], e))
            return l->pending.at[i].size;
    return 0;
}

/* The verdict on the provisional allocation P after the report E.  A block inside P makes it managed.  Any
 * other report of P's thread shows that the framework did not make P, unless P was a piece that it had to
 * give back (PIECE is the size of its pieces): a framework that grows piece by piece and is refused gives
 * back the pieces that it got, and then either tries again or reports that it gives up.  Other reports of
 * other threads leave P provisional. */
static enum verdict verdict_by_report(struct vs_ledger *l, const struct pending *p, const struct vs_event *e,
                                      uint64_t piece)
{
    if (e->op == VS_OP_BLOCK_ALLOC && holds(l, p, e))
        return VERDICT_MANAGED;
    if (p->thread != e->thread)
        return VERDICT_PENDING;
    return p->released && p->size == piece ? VERDICT_MANAGED : unclaimed(l, p);
}

/* Gives every provisional allocation its verdict; those that the report does not concern
 * stay provisional. */
static void decide_pending(struct vs_ledger *l, const struct vs_event *e)
{
    uint64_t piece = piece_of(l, e);
    size_t kept = 0;
    for (size_t i = 0; i < l->pending.n; i++) {
        struct pending *p = &l->pending.at[i];
        enum verdict verdict = verdict_by_report(l, p, e, piece);
        held_at(l, p->position)->verdict = verdict;
        if (verdict == VERDICT_PENDING)
            l->pending.at[kept++] = *p;
    }
    l->pending.n = kept;
}

/* E is a framework's report.  It decides all provisional allocations of its thread and the one that its
 * block lies in, which may be another thread's.  It also ends the wait after a refused piece. */
static void decide_by_report(struct vs_ledger *l, const struct vs_event *e)
{
    bool is_seen_again = l->resumed.again; /* after a recovery: an earlier ledger has decided */
    if (!is_seen_again)
        decide_pending(l, e);
    maker_of(l, e->thread)->refused = 0;
}

static void note_map(struct vs_ledger *l, const struct vs_event *e)
{
    for (size_t i = l->pending.n; i-- > 0;) {
        struct pending *p = &l->pending.at[i];
        if (!p->phys || p->released || p->unreferenced || p->address != e->arg0)
            continue;
        p->mapped = true;
        if (p->maps < 4) {
            p->map_start[p->maps] = e->address;
            p->map_end[p->maps++] = e->address + e->size;
        }
        return;
    }
}

static void decide_freed(struct vs_ledger *l, const struct vs_event *e)
{
    bool phys = e->op == VS_OP_PHYS_RELEASE;
    for (size_t i = l->pending.n; i-- > 0;) {
        struct pending *p = &l->pending.at[i];
        if (p->phys != phys || p->released || p->unreferenced || p->address != e->address)
            continue;
        if (phys && !p->mapped)
            p->released = true;
        else if (!phys || p->maps == 0)
            decide(l, i, unclaimed(l, p));
        else
            p->unreferenced = true;
        return;
    }
}

/* Drops P's mappings in the range of E, because a block that is reported there later lies in other memory. */
static void drop_maps(struct pending *p, const struct vs_event *e)
{
    int kept = 0;
    for (int i = 0; i < p->maps; i++) {
        if (overlap(p->map_start[i], p->map_end[i], e->address, e->address + e->size))
            continue;
        p->map_start[kept] = p->map_start[i];
        p->map_end[kept++] = p->map_end[i];
    }
    p->maps = kept;
}

static void decide_unmapped(struct vs_ledger *l, const struct vs_event *e)
{
    for (size_t i = l->pending.n; i-- > 0;) {
        struct pending *p = &l->pending.at[i];
        if (!p->phys || p->maps == 0)
            continue;
        drop_maps(p, e);
        if (p->maps == 0 && p->unreferenced)
            decide(l, i, unclaimed(l, p));
    }
}

static void decide_ended(struct vs_ledger *l, const struct vs_event *e)
{
    if (e->context == 0 || e->context == VS_CONTEXT_UNKNOWN)
        return;
    for (size_t i = l->pending.n; i-- > 0;)
        if (!l->pending.at[i].phys && l->pending.at[i].context == e->context)
            decide(l, i, unclaimed(l, &l->pending.at[i]));
}

static void look(struct vs_ledger *l, const struct vs_event *e)
{
    if (e->op >= VS_OP_PHYS_CREATE && e->op <= VS_OP_SET_ACCESS)
        note_maker(l, e);
    switch (e->op) {
    case VS_OP_BLOCK_ALLOC:
    case VS_OP_BLOCK_FREE:
    case VS_OP_BLOCK_OOM:
        l->framework_seen = true;
        decide_by_report(l, e);
        break;
    case VS_OP_MAP:
        note_map(l, e);
        break;
    case VS_OP_FREE:
    case VS_OP_PHYS_RELEASE:
        decide_freed(l, e);
        break;
    case VS_OP_UNMAP:
    case VS_OP_VA_FREE:
        decide_unmapped(l, e);
        break;
    case VS_OP_CONTEXT_DESTROY:
        decide_ended(l, e);
        break;
    default:
        break;
    }
}

/* The time from which P's age counts.  A framework can take seconds to make thousands of pieces: while its
 * thread goes on making them none of them gets old. */
static uint64_t age_base(const struct vs_ledger *l, const struct pending *p)
{
    const struct maker *m = &l->maker[p->thread % VS_MAKERS];
    bool run = l->framework_seen && p->phys && m->thread == p->thread && m->t_ns > p->t_ns &&
               m->t_ns - p->t_ns <= VS_RUN_NS && l->queue_tail - p->position <= VS_RUN_MAX;
    return run ? m->t_ns : p->t_ns;
}

uint64_t vs_pending_since(const struct vs_ledger *l)
{
    return age_base(l, &l->pending.at[0]);
}

static void decide_old(struct vs_ledger *l)
{
    while (l->pending.n && !l->resumed.again) {
        const struct pending *p = &l->pending.at[0];
        size_t bound = l->framework_seen ? VS_QUEUE_MAX : VS_QUEUE_BLIND;
        uint64_t since = age_base(l, p);
        bool old = l->newest_ns > since && l->newest_ns - since > VS_PENDING_NS;
        if (!old && l->queue_tail - p->position <= bound && l->pending.n <= VS_PENDING_MAX)
            return;
        decide(l, 0, unclaimed(l, p));
    }
}

static bool add_pending(struct vs_ledger *l, const struct vs_event *e)
{
    size_t before = l->pending.n;
    uint64_t failed = 0;
    vs_list_push(&l->pending, failed,
                 (struct pending){.position = l->queue_tail,
                                  .address = e->address,
                                  .size = e->size,
                                  .t_ns = e->t_ns,
                                  .thread = e->thread,
                                  .context = e->context,
                                  .phys = e->op == VS_OP_PHYS_CREATE});
    return l->pending.n > before;
}

/* The verdict that an event has when it comes: its own, or that of the ledger which is continued. */
static enum verdict known_of(struct vs_ledger *l, const struct vs_event *e, uint64_t ring_seq)
{
    /* bounded by the longest possible queue, because the file may be damaged */
    l->resumed.again = ring_seq <= l->resumed.to && l->queue_tail - l->queue_head <= VS_QUEUE_MAX;
    uint32_t before = l->resumed.again ? vs_table_remove(&l->resumed.verdicts, ring_seq) : VS_TABLE_NONE;
    return before == VS_TABLE_NONE ? vs_verdict_at_birth(e) : (enum verdict)before;
}

bool vs_pending_take(struct vs_ledger *l, const struct vs_event *e, uint64_t ring_seq)
{
    enum verdict born = known_of(l, e, ring_seq);
    bool ask = carvable(e) && born == VERDICT_NONE;
    if (l->queue_head == l->queue_tail && !ask) {
        l->framework_seen |= e->op >= VS_OP_BLOCK_ALLOC && e->op <= VS_OP_BLOCK_OOM;
        return false;
    }
    if (l->queue_tail - l->queue_head == l->queue.size && !queue_grow(l)) {
        vs_pending_resolve_all(l); /* without memory for the queue nothing can wait */
        vs_pending_run(l);
        return false;
    }
    if (e->t_ns > l->newest_ns)
        l->newest_ns = e->t_ns;
    look(l, e);
    ask = ask && add_pending(l, e);
    *held_at(l, l->queue_tail) = (struct held){*e, ring_seq, ask ? VERDICT_PENDING : born};
    l->queue_tail++;
    decide_old(l);
    return true;
}

void vs_pending_run(struct vs_ledger *l)
{
    while (l->queue_head != l->queue_tail) {
        struct held h = *held_at(l, l->queue_head);
        if (h.verdict == VERDICT_PENDING)
            return;
        l->queue_head++;
        l->current_ring_seq = h.ring_seq;
        vs_ledger_apply(l, &h.event, h.verdict);
        l->ring_seq = h.ring_seq;
    }
}

void vs_pending_resolve_all(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->pending.n; i++)
        held_at(l, l->pending.at[i].position)->verdict = unclaimed(l, &l->pending.at[i]);
    l->pending.n = 0;
}

/* ---- for a ledger that continues ---- */

static bool decided(const struct held *h)
{
    return h->verdict != VERDICT_NONE && h->verdict != VERDICT_PENDING &&
           h->verdict != vs_verdict_at_birth(&h->event);
}

void vs_pending_each_resume(const struct vs_ledger *l,
                            void (*each)(void *context, const struct vs_resume_row *row), void *context)
{
    uint64_t to = l->resumed.to > l->ring_seq ? l->resumed.to : 0;
    for (size_t i = 0; i < VS_MAKERS; i++)
        if (l->maker[i].refused)
            each(context,
                 &(struct vs_resume_row){VS_RESUME_REFUSED, l->maker[i].thread, {l->maker[i].refused}});
    for (uint64_t p = l->queue_head; p != l->queue_tail; p++) {
        const struct held *h = &l->queue.at[p & (l->queue.size - 1)];
        to = h->ring_seq > to ? h->ring_seq : to;
        if (decided(h))
            each(context, &(struct vs_resume_row){VS_RESUME_VERDICT, h->ring_seq, {h->verdict}});
    }
    const struct vs_table *later = &l->resumed.verdicts; /* of events that have not been fed again yet */
    for (size_t i = 0; later->count && i <= later->mask; i++)
        if (later->cells[i].value != VS_TABLE_NONE)
            each(context,
                 &(struct vs_resume_row){VS_RESUME_VERDICT, later->cells[i].key, {later->cells[i].value}});
    if (to)
        each(context, &(struct vs_resume_row){VS_RESUME_HELD, 0, {to}});
}

void vs_pending_restore_resume(struct vs_ledger *l, const struct vs_resume_row *row)
{
    if (row->what == VS_RESUME_REFUSED)
        maker_of(l, (uint16_t)row->id)->refused = row->value[0];
    else if (row->what == VS_RESUME_HELD)
        l->resumed.to = row->value[0];
    else if (row->what == VS_RESUME_VERDICT && row->value[0] > VERDICT_PENDING &&
             row->value[0] <= VERDICT_UNKNOWN_USE)
        vs_table_put(&l->resumed.verdicts, row->id, (uint32_t)row->value[0]);
}
