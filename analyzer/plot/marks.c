/*
 * marks.c - what bounds a panel: the device's memory, where that lies near the curves, and each
 * out-of-memory, from what was allocated then up to what would have been.  A request far beyond the curves
 * ends at the scale's end.
 */
#include "picture.h"

#include <stdlib.h>

#include "base/units.h"
#include "read/curve.h"
#include "read/ooms.h"

static int64_t curves_top(const struct panel *p)
{
    int64_t reserved = columns_max_reserved(&p->columns), top = p->peak > reserved ? p->peak : reserved;
    return top > 0 ? top : 1;
}

/* How far up the scale goes for a mark: with the device's memory on it a tenth beyond, else the curves and a
 * half. */
static int64_t marks_end(const struct panel *p)
{
    int64_t top = curves_top(p);
    if (p->capacity_shown)
        return p->capacity / 10 * 11;
    return top > INT64_MAX / 2 ? top : top / 2 * 3 + 1;
}

int64_t panel_oom_top(const struct panel *p, const struct panel_oom *oom, bool *beyond)
{
    int64_t end = marks_end(p), room = INT64_MAX - oom->allocated,
            wanted = oom->requested > room ? INT64_MAX : oom->allocated + oom->requested;
    *beyond = wanted > end;
    return *beyond ? end : wanted;
}

char *panel_oom_text(const struct panel_oom *oom)
{
    return xformat("out of memory: %s asked", units_bytes(oom->requested, false).s);
}

#define EVENTS_MOST 3000000 /* behind more it takes longer than a picture is to take */

/* What was reserved and not allocated: when memory ran out last, at event OOM, else where most was reserved,
 * if the window has that moment. */
static int load_beside(struct panel *p, struct trace *t, int64_t oom)
{
    const struct trace_peak *most = trace_find_peak(t, p->device, "reserved");
    struct unused u;
    if (!most || most->bytes <= 0 || t->events > EVENTS_MOST ||
        (oom == UNKNOWN && (most->t < p->columns.from || most->t > p->columns.to)))
        return 0;
    int64_t seq = oom != UNKNOWN ? oom : trace_handed_out(t, p->device, most->seq);
    if (unused_load(t, p->device, &seq, 1, &u))
        return -1;
    for (int kind = 0; kind < UNUSED_KINDS; kind++) {
        int64_t sum = unused_sum(&u, (enum unused_kind)kind);
        p->beside[kind] = kind != UNUSED_UNKNOWN && sum >= u.reserved / 50 ? sum : 0;
    }
    unused_free(&u);
    return 0;
}

int panel_load_marks(struct panel *p, struct trace *t)
{
    const struct trace_device *d = trace_find_device(t, p->device);
    struct trace_oom_kept *kept;
    size_t n;
    int64_t last = UNKNOWN;
    p->capacity = d ? d->total_bytes : UNKNOWN;
    int result = trace_ooms_kept(t, &kept, &n);
    for (size_t i = 0; !result && i < n; i++) {
        const struct trace_oom_kept *o = &kept[i];
        bool here = o->device == p->device && o->t >= p->columns.from && o->t <= p->columns.to;
        int64_t allocated = o->framework + o->direct;
        if (here && o->requested != UNKNOWN && o->requested > 0 && allocated >= 0)
            *PUSH(p->ooms, p->oom_count) = (struct panel_oom){o->t, allocated, o->requested};
        if (here && (last == UNKNOWN || o->seq > last))
            last = o->seq;
    }
    p->oom_total = n ? trace_counter(t, "out_of_memory") : 0;
    /* far above the curves it would squash them; where memory ran out the reader wants it all the more */
    int64_t part = p->oom_count ? p->capacity / 5 : p->capacity / 3 * 2;
    p->capacity_shown = p->capacity != UNKNOWN && p->capacity > 0 && part <= curves_top(p);
    free(kept);
    return result ? result : load_beside(p, t, last);
}
