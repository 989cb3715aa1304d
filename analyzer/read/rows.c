/*
 * rows.c - what lived at the peak, out-of-memory events, moments and steps, and look-ups in what was read.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/event.h"
#include "sql.h"
#include "curve.h"
#include "living.h"
#include "steps.h"

static void widen(struct trace *t, int64_t moment)
{
    if (moment == UNKNOWN)
        return;
    if (t->t_first == UNKNOWN || moment < t->t_first)
        t->t_first = moment;
    if (t->t_last == UNKNOWN || moment > t->t_last)
        t->t_last = moment;
}

int trace_load_extent(struct trace *t)
{
    static const char *const moments[] = {
        "SELECT t FROM ev ORDER BY seq LIMIT 1", "SELECT t FROM ev ORDER BY seq DESC LIMIT 1",
        "SELECT min(t_first) FROM zone",         "SELECT max(t_last) FROM zone",
        "SELECT max(t_ns) FROM sample",          "SELECT max(t_ns) FROM step"};
    t->t_first = t->t_last = t->oom_total = UNKNOWN;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        widen(t, trace_sql_one(t, moments[i], 0));
    widen(t, t->process.end_ns);
    return 0;
}

#define CUDA_OUT_OF_MEMORY "2" /* CUresult */

/* The recorder counts them, so a run without any need not be searched. */
static bool any_ooms(struct trace *t)
{
    int64_t counters = trace_sql_one(t, "SELECT count(*) FROM sqlite_master WHERE name = 'counter'", 0);
    return counters <= 0 || trace_sql_one(t,
                                          "SELECT sum(value) FROM counter WHERE name IN ('out_of_memory', "
                                          "'failed_allocations', 'driver_out_of_memory')",
                                          0) > 0;
}

/* If events were thinned not all of them have rows, but the recorder counted them. */
static void count_ooms(struct trace *t)
{
    int64_t gave_up = trace_counter(t, "out_of_memory"), refused = trace_counter(t, "driver_out_of_memory");
    t->oom_total = gave_up > t->oom_total ? gave_up : t->oom_total;
    t->refused_total = refused > t->refused_total ? refused : t->refused_total;
}

int trace_load_ooms(struct trace *t)
{
    if (!any_ooms(t)) {
        t->oom_total = t->refused_total = 0;
        return 0;
    }
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT e.seq, e.t, e.device, " X512("e.size") ", " X512("e.framework") ", " X512(
                      "e.direct") ", " X2M("e.") ", (SELECT name FROM phase WHERE id = e.phase), e.op <> ?1 "
                                                 "FROM ev e WHERE e.op = ?1 OR (e.op < ?1 AND e.op <> ?2 AND "
                                                 "e.kind IN (SELECT id FROM kind WHERE status "
                                                 "= " CUDA_OUT_OF_MEMORY ")) ORDER BY e.seq",
                  2, (int64_t)VS_OP_BLOCK_OOM, (int64_t)VS_OP_FREE_FAILED);
    t->oom_total = t->refused_total = 0;
    while (trace_sql_row(s)) {
        bool driver = sqlite3_column_int(s, 8);
        if ((*(driver ? &t->refused_total : &t->oom_total))++ >= TRACE_OOMS)
            continue;
        struct trace_oom *o = PUSH(t->ooms, t->oom_count);
        int64_t *fields[] = {&o->seq, &o->t, &o->device, &o->size, &o->framework, &o->direct, &o->reserved};
        for (int i = 0; i < 7; i++)
            *fields[i] = trace_sql_amount(s, i);
        o->phase = trace_sql_text(t, s, 7);
        o->driver = driver;
    }
    count_ooms(t);
    return trace_sql_done(t, s);
}

int trace_live_rows(struct trace *t, struct sqlite3_stmt *s, struct trace_live **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) =
            (struct trace_live){trace_sql_int(s, 0),     trace_sql_amount(s, 1),  trace_sql_amount(s, 2),
                                trace_sql_int(s, 3),     trace_sql_text(t, s, 4), trace_sql_text(t, s, 5),
                                trace_sql_text(t, s, 6), trace_sql_text(t, s, 7), trace_sql_text(t, s, 8),
                                trace_sql_text(t, s, 9), trace_sql_text(t, s, 10)};
    return trace_sql_done(t, s);
}

int trace_live(struct trace *t, int64_t device, struct trace_live **out, size_t *n)
{
    return trace_live_rows(t, trace_sql(t, LIVING("role", "live_at_peak WHERE device = ?"), 1, device), out,
                           n);
}

int trace_live_beside(struct trace *t, struct trace *other, int64_t device, struct trace_live **out,
                      size_t *n)
{
    if (!trace_follows(t) || trace_follows(other) || trace_need_roles(other) || other->found_roles)
        return trace_live(t, device, out, n);
    struct sqlite3_stmt *s =
        trace_sql(t,
                  LIVING("said", "(SELECT l.*, (SELECT f.role FROM framework_says f WHERE f.alloc_seq = "
                                 "l.alloc_seq) AS said FROM live_at_peak l WHERE l.device = ?)"),
                  1, device);
    return trace_live_rows(t, s, out, n);
}

int64_t trace_live_since(struct trace *t, int64_t device, const char *phase, int64_t seq)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT coalesce(CASE WHEN sum(category = 'framework block') > 0 THEN "
        "sum(CASE WHEN category = 'framework block' AND phase = ?3 AND alloc_seq < ?2 AND made_for IS NOT "
        "'raw' AND role IS NOT 'workspace' THEN size_bytes END) "
        "ELSE sum(CASE WHEN phase = ?3 AND alloc_seq < ?2 THEN size_bytes END) END, 0) "
        "FROM live_at_peak WHERE device = ?1",
        2, device, seq);
    if (s)
        sqlite3_bind_text(s, 3, phase, -1, SQLITE_STATIC);
    int64_t value = trace_sql_row(s) ? trace_sql_amount(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return value;
}

/* The number of a step that has no end because the process was killed or ran out of memory in it.  A program
 * that ended regularly has no such step.  A recording without any step may have ended in the first one.  That
 * is so if it has automatic phases, because then the ends of steps would have been found as well. */
int64_t trace_unfinished_step(struct trace *t)
{
    static const char last_phases[] =
        "SELECT max(r.step) FROM (SELECT * FROM rng ORDER BY id DESC LIMIT 256) r JOIN phase p ON p.id = "
        "r.phase "
        "WHERE r.process = ?1 AND r.step > ?2 AND r.phase > 0 AND p.name <> 'evaluation' "
        "AND (?2 > 0 OR (r.source = 3 AND p.name IN ('backward', 'optimizer')))";
    int64_t told = trace_sql_one(t, "SELECT coalesce(max(step), 0) FROM step", 0);
    if (t->end == TRACE_END_CLEAN &&
        trace_sql_one(t, "SELECT count(*) FROM oom WHERE t_ns > (SELECT coalesce(max(t_ns), 0) FROM step)",
                      0) <= 0)
        return UNKNOWN;
    return trace_sql_one(t, last_phases, 2, t->process.id, told);
}

int64_t trace_step_at(struct trace *t, int64_t when)
{
    int64_t first, last;
    if (t->steps <= 0 && t->unfinished_step == UNKNOWN)
        return UNKNOWN;
    if (trace_folded_at(t, when, when, &first, &last))
        return first == last ? first : UNKNOWN;
    int64_t step = trace_sql_one(t, "SELECT min(step) FROM step WHERE t_ns >= ? AND process = ?", 2, when,
                                 t->process.id);
    return step == UNKNOWN ? t->steps + 1 : step;
}

bool trace_step_span(struct trace *t, int64_t first, int64_t last, int64_t *from, int64_t *to)
{
    static const char end_of[] = "SELECT min(t_ns) FROM step WHERE step = ? AND process = ?";
    *to = last == t->unfinished_step ? t->t_last : trace_sql_one(t, end_of, 2, last, t->process.id);
    *from = first > 1
                ? trace_sql_one(t, end_of, 2, first - 1, t->process.id)
                : trace_sql_one(t, "SELECT min(t_push) FROM rng WHERE step = ? AND process = ? AND phase > 0",
                                2, first, t->process.id);
    if (first == 1 && (*from == UNKNOWN || *from >= *to))
        *from = 0;
    return *to != UNKNOWN && *from != UNKNOWN;
}

int trace_then(struct trace *t, int64_t device, int64_t seq, struct trace_then *out)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT seq, " X512("framework") ", " X512("direct") ", " X2M(
                                           "") " FROM ev WHERE seq <= ? AND device = ? AND (op < 30 OR op >= "
                                               "50) ORDER BY seq DESC LIMIT 1",
                                       2, seq, device);
    *out = (struct trace_then){0};
    if (trace_sql_row(s))
        *out = (struct trace_then){.framework = trace_sql_amount(s, 1),
                                   .direct = trace_sql_amount(s, 2),
                                   .reserved = trace_sql_amount(s, 3),
                                   .found = trace_sql_amount(s, 0) == seq};
    if (trace_sql_done(t, s))
        return -1;
    out->away = trace_away_after(t, device, seq);
    return 0;
}

int64_t trace_allocated_at(struct trace *t, int64_t device, int64_t seq)
{
    struct trace_then then;
    return trace_then(t, device, seq, &then) ? 0 : then.framework + then.direct;
}

int64_t trace_reserved_after(struct trace *t, int64_t device, int64_t seq)
{
    struct trace_then then;
    return trace_then(t, device, seq, &then) ? 0 : then.reserved;
}

const char *trace_phase_at_peak(struct trace *t, int64_t device)
{
    const struct trace_peak *peak = trace_find_peak(t, device, "allocated");
    const char *name = NULL;
    if (!peak)
        return NULL;
    int64_t phase =
        trace_sql_one(t, "SELECT phase FROM ev WHERE seq = ? AND device = ?", 2, peak->seq, device);
    if (phase >= 0 && (size_t)phase < t->phase_name_count)
        return t->phase_names[phase];
    for (size_t i = 0; i < t->phase_count;
         i++) { /* if thinned: the phase that reached that figure at that time */
        const struct trace_phase *p = &t->phases[i];
        if (p->device == device && p->allocated == peak->bytes && p->t_allocated == peak->t)
            name = p->name;
    }
    return name;
}

const struct trace_peak *trace_find_peak(const struct trace *t, int64_t device, const char *kind)
{
    for (size_t i = 0; i < t->peak_count; i++)
        if (t->peaks[i].device == device && t->peaks[i].kind && !strcmp(t->peaks[i].kind, kind))
            return &t->peaks[i];
    return NULL;
}

const struct trace_device *trace_find_device(const struct trace *t, int64_t device)
{
    for (size_t i = 0; i < t->device_count; i++)
        if (t->devices[i].id == device)
            return &t->devices[i];
    return NULL;
}
