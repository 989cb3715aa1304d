/* rows.c - the rows of a comparison: phases, and the holders of the bytes at the peaks; see diff.h. */
#include <stdlib.h>
#include <string.h>

#include "diff.h"
#include "show/report/stack.h"
#include "read/tables.h"

/* The number of allocations on DEVICE in PHASE; NULL: in all phases. */
static int64_t allocations(const struct diff_side *s, int64_t device, const char *phase)
{
    int64_t n = 0;
    if (s->trace.thinned)
        return UNKNOWN;
    for (size_t i = 0; i < s->allocation_count; i++) {
        const struct trace_count *c = &s->allocations[i];
        if (c->device == device && (!phase || (c->phase && !strcmp(c->phase, phase))))
            n += c->count;
    }
    return n;
}

static int64_t mean_ns(const struct trace_phase *p)
{
    return p->ns == UNKNOWN || p->ranges <= 0 ? UNKNOWN : p->ns / p->ranges;
}

static int64_t figure_of(const struct diff_side *s, const struct trace_phase *p, enum diff_figure figure)
{
    switch (figure) {
    case DIFF_ALLOCATED:
        return p->allocated;
    case DIFF_RESERVED:
        return p->reserved;
    case DIFF_RANGES:
        return p->ranges > 0 ? p->ranges : UNKNOWN;
    case DIFF_TIME:
        return mean_ns(p);
    case DIFF_ALLOCATIONS:
        return allocations(s, p->device, p->name ? p->name : "");
    }
    return UNKNOWN;
}

struct comparison diff_phases(const struct diff *d, const struct diff_device *device, enum diff_figure figure)
{
    struct comparison c = {0};
    for (int side = 0; side < 2; side++) {
        const struct trace *t = &d->side[side].trace;
        for (size_t i = 0; device->side[side] && i < t->phase_count; i++)
            if (t->phases[i].device == device->side[side]->device)
                compare_add(&c, (enum compare_side)side, t->phases[i].name ? t->phases[i].name : "unknown",
                            figure_of(&d->side[side], &t->phases[i], figure));
    }
    return c;
}

struct comparison diff_held(const struct diff_device *device)
{
    struct comparison c = {0};
    for (int side = 0; side < 2; side++) {
        const struct device_report *r = device->side[side];
        for (size_t i = 0; r && i < r->held_count; i++) {
            char *name = report_holder_name(&r->held[i]);
            compare_add(&c, (enum compare_side)side, name, r->held[i].bytes);
            free(name);
        }
        if (r && r->allocated && r->held_bytes != r->allocated->bytes)
            compare_add(&c, (enum compare_side)side, "not in the file (unknown)",
                        r->allocated->bytes - r->held_bytes);
    }
    compare_sort(&c);
    return c;
}

static bool any_line(const struct device_report *r)
{
    for (size_t i = 0; r && i < r->live_count; i++)
        if (r->live[i].line)
            return true;
    return false;
}

struct comparison diff_lines(const struct diff_device *device)
{
    struct comparison c = {0};
    if (!any_line(device->side[SIDE_A]) && !any_line(device->side[SIDE_B]))
        return c;
    for (int side = 0; side < 2; side++) {
        const struct device_report *r = device->side[side];
        size_t n = 0;
        struct holder *held = r ? holders_group(r->live, r->live_count, BY_LINE, &n) : NULL;
        for (size_t i = 0; i < n; i++) {
            char *name = held[i].line ? line_text(held[i].line) : holders_lineless(&held[i]);
            compare_add(&c, (enum compare_side)side, name, held[i].bytes);
            free(name);
        }
        free(held);
    }
    compare_sort(&c);
    return c;
}

static struct lived lived_of(const struct device_report *r)
{
    return r ? (struct lived){r->live, r->live_count} : (struct lived){NULL, 0};
}

struct comparison diff_parts(const struct diff_device *device, enum moved_by by)
{
    struct lived a = lived_of(device->side[SIDE_A]), b = lived_of(device->side[SIDE_B]);
    return moved_of(&a, &b, by);
}

char *diff_words(const struct diff_device *device, bool exact)
{
    const struct device_report *x = device->side[SIDE_A], *y = device->side[SIDE_B];
    struct lived a = lived_of(x), b = lived_of(y);
    bool known = x && y && x->allocated && y->allocated && !x->allocated->at_least && !y->allocated->at_least;
    if (!known || x->allocated->bytes == y->allocated->bytes)
        return NULL;
    return moved_words(&a, &b, y->allocated->bytes > x->allocated->bytes, exact);
}

int64_t diff_whole(const struct diff *d, const struct diff_device *device, enum compare_side side,
                   enum diff_figure figure)
{
    const struct device_report *r = device->side[side];
    const struct trace *t = &d->side[side].trace;
    if (figure == DIFF_TIME)
        return t->t_last;
    if (!r || figure == DIFF_RANGES)
        return UNKNOWN;
    if (figure == DIFF_ALLOCATIONS)
        return allocations(&d->side[side], r->device, NULL);
    const struct trace_peak *peak = figure == DIFF_ALLOCATED ? r->allocated : r->reserved;
    return trace_peak_bytes(peak);
}
