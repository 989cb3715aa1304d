/* oom.c - see oom.h. */
#include "oom.h"

#include <stdlib.h>
#include <string.h>

enum { ALLOC = 1, PHYS_CREATE = 4, MAP = 7, UNMAP = 8 }; /* op.id */

/* ---- the memory that the framework carves blocks from ---- */

struct memory { /* seqs ascend: found by bisection */
    struct trace_managed *made;
    size_t made_count;
    struct trace_span *maps; /* by address */
    size_t map_count;
};

static struct trace_managed *find_made(const struct memory *m, int64_t seq)
{
    size_t low = 0, high = m->made_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->made[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->made_count && m->made[low].seq == seq ? &m->made[low] : NULL;
}

static size_t map_from(const struct memory *m, int64_t address)
{
    size_t low = 0, high = m->map_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->maps[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void map(struct memory *m, const struct trace_managed *e)
{
    const struct trace_managed *of = find_made(m, e->mate);
    if (!of || of->op != PHYS_CREATE)
        return;
    size_t at = map_from(m, e->address);
    (void)PUSH(m->maps, m->map_count);
    memmove(&m->maps[at + 1], &m->maps[at], (m->map_count - 1 - at) * sizeof *m->maps);
    m->maps[at] = (struct trace_span){e->address, e->size};
}

static void unmap(struct memory *m, const struct trace_managed *e)
{
    size_t from = map_from(m, e->address), to = from;
    while (to < m->map_count && m->maps[to].address < e->address + e->size)
        to++;
    if (to == from)
        return;
    memmove(&m->maps[from], &m->maps[to], (m->map_count - to) * sizeof *m->maps);
    m->map_count -= to - from;
}

static void take(struct memory *m, const struct trace_managed *e)
{
    struct trace_managed *ended;
    switch (e->op) {
    case ALLOC:
    case PHYS_CREATE:
        *PUSH(m->made, m->made_count) = *e;
        break;
    case MAP:
        map(m, e);
        break;
    case UNMAP:
        unmap(m, e);
        break;
    default:
        if ((ended = find_made(m, e->mate)) && ended->op == ALLOC)
            ended->size = 0;
    }
}

struct trace_span *oom_managed(const struct trace_managed *events, size_t n, size_t *count, bool *mapped)
{
    struct memory m = {0};
    struct trace_span *out = NULL;
    *count = 0;
    for (size_t i = 0; i < n; i++)
        take(&m, &events[i]);
    for (size_t i = 0; i < m.made_count; i++)
        if (m.made[i].op == ALLOC && m.made[i].size)
            *PUSH(out, *count) = (struct trace_span){m.made[i].address, m.made[i].size};
    *mapped = m.map_count > 0;
    for (size_t i = 0; i < m.map_count; i++) {
        bool joins = i && m.maps[i - 1].address + m.maps[i - 1].size == m.maps[i].address;
        if (joins)
            out[*count - 1].size += m.maps[i].size;
        else
            *PUSH(out, *count) = m.maps[i];
    }
    free(m.made);
    free(m.maps);
    return out;
}

static int by_address(const void *a, const void *b)
{
    const struct trace_span *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void gap(struct oom_gaps *g, int64_t size)
{
    if (size <= 0)
        return;
    g->unused += size;
    g->pieces++;
    g->largest = size > g->largest ? size : g->largest;
}

/* Skips blocks outside any known memory; the sums then show that something is unknown. */
struct oom_gaps oom_gaps_of(struct trace_span *memory, size_t n, struct trace_span *blocks, size_t m)
{
    struct oom_gaps g = {0};
    size_t b = 0;
    if (n)
        qsort(memory, n, sizeof *memory, by_address);
    if (m)
        qsort(blocks, m, sizeof *blocks, by_address);
    for (size_t i = 0; i < n; i++) {
        int64_t at = memory[i].address, end = at + memory[i].size;
        g.reserved += memory[i].size;
        for (; b < m && blocks[b].address < end; b++) {
            if (blocks[b].address < at)
                continue;
            gap(&g, blocks[b].address - at);
            g.blocks += blocks[b].size;
            at = blocks[b].address + blocks[b].size;
        }
        gap(&g, end - at);
    }
    return g;
}

/* ---- by how much ---- */

static int64_t or_zero(int64_t n)
{
    return n == UNKNOWN ? 0 : n;
}

/* An expandable segment is requested piece by piece, so the need is that of the block. */
static int64_t asked_of_driver(const struct trace_oom_kept *o)
{
    int64_t asked = or_zero(o->asked_driver);
    return asked > o->requested ? asked : o->requested;
}

/* Uses the driver's figures and ours only if they are of one moment.  Otherwise memory that was allocated or
 * freed in between would look like another process's. */
static void what_else_is_there(const struct trace_oom_kept *o, struct oom_need *n, int64_t total)
{
    if (n->returned == UNKNOWN || total == UNKNOWN)
        return;
    int64_t beyond = total - o->free - o->reserved_then;
    bool asked_together = o->process_used != UNKNOWN && o->process_used_t >= o->free_t;
    int64_t residual = asked_together ? o->process_used - o->reserved_then : UNKNOWN;
    if (asked_together && residual >= 0 && beyond >= residual) {
        n->residual = residual;
        n->others = beyond - residual;
    } else if (beyond >= 0) {
        n->beyond = beyond;
    }
}

/* The bytes that the framework gave back between the driver's refusal and giving up.  UNKNOWN if no request
 * reached the driver, or if other threads allocated more meanwhile than was given back. */
static int64_t returned_of(const struct trace_oom_kept *o)
{
    if (o->free == UNKNOWN || o->reserved_then == UNKNOWN || o->reserved_then < o->reserved)
        return UNKNOWN;
    return o->reserved_then - o->reserved;
}

/* The bytes that the driver could have given at once. */
static int64_t available(const struct trace_oom_kept *o, const struct oom_need *n)
{
    return o->free + or_zero(n->returned);
}

static enum oom_cause cause_of(const struct trace_oom_kept *o, const struct oom_need *n, int64_t total)
{
    bool gave_up = o->op == OOM_FRAMEWORK;
    if (total != UNKNOWN && o->device >= 0 && o->requested > total)
        return OOM_TOO_LARGE;
    if (gave_up && or_zero(o->refusals) == 0 && o->free == UNKNOWN) /* an import has one without the other */
        return OOM_NOT_ASKED;
    if (o->free == UNKNOWN || o->requested <= 0)
        return OOM_UNKNOWN;
    if (n->short_by <= 0)
        return OOM_THOUGH_FREE;
    return gave_up && available(o, n) + n->unused >= o->requested ? OOM_FRAGMENTED : OOM_SHORT;
}

struct oom_need oom_need_of(const struct trace_oom_kept *o, int64_t total)
{
    struct oom_need n = {.asked = asked_of_driver(o),
                         .returned = returned_of(o),
                         .short_by = UNKNOWN,
                         .missing = UNKNOWN,
                         .residual = UNKNOWN,
                         .others = UNKNOWN,
                         .beyond = UNKNOWN};
    n.unused = or_zero(o->managed) > or_zero(o->framework) ? o->managed - or_zero(o->framework) : 0;
    if (o->free != UNKNOWN && o->requested > 0)
        n.short_by = n.asked - available(o, &n);
    n.cause = cause_of(o, &n, total);
    if (n.cause == OOM_SHORT)
        n.missing =
            o->op == OOM_FRAMEWORK ? o->requested - available(o, &n) - n.unused : n.short_by - n.unused;
    what_else_is_there(o, &n, total);
    return n;
}

/* ---- which one ---- */

const struct trace_oom_kept *oom_last(const struct trace_oom_kept *kept, size_t n)
{
    const struct trace_oom_kept *last = NULL;
    for (size_t i = 0; i < n; i++)
        if ((kept[i].role & (OOM_LAST | OOM_OPEN)) && (!last || kept[i].seq > last->seq))
            last = &kept[i];
    return last;
}

const struct trace_oom_kept *oom_with_role(const struct trace_oom_kept *kept, size_t n, int64_t role,
                                           int64_t device)
{
    for (size_t i = 0; i < n; i++)
        if ((kept[i].role & role) && (device == UNKNOWN || kept[i].device == device))
            return &kept[i];
    return NULL;
}

const char *oom_cause_name(enum oom_cause cause)
{
    static const char *const names[] = {"unknown", "larger than the device", "driver not asked", "fragmented",
                                        "short",   "refused though free"};
    return names[cause];
}
