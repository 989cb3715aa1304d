/*
 * residual.c - the residual, as text and JSON. Measured rows that are zero are left out; unexplained is
 * always shown.
 */
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "base/page.h"

#define B(n) units_bytes(n, exact).s

struct page {
    struct table table;
    const struct residual *r;
    bool exact;
    bool both; /* the end differs from the fullest moment */
};

static void figure(struct page *p, int64_t bytes, int64_t whole)
{
    bool exact = p->exact;
    table_cell(&p->table, "%s", B(bytes));
    table_cell(&p->table, "%s", units_share(bytes, whole).s);
}

static void row(struct page *p, const char *sign, const char *name, int64_t fullest, int64_t last)
{
    table_cell(&p->table, "%s", sign);
    table_cell(&p->table, "%s", name);
    figure(p, fullest, p->r->fullest.driver_used);
    if (p->both)
        figure(p, last, p->r->last.driver_used);
}

static void part_rows(struct page *p)
{
    const struct residual_moment *a = &p->r->fullest, *b = &p->r->last;
    char name[40];
    for (int i = 0; i < RESIDUAL_PARTS; i++) {
        if (!a->parts[i] && !b->parts[i])
            continue;
        snprintf(name, sizeof name, "  %s", residual_part_name((enum residual_part)i));
        row(p, "", name, a->parts[i], b->parts[i]);
    }
    if (a->inferred != UNKNOWN || b->inferred != UNKNOWN)
        row(p, "", p->r->whole_device ? "  at the first sample (inferred)" : "  context and code (inferred)",
            a->inferred == UNKNOWN ? 0 : a->inferred, b->inferred == UNKNOWN ? 0 : b->inferred);
}

static void print_table(struct page *p, FILE *out)
{
    const struct residual_moment *a = &p->r->fullest, *b = &p->r->last;
    char *fullest = xformat("fullest, %s", units_time(a->t).s),
         *last = xformat("last, %s", units_time(b->t).s);
    const char *header[] = {"", "", fullest, "", last, ""};
    table_init(&p->table, p->both ? "<<>>>>" : "<<>>", p->both ? header : NULL);
    row(p, "", "reserved", a->reserved, b->reserved);
    row(p, "+", "residual", a->residual, b->residual);
    part_rows(p);
    row(p, "", p->r->whole_device ? "  unexplained, or of others" : "  unexplained", a->unexplained,
        b->unexplained);
    row(p, "=", "driver used", a->driver_used, b->driver_used);
    table_print(&p->table, out, 4);
    table_free(&p->table);
    free(fullest);
    free(last);
}

static bool any_inferred(const struct residual *r)
{
    return r->fullest.inferred != UNKNOWN || r->last.inferred != UNKNOWN;
}

static bool any_measured(const struct residual *r)
{
    for (int i = 0; i < RESIDUAL_PARTS; i++)
        if (r->fullest.parts[i] || r->last.parts[i])
            return true;
    return false;
}

/* Prints notes without which the table would be misread, if there are any. */
static void print_notes(const struct residual *r, FILE *out)
{
    if (any_measured(r))
        wrap_print(
            out, 4, 4,
            "residual: what the driver uses beyond what was asked of it; each part is how far its figure "
            "moved across the calls that take it (a context made, a kernel's first launch, a stream made)");
    if (r->whole_device)
        wrap_print(out, 4, 4,
                   "the driver's figure is the whole device's, so other processes and what the driver keeps "
                   "for itself are in it: this process's residual is at most the one shown");
    if (any_inferred(r) && r->whole_device)
        wrap_print(
            out, 4, 4,
            "inferred: context and code, which were not measured, and what others held at the first sample");
    else if (any_inferred(r))
        wrap_print(out, 4, 4,
                   "inferred: no context's cost was measured, so what the first sample shows beyond the rest "
                   "is taken for it");
    if (r->unmeasured > 0)
        wrap_print(out, 4, 4,
                   "%s could not be measured (other threads were at work, NVML did not answer, or asking had "
                   "taken its share of the time): in unexplained",
                   units_count(r->unmeasured, "call").s);
    if (!r->whole_device && (r->fullest.residual < 0 || r->last.residual < 0))
        wrap_print(out, 4, 4,
                   "less used than reserved: in a container NVML's figure may be that of another process "
                   "with the same pid");
    if (r->fullest.unexplained < 0 || r->last.unexplained < 0)
        wrap_print(out, 4, 4,
                   "negative: the driver's figure was below what was reserved and measured, so it had given "
                   "some of it back unseen, or does not back all of it with memory");
}

void report_residual_text(const struct device_report *d, FILE *out, bool exact)
{
    const struct residual *r = &d->residual;
    struct page p = {.r = r, .exact = exact};
    if (!r->known) {
        fprintf(out, "\n  residual: unknown, no sample of the driver's own figure was taken\n");
        return;
    }
    p.both = r->last.driver_used != r->fullest.driver_used || r->last.reserved != r->fullest.reserved;
    fprintf(out, "\n  driver used: %s at %s", B(r->fullest.driver_used), units_time(r->fullest.t).s);
    if (!p.both && r->last.t != r->fullest.t)
        fputs(", and as much at the last sample", out);
    fprintf(out, " (%s)\n", shown(residual_source(r->source)));
    print_table(&p, out);
    print_notes(r, out);
    if (d->unseen_off)
        wrap_print(out, 4, 4, "whether other memory of this process went past the recording is not known: %s",
                   d->unseen_off);
}

/* ---- JSON ---- */

static void moment_json(const struct residual_moment *m, struct json *j)
{
    json_int(j, "t_ns", m->t);
    json_int(j, "driver_used_bytes", m->driver_used);
    json_int(j, "reserved_bytes", m->reserved);
    json_int(j, "residual_bytes", m->residual);
    json_int(j, "context_bytes", m->parts[PART_CONTEXT]);
    json_int(j, "limits_bytes", m->parts[PART_LIMIT]);
    json_int(j, "code_bytes", m->parts[PART_CODE]);
    json_int(j, "streams_bytes", m->parts[PART_STREAM]);
    json_int(j, "graphs_bytes", m->parts[PART_GRAPH]);
    json_int(j, "peer_access_bytes", m->parts[PART_PEER]);
    json_int(j, "inferred_bytes", m->inferred);
    json_int(j, "unexplained_bytes", m->unexplained);
}

void report_residual_json(const struct device_report *d, struct json *j)
{
    const struct residual *r = &d->residual;
    json_begin(j, "residual", '{');
    json_text(j, "source", r->source);
    json_bool(j, "whole_device", r->whole_device);
    moment_json(&r->fullest, j);
    json_begin(j, "last", '{');
    moment_json(&r->last, j);
    json_end(j);
    json_int(j, "unseen_bytes", d->unseen_off ? UNKNOWN : d->unseen);
    json_int(j, "calls_not_measured", r->known ? r->unmeasured : UNKNOWN);
    json_int(j, "host_rss_bytes", r->rss);
    json_int(j, "pinned_bytes", r->pinned);
    json_end(j);
}
