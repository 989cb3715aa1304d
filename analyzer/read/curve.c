/*
 * curve.c - reads a device's totals over time, without every event of a long run: a zone (extremes of about
 * 1000 events) shorter than COARSE ns, a column of a plot, or of a folded stretch, is passed on as it is.
 * A zone is of one phase, and zones of several phases overlap in time: so points come in no order, and an
 * event may come twice.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "trace/event.h"
#include "sql.h"
#include "curve.h"

struct zone {
    int64_t first_seq, last_seq;
    struct trace_point p;
};

/* What was away when: by events, and of zones by their moments. */
struct away {
    struct trace_away *at;
    size_t n;
};

static void zone_from_row(struct sqlite3_stmt *s, const struct away *away, struct zone *z)
{
    int64_t v[13];
    for (int i = 0; i < 13; i++)
        v[i] = trace_sql_amount(s, i);
    *z = (struct zone){v[0],
                       v[1],
                       {.t = v[2],
                        .t_last = v[3],
                        .allocated_min = v[4],
                        .allocated_max = v[5],
                        .t_max = v[6],
                        .reserved_min = v[7],
                        .reserved_max = v[8],
                        .allocated_last = v[9] + v[10],
                        .reserved_last = v[11],
                        .phase = (int)v[12],
                        .folded = trace_sql_int(s, 13) != UNKNOWN,
                        .away = trace_aways_at(away->at, away->n, v[6]),
                        .away_last = trace_aways_at(away->at, away->n, v[3])}};
}

static int load_zones(struct trace *t, int64_t device, const struct away *away, struct zone **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT first_seq, last_seq, t_first, t_last, min_allocated, max_allocated, max_allocated_t, "
        "min_reserved, max_reserved, "
        "last_framework, last_direct, last_reserved, phase, stretch FROM zone WHERE device = ? ORDER BY "
        "first_seq",
        1, device);
    while (trace_sql_row(s))
        zone_from_row(s, away, PUSH(*out, *n));
    return trace_sql_done(t, s);
}

static void point_from_row(struct sqlite3_stmt *s, const struct away *away, struct trace_point *p)
{
    int64_t allocated = trace_x512(sqlite3_column_int64(s, 1)) + trace_x512(sqlite3_column_int64(s, 2));
    int64_t reserved = trace_x2m(sqlite3_column_int64(s, 3), sqlite3_column_int64(s, 2)),
            when = trace_sql_amount(s, 0),
            gone = away->n ? trace_aways_after(away->at, away->n, trace_sql_amount(s, 5)) : 0;
    *p = (struct trace_point){when,      when,     when,     allocated, allocated,
                              allocated, reserved, reserved, reserved,  sqlite3_column_int(s, 4),
                              false,     gone,     gone};
}

#define EVENT_COLUMNS "SELECT t, framework, direct, reserved, phase, seq FROM ev WHERE device = ? "

/* Visits the events from sequence FIRST to LAST. */
static int visit_events(struct trace *t, int64_t device, const struct away *away, int64_t first, int64_t last,
                        trace_visit *visit, void *context)
{
    struct sqlite3_stmt *s = trace_sql(t, EVENT_COLUMNS "AND seq BETWEEN ? AND ? AND (op < 30 OR op >= 50)",
                                       3, device, first, last);
    while (trace_sql_row(s)) {
        struct trace_point p;
        point_from_row(s, away, &p);
        visit(context, &p);
    }
    return trace_sql_done(t, s);
}

struct event_run { /* of sequences whose events are still to be read; none where last < first */
    int64_t first, last;
};

static int read_run(struct trace *t, int64_t device, const struct away *away, const struct event_run *run,
                    trace_visit *visit, void *context)
{
    return run->last >= run->first ? visit_events(t, device, away, run->first, run->last, visit, context) : 0;
}

/* Whether Z can replace its events: if they are folded, or if the zone is below the resolution and lies
 * between FROM and TO as a whole. */
static bool stands_for_events(const struct zone *z, int64_t coarse, int64_t from, int64_t to)
{
    bool is_short = z->p.t_last - z->p.t <= coarse, is_inside = z->p.t >= from && z->p.t_last <= to;
    return z->p.folded || (is_short && is_inside);
}

/* Visits the zones between FROM and TO, which are in the order of their first events.  A zone that can
 * replace its events is visited as it is.  The others are visited event by event, with one query for zones
 * that are neighbours or overlap. */
static int visit_zones(struct trace *t, int64_t device, const struct away *away, const struct zone *zones,
                       size_t n, int64_t coarse, int64_t from, int64_t to, trace_visit *visit, void *context)
{
    struct event_run run = {.first = 0, .last = -1};
    for (size_t i = 0; i < n; i++) {
        const struct zone *z = &zones[i];
        if (z->p.t_last < from || z->p.t > to)
            continue;
        bool stands = stands_for_events(z, coarse, from, to);
        if (stands || t->unwritten) /* some of its events may have no rows, for lack of room */
            visit(context, &z->p);
        if (stands)
            continue;
        bool joins = run.last >= run.first && z->first_seq <= run.last + 1;
        if (joins) {
            run.last = z->last_seq > run.last ? z->last_seq : run.last;
            continue;
        }
        if (read_run(t, device, away, &run, visit, context))
            return -1;
        run = (struct event_run){z->first_seq, z->last_seq};
    }
    return read_run(t, device, away, &run, visit, context);
}

/* The totals at FROM, which are those after the last event before it. */
static int find_before(struct trace *t, int64_t device, const struct away *away, int64_t from,
                       const struct zone *zones, size_t n, struct trace_point *before)
{
    *before = (struct trace_point){.t = from, .t_last = from};
    if (from <= t->t_first)
        return 0;
    /* the last event before FROM is in or before the first zone that ends after FROM */
    int64_t limit = INT64_MAX;
    for (size_t i = 0; i < n; i++)
        if (zones[i].p.t_last >= from && zones[i].p.t < from)
            limit = zones[i].last_seq;
    for (size_t i = 0; limit == INT64_MAX && i < n; i++)
        if (zones[i].p.t >= from)
            limit = zones[i].first_seq;
    struct sqlite3_stmt *s = trace_sql(
        t, EVENT_COLUMNS "AND seq <= ? AND t < ? AND (op < 30 OR op >= 50) ORDER BY seq DESC LIMIT 1", 3,
        device, limit, from);
    int64_t seq = 0;
    if (trace_sql_row(s)) {
        point_from_row(s, away, before);
        before->t = before->t_last = from;
        seq = trace_sql_amount(s, 5);
    }
    for (size_t i = 0; i < n; i++) /* or the end of a folded stretch, if that is later */
        if (zones[i].p.folded && zones[i].p.t_last < from && zones[i].last_seq > seq) {
            seq = zones[i].last_seq;
            *before = zones[i].p;
            before->t = before->t_last = before->t_max = from;
            before->folded = false;
            before->away = before->away_last;
        }
    return trace_sql_done(t, s);
}

int trace_curve(struct trace *t, int64_t device, int64_t from, int64_t to, int64_t coarse,
                struct trace_point *before, trace_visit *visit, void *context)
{
    struct zone *zones = NULL;
    size_t n = 0;
    int64_t zoned = 0; /* the newest events of a running process are in no zone yet */
    struct away away;
    int result = trace_aways(t, device, &away.at, &away.n);
    if (!result)
        result = load_zones(t, device, &away, &zones, &n);
    for (size_t i = 0; i < n; i++)
        zoned = zones[i].last_seq > zoned ? zones[i].last_seq : zoned;
    if (!result)
        result = find_before(t, device, &away, from, zones, n, before);
    if (!result)
        result = visit_zones(t, device, &away, zones, n, coarse, from, to, visit, context);
    if (!result)
        result = visit_events(t, device, &away, zoned + 1, INT64_MAX, visit, context);
    free(zones);
    free(away.at);
    return result;
}
