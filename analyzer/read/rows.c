/*
 * rows.c - reads tables on demand: samples, ranges, the allocations at the peak, call stacks.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/event.h"
#include "sql.h"
#include "curve.h"
#include "living.h"
#include "stacks.h"
#include "steps.h"
#include "tables.h"
#include "trace/loss.h"

/* SQL for the schema's compact bytes; the argument is a column of ev */

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
        widen(t, trace_sql_one(t, moments[i]));
    widen(t, t->process.end_ns);
    return 0;
}

#define CUDA_OUT_OF_MEMORY "2" /* CUresult */

/* The recorder counts them, so a run without any need not be searched. */
static bool any_ooms(struct trace *t)
{
    int64_t counters = trace_sql_one(t, "SELECT count(*) FROM sqlite_master WHERE name = 'counter'");
    return counters <= 0 || trace_sql_one(t, "SELECT sum(value) FROM counter WHERE name IN ('out_of_memory', "
                                             "'failed_allocations', 'driver_out_of_memory')") > 0;
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
    int code = SQLITE_ERROR;
    t->oom_total = t->refused_total = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
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
    return trace_sql_done(t, s, code);
}

int trace_samples(struct trace *t, int64_t device, struct trace_sample **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT t_ns, device, driver_used_bytes, host_rss_bytes, pinned_bytes, reserved_bytes, source "
        "FROM sample WHERE process = ? AND device = ? ORDER BY t_ns",
        2, t->process.id, device);
    const char *source = NULL; /* rows with the same text share one copy */
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 6);
        if (name && (!source || strcmp(source, name)))
            source = trace_sql_text(t, s, 6);
        *PUSH(*out, *n) = (struct trace_sample){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                                trace_sql_int(s, 3), trace_sql_int(s, 4), trace_sql_int(s, 5),
                                                name ? source : NULL};
    }
    return trace_sql_done(t, s, code);
}

int trace_ranges(struct trace *t, int64_t from, int64_t to, struct trace_range **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT t_push, t_pop, thread, phase, source FROM rng WHERE phase > 0 "
                                       "AND NOT flags & 4 AND t_push <= ? "
                                       "AND (t_pop IS NULL OR t_pop >= ?) ORDER BY id",
                                       2, to, from);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = (struct trace_range){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2),
                                               sqlite3_column_int(s, 3), sqlite3_column_int(s, 4)};
    return trace_sql_done(t, s, code);
}

/* Single ranges, and folded ones by their names. */
#define LASTED "sum(max(0, coalesce(r.t_pop, CASE WHEN r.flags & 4 THEN r.t_push ELSE ?2 END) - r.t_push))"

/* Single ranges, and the sums of folded ones (their device -1 has number and duration). */
static const char names_sql[] =
    "SELECT name, domain, sum(ranges), sum(ns), max(allocated), max(reserved), count(*) OVER () FROM ("
    "SELECT n.text AS name, d.text AS domain, count(*) AS ranges, " LASTED
    " AS ns, max(p.allocated_bytes) AS allocated, "
    "max(p.reserved_bytes) AS reserved FROM rng r LEFT JOIN range_peak p ON p.range = r.id AND p.device = ?1 "
    "LEFT JOIN "
    "string n ON n.id = r.name LEFT JOIN string d ON d.id = r.domain WHERE r.phase = 0 GROUP BY n.text, "
    "d.text UNION ALL "
    "SELECT CASE f.name WHEN -1 THEN 'other names' ELSE n.text END, d.text, CASE f.device WHEN -1 THEN "
    "f.ranges ELSE 0 END, "
    "CASE f.device WHEN -1 THEN f.ns ELSE 0 END, CASE f.device WHEN ?1 THEN f.allocated_bytes END, CASE "
    "f.device WHEN ?1 "
    "THEN f.reserved_bytes END FROM range_fold f LEFT JOIN string n ON n.id = f.name LEFT JOIN string d ON "
    "d.id = f.domain "
    "WHERE f.phase = 0 AND f.device IN (-1, ?1)) GROUP BY name, domain ORDER BY 4 DESC, 1 LIMIT ?3";

int trace_range_names(struct trace *t, int64_t device, size_t most, struct trace_names **out, size_t *n,
                      int64_t *count)
{
    struct sqlite3_stmt *s =
        trace_sql(t, names_sql, 3, device, t->t_last == UNKNOWN ? 0 : t->t_last, (int64_t)most);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    *count = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        *PUSH(*out, *n) =
            (struct trace_names){trace_sql_text(t, s, 0), trace_sql_text(t, s, 1), trace_sql_amount(s, 2),
                                 trace_sql_int(s, 3),     trace_sql_int(s, 4),     trace_sql_int(s, 5)};
        *count = trace_sql_int(s, 6);
    }
    return trace_sql_done(t, s, code);
}

int64_t trace_other_ranges(struct trace *t)
{
    int64_t n = trace_sql_one(t, "SELECT (SELECT count(*) FROM rng WHERE phase = 0) + (SELECT "
                                 "coalesce(sum(ranges), 0) FROM range_fold WHERE phase = 0 AND device = -1)");
    return n == UNKNOWN ? 0 : n;
}

int trace_live_rows(struct trace *t, struct sqlite3_stmt *s, struct trace_live **out, size_t *n)
{
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) =
            (struct trace_live){trace_sql_int(s, 0),     trace_sql_amount(s, 1),  trace_sql_amount(s, 2),
                                trace_sql_int(s, 3),     trace_sql_text(t, s, 4), trace_sql_text(t, s, 5),
                                trace_sql_text(t, s, 6), trace_sql_text(t, s, 7), trace_sql_text(t, s, 8),
                                trace_sql_text(t, s, 9), trace_sql_text(t, s, 10)};
    return trace_sql_done(t, s, code);
}

int trace_live(struct trace *t, int64_t device, struct trace_live **out, size_t *n)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT device, sum(size_bytes), count(*), stack, phase, category, owner, line, layer, (SELECT "
        "layer_type FROM "
        "stack_text WHERE id = stack), role FROM "
        "live_at_peak WHERE device = ? GROUP BY phase, category, owner, line, layer, stack, role ORDER BY 2 "
        "DESC",
        1, device);
    return trace_live_rows(t, s, out, n);
}

bool trace_follows(struct trace *t)
{
    return trace_sql_one(t, "SELECT EXISTS(SELECT 1 FROM access)") == 1;
}

int trace_live_beside(struct trace *t, struct trace *other, int64_t device, struct trace_live **out,
                      size_t *n)
{
    if (!trace_follows(t) || trace_follows(other) || other->found_roles)
        return trace_live(t, device, out, n);
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT device, sum(size_bytes), count(*), stack, phase, category, owner, line, layer, (SELECT "
        "layer_type FROM stack_text WHERE id = stack), said FROM (SELECT l.*, (SELECT f.role FROM "
        "framework_says f WHERE f.alloc_seq = l.alloc_seq) AS said FROM live_at_peak l WHERE l.device = ?) "
        "GROUP BY phase, category, owner, line, layer, stack, said ORDER BY 2 DESC",
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
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_amount(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return value;
}

int trace_allocations(struct trace *t, struct trace_count **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT e.device, count(*), (SELECT name FROM phase WHERE id = e.phase) FROM ev e WHERE "
                  "e.device >= 0 AND (e.op = ? OR (e.op IN (?, ?) AND e.kind IN (SELECT id FROM kind WHERE "
                  "status = 0))) GROUP BY e.device, e.phase",
                  3, (int64_t)VS_OP_BLOCK_ALLOC, (int64_t)VS_OP_ALLOC, (int64_t)VS_OP_PHYS_CREATE);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) =
            (struct trace_count){trace_sql_int(s, 0), trace_sql_amount(s, 1), trace_sql_text(t, s, 2)};
    return trace_sql_done(t, s, code);
}

int trace_stack(struct trace *t, int64_t id, struct trace_frame **out, size_t *n)
{
    /* ids must grow from parent to child, so that a damaged table can't make an endless loop */
    struct sqlite3_stmt *s = trace_sql(
        t,
        "WITH RECURSIVE up(id, parent, frame, depth) AS (SELECT id, parent, frame, 0 FROM stack WHERE id = ? "
        "UNION ALL SELECT s.id, s.parent, s.frame, up.depth + 1 FROM stack s JOIN up ON s.id = up.parent "
        "WHERE up.depth < 1024) "
        "SELECT m.path, f.function, f.file, f.offset, f.line, f.kind FROM up LEFT JOIN frame f ON f.id = "
        "up.frame "
        "LEFT JOIN module m ON m.id = f.module ORDER BY up.depth",
        1, id);
    int code = SQLITE_ERROR;
    *out = NULL;
    *n = 0;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) =
            (struct trace_frame){trace_sql_text(t, s, 0), trace_sql_text(t, s, 1), trace_sql_text(t, s, 2),
                                 trace_sql_int(s, 3),     trace_sql_int(s, 4),     trace_sql_int(s, 5)};
    return trace_sql_done(t, s, code);
}

/* First column of the first row of SQL with two parameters. */
static int64_t one_of_two(struct trace *t, const char *sql, int64_t a, int64_t b)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 2, a, b);
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_int(s, 0) : UNKNOWN;
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
    int64_t told = trace_sql_one(t, "SELECT coalesce(max(step), 0) FROM step");
    if (t->end == TRACE_END_CLEAN &&
        trace_sql_one(t, "SELECT count(*) FROM oom WHERE t_ns > (SELECT coalesce(max(t_ns), 0) FROM step)") <=
            0)
        return UNKNOWN;
    return one_of_two(t, last_phases, t->process.id, told);
}

int64_t trace_step_at(struct trace *t, int64_t when)
{
    int64_t first, last;
    if (t->steps <= 0 && t->unfinished_step == UNKNOWN)
        return UNKNOWN;
    if (trace_folded_at(t, when, when, &first, &last))
        return first == last ? first : UNKNOWN;
    int64_t step =
        one_of_two(t, "SELECT min(step) FROM step WHERE t_ns >= ? AND process = ?", when, t->process.id);
    return step == UNKNOWN ? t->steps + 1 : step;
}

bool trace_step_span(struct trace *t, int64_t first, int64_t last, int64_t *from, int64_t *to)
{
    static const char end_of[] = "SELECT min(t_ns) FROM step WHERE step = ? AND process = ?";
    *to = last == t->unfinished_step ? t->t_last : one_of_two(t, end_of, last, t->process.id);
    *from = first > 1
                ? one_of_two(t, end_of, first - 1, t->process.id)
                : one_of_two(t, "SELECT min(t_push) FROM rng WHERE step = ? AND process = ? AND phase > 0",
                             first, t->process.id);
    if (first == 1 && (*from == UNKNOWN || *from >= *to))
        *from = 0;
    return *to != UNKNOWN && *from != UNKNOWN;
}

int64_t trace_reserved_at(struct trace *t, int64_t device, int64_t seq)
{
    return one_of_two(t, "SELECT " X2M("") " FROM ev WHERE seq = ? AND device = ?", seq, device);
}

const char *trace_phase_at_peak(struct trace *t, int64_t device)
{
    const struct trace_peak *peak = trace_find_peak(t, device, "allocated");
    const char *name = NULL;
    if (!peak)
        return NULL;
    int64_t phase = one_of_two(t, "SELECT phase FROM ev WHERE seq = ? AND device = ?", peak->seq, device);
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

bool trace_is_imported(const struct trace *t)
{
    for (size_t i = 0; i < t->loss_count; i++)
        if (t->losses[i].code && !strcmp(t->losses[i].code, vs_loss_code(VS_LOSS_IMPORTED)))
            return true;
    return false;
}

bool trace_has_loss(const struct trace *t, enum trace_loss_kind kind)
{
    for (size_t i = 0; i < t->loss_count; i++)
        if (t->losses[i].kind == kind)
            return true;
    return false;
}

bool trace_mismatch_is_late(const struct trace_mismatch *m)
{
    return m->what && (!strcmp(m->what, "late_allocated") || !strcmp(m->what, "late_reserved"));
}

size_t trace_disagreements(const struct trace *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->mismatch_count; i++)
        n += !trace_mismatch_is_late(&t->mismatches[i]);
    return n;
}
