/*
 * arena.c - how the arena served: what it held for the allocated bytes, how often it called the driver, how
 * often streams and the host waited.
 */
#include <math.h>
#include <stdlib.h>

#include "report.h"
#include "base/shown.h"
#include "base/table.h"
#include "base/units.h"
#include "read/curve.h"
#include "read/tables.h"

#define RATE_REQUESTS 1000 /* a rate per 1000 is not printed for fewer requests */
#define ELSEWHERE     10   /* the arena matters only if it holds at least 1 / ELSEWHERE of reserved */

#define B(n)    units_bytes(n, exact).s
#define F(NAME) (a->figure[VS_FIGURE_##NAME])

/* Bytes in chunks that blocks use in part: neither idle nor waiting nor allocated. */
static int64_t partly_used(const struct trace_arena *a)
{
    return F(AT_PEAK_RESERVED) - F(AT_PEAK_IDLE) - F(AT_PEAK_DEFERRED) - F(PEAK_ALLOCATED);
}

static double times(int64_t part, int64_t whole)
{
    return whole > 0 && part != UNKNOWN ? (double)part / (double)whole : NAN;
}

static void part_row(struct table *t, const char *sign, const char *name, int64_t bytes, int64_t whole,
                     bool exact)
{
    if (bytes == 0 && *sign == '+')
        return;
    table_cell(t, "%s", sign);
    table_cell(t, "%s", name);
    table_cell(t, "%s", B(bytes));
    table_cell(t, "%s", units_share(bytes, whole).s);
}

/* AWAY: memory of the device's was away at some time, and how much of the arena's at its peak is in no
 * figure. */
static void print_parts(const struct trace_arena *a, bool away, FILE *out, bool exact)
{
    struct table t;
    int64_t whole = F(AT_PEAK_RESERVED);
    table_init(&t, "<<>>", NULL);
    part_row(&t, "", "allocated, in units of 512 B", F(PEAK_ALLOCATED), whole, exact);
    part_row(&t, "+", "idle chunks", F(AT_PEAK_IDLE), whole, exact);
    part_row(&t, "+", "freed, not yet reusable", F(AT_PEAK_DEFERRED), whole, exact);
    if (partly_used(a) < 0)
        part_row(&t, "-", "on the host, at least", -partly_used(a), whole, exact);
    else
        part_row(&t, "+", away ? "in chunks partly used, at least" : "in chunks partly used", partly_used(a),
                 whole, exact);
    part_row(&t, "=", "held", whole, whole, exact);
    table_print(&t, out, 4);
    table_free(&t);
}

static void print_rate(double rate, FILE *out)
{
    if (isnan(rate))
        fputs("unknown", out);
    else
        fprintf(out, "%.*f", rate == 0 ? 0 : rate < 10 ? 2 : rate < 100 ? 1 : 0, rate);
}

static void print_calls(const struct trace_arena *a, FILE *out)
{
    int64_t without = F(HITS) + F(VIEW_HITS);
    fprintf(out, "    %s (%s without a call of the driver), %s\n", units_count(F(MALLOCS), "allocation").s,
            units_share(without, F(MALLOCS)).s, units_count(F(FREES), "free").s);
    if (F(MALLOCS) + F(FREES) < RATE_REQUESTS) {
        fprintf(out, "    %s for these\n", units_count(F(DRIVER_CALLS), "driver call").s);
        return;
    }
    fputs("    driver calls per 1000 of these: ", out);
    print_rate(a->calls_per_thousand, out);
    fputs(" over the run, ", out);
    print_rate(a->last_third_calls_per_thousand, out);
    fputs(" in their last third\n", out);
}

static void print_waits(const struct trace_arena *a, FILE *out)
{
    if (F(FOLLOWS) + F(SETTLES) + F(FREE_WAITS) == 0)
        fputs("    nobody was made to wait", out);
    else
        fprintf(
            out,
            "    waits: %lld of a stream for another's frees, %lld for the device because memory was short, "
            "%lld in a free",
            (long long)F(FOLLOWS), (long long)F(SETTLES), (long long)F(FREE_WAITS));
    fputc('\n', out);
}

static void print_lost(const struct trace_arena *a, FILE *out)
{
    if (F(LOST) > 0)
        fprintf(out, "    LOST: %s could not be given back to the driver: in no total here\n",
                units_count(F(LOST), "chunk").s);
    if (F(LOST_BLOCKS) > 0)
        fprintf(out, "    LOST: %s whose free could not be remembered: held, and never used again\n",
                units_count(F(LOST_BLOCKS), "block").s);
    if (F(EVICTED) > 0)
        fprintf(out, "    %s removed to stay below the limit of mappings\n",
                units_count(F(EVICTED), "alias mapping").s);
}

/* PyTorch's own allocator runs on top of the arena, or beside it, so its cache is not smaller. */
static void print_cache(const struct trace *t, int64_t device, FILE *out, bool exact)
{
    const struct trace_peak *kept = trace_find_peak(t, device, "managed_reserved");
    const struct trace_peak *blocks = trace_find_peak(t, device, "framework");
    if (kept && kept->bytes > 0 && blocks && blocks->bytes > 0)
        fprintf(
            out,
            "    NOTE: PyTorch's own allocator was in use and kept up to %s, where the arena can't help:\n"
            "      `vramscope run --allocator=arena` puts the arena in its place, unless python has -I, -E "
            "or -S\n",
            B(kept->bytes));
}

/* Says so if most of the reserved memory is physical memory that the program maps itself, as XLA does: the
 * arena cannot serve that. */
static void print_elsewhere(struct trace *t, const struct trace_arena *a, FILE *out, bool exact)
{
    const struct trace_peak *reserved = trace_find_peak(t, a->device, "reserved");
    if (!reserved || F(PEAK_RESERVED) > reserved->bytes / ELSEWHERE)
        return;
    char *owner = NULL;
    int64_t mapped = trace_mapped(t, a->device, &owner);
    if (mapped > reserved->bytes / 2)
        fprintf(out,
                "    NOTE: %s maps its memory itself (cuMemCreate, %s in all): the arena has nothing to do "
                "there\n",
                owner ? shown(owner) : "the program", B(mapped));
    free(owner);
}

static void print_arena(struct trace *t, const struct trace_arena *a, bool first, FILE *out, bool exact)
{
    fputs("\n  arena", out);
    if (F(NUMBER) > 1)
        fprintf(out, " %lld of this device (the context was reset)", (long long)F(NUMBER));
    fprintf(out, ": at its peak %s held for %s allocated", B(F(AT_PEAK_RESERVED)), B(F(PEAK_ALLOCATED)));
    bool away = trace_away_most(t, a->device) > 0;
    if (F(PEAK_ALLOCATED) > 0 && !away)
        fprintf(out, ", %.4f times as much", times(F(AT_PEAK_RESERVED), F(PEAK_ALLOCATED)));
    fputc('\n', out);
    if (first)
        print_cache(t, a->device, out, exact);
    if (first)
        print_elsewhere(t, a, out, exact);
    print_parts(a, away, out, exact);
    fprintf(out, "    most held at any time: %s\n", B(F(PEAK_RESERVED)));
    print_calls(a, out);
    print_waits(a, out);
    print_lost(a, out);
}

void report_arenas_text(const struct report *r, int64_t device, FILE *out, bool exact)
{
    bool first = true;
    for (size_t i = 0; i < r->arena_count; i++) {
        if (r->arenas[i].device != device)
            continue;
        print_arena(r->trace, &r->arenas[i], first, out, exact);
        first = false;
    }
}

static void arena_json(struct trace *t, const struct trace_arena *a, struct json *j)
{
    static const char *const names[] = {
#define X(NAME, column) column,
        VS_ARENA_FIGURES(X)
#undef X
    };
    json_begin(j, NULL, '{');
    json_int(j, "t_ns", a->t);
    for (int i = 0; i < VS_FIGURE_END; i++)
        json_int(j, names[i], a->figure[i]);
    bool away = trace_away_most(t, a->device) > 0; /* how much at the arena's peak is in no figure */
    json_int(j, "at_peak_partly_used_bytes", away ? UNKNOWN : partly_used(a));
    json_ratio(j, "at_peak_reserved_over_allocated",
               away ? NAN : times(F(AT_PEAK_RESERVED), F(PEAK_ALLOCATED)));
    json_ratio(j, "calls_per_thousand", a->calls_per_thousand);
    json_ratio(j, "last_third_calls_per_thousand", a->last_third_calls_per_thousand);
    json_end(j);
}

void report_arenas_json(const struct report *r, int64_t device, struct json *j)
{
    json_begin(j, "arenas", '[');
    for (size_t i = 0; i < r->arena_count; i++)
        if (r->arenas[i].device == device)
            arena_json(r->trace, &r->arenas[i], j);
    json_end(j);
}

/* ---- of every run ---- */

/* What was on the host needed nothing of what was reserved. */
static double over_allocated_then(const struct device_report *d)
{
    return times(d->reserved_at_peak, trace_peak_bytes(d->allocated) - d->away_at_peak);
}

void report_fragmentation_text(const struct device_report *d, FILE *out)
{
    if (!d->reserved || trace_peak_bytes(d->allocated) <= 0)
        return;
    fputs("    reserved over allocated: ", out);
    if (d->away_most > 0) { /* the peaks are of different parts */
        fprintf(out, "%.3f then, without what was on the host\n", over_allocated_then(d));
        return;
    }
    if (d->reserved_at_peak != UNKNOWN)
        fprintf(out, "%.3f then, ", over_allocated_then(d));
    fprintf(out, "%.3f peak over peak\n", times(d->reserved->bytes, d->allocated->bytes));
}

void report_fragmentation_json(const struct device_report *d, struct json *j)
{
    int64_t allocated = trace_peak_bytes(d->allocated);
    json_ratio(j, "reserved_over_allocated_then", over_allocated_then(d));
    json_ratio(j, "peak_reserved_over_peak_allocated",
               d->away_most > 0 ? NAN : times(d->reserved ? d->reserved->bytes : UNKNOWN, allocated));
}
