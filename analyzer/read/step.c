/*
 * step.c - reads one training step of a device, event by event, and what lives at the end of the last step
 * with the steps that made it (analysis/growth.h).  Of allocations that ended after the last step, for
 * instance at the program's teardown, the events since tell.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "trace/event.h"
#include "sql.h"
#include "curve.h"
#include "steps.h"

/* the condition of the view live_at_peak: a framework's block, or memory in the device's totals that no
 * caching allocator carves up */
#define IN_TOTALS                                                                                            \
    "(a.op = 20 OR (a.op IN (1, 4) AND k.status = 0 AND k.space IN (1, 2, 9, 10, 12) AND NOT k.managed AND " \
    "a.seq NOT IN (SELECT seq FROM amend WHERE op = 50)))"
#define IS_END                                                                                               \
    "f.op IN (2, 6, 21, 51, 52, 53) AND f.mate > 0 AND (f.op <> 6 OR f.size <> 0) AND f.seq NOT IN (SELECT " \
    "seq FROM amend WHERE op = 3)"

#define MOST_EVENTS 5000000 /* in one step: some seconds */

/* False with m->why: SEQ is in no step, or the kind of an allocation was corrected in the step, so that the
 * totals include it as the wrong kind. */
static bool find_step(struct trace *t, int64_t seq, struct trace_step_memory *m)
{
    int64_t process = t->process.id;
    m->last_seq =
        trace_sql_one(t, "SELECT min(seq) FROM step WHERE seq >= ? AND process = ?", 2, seq, process);
    int64_t before =
        trace_sql_one(t, "SELECT max(seq) FROM step WHERE seq < ? AND process = ?", 2, seq, process);
    m->first_seq =
        before != UNKNOWN
            ? before + 1
            : trace_sql_one(t, "SELECT min(first_seq) FROM rng WHERE step = ? AND process = ? AND phase > 0",
                            2, 1, process);
    if (m->last_seq == UNKNOWN || m->first_seq == UNKNOWN || m->first_seq > seq)
        m->why = "the peak lies in no whole step";
    else if (m->last_seq - m->first_seq > MOST_EVENTS)
        m->why = "the peak's step has more than five million events";
    else if (trace_sql_one(t, "SELECT count(*) FROM amend WHERE op = 50 AND by_seq >= ? AND seq <= ?", 2,
                           m->first_seq, m->last_seq) != 0)
        m->why = "in the peak's step memory turned out to be a caching allocator's only later";
    else if (t->thinned && !trace_all_events(t, m->first_seq, m->last_seq))
        m->why = "the events of the peak's step are folded (VRAMSCOPE_MAX_BYTES)";
    if (m->why)
        return false;
    m->step =
        trace_sql_one(t, "SELECT step FROM step WHERE seq = ? AND process = ?", 2, m->last_seq, process);
    return m->step != UNKNOWN;
}

/* The totals after the last event before the step: from its row, or from the folded stretch that it lies
 * in. */
static int load_before(struct trace *t, int64_t device, struct trace_step_memory *m)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT seq, framework, direct FROM (SELECT seq, " X512("framework") " AS framework, " X512(
            "direct") " AS direct FROM ev WHERE seq < ?1 AND device = ?2 AND (op < 30 OR op >= 50) ORDER BY "
                      "seq DESC LIMIT 1) UNION ALL SELECT last_seq, last_framework, last_direct FROM zone "
                      "WHERE stretch IS NOT NULL AND device = ?2 AND last_seq < ?1 ORDER BY 1 DESC LIMIT 1",
        2, m->first_seq, device);
    m->before = trace_sql_row(s) ? trace_sql_amount(s, 1) + trace_sql_amount(s, 2) : 0;
    return trace_sql_done(t, s);
}

static int load_points(struct trace *t, int64_t device, struct trace_step_memory *m)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT seq, " X512("framework") ", " X512(
                                           "direct") ", phase FROM ev WHERE seq BETWEEN ? AND ? AND "
                                                     "device = ? AND (op < 30 OR op >= 50) ORDER BY seq",
                                       3, m->first_seq, m->last_seq, device);
    while (trace_sql_row(s))
        *PUSH(m->points, m->point_count) = (struct trace_step_point){
            trace_sql_int(s, 0), trace_sql_amount(s, 1) + trace_sql_amount(s, 2), sqlite3_column_int(s, 3)};
    return trace_sql_done(t, s);
}

static int load_lifetimes(struct trace *t, struct trace_step_memory *m, struct sqlite3_stmt *s)
{
    while (trace_sql_row(s)) {
        int64_t freed = trace_sql_int(s, 1);
        *PUSH(m->lifetimes, m->lifetime_count) =
            (struct trace_lifetime){trace_sql_int(s, 0),      freed == UNKNOWN ? INT64_MAX : freed,
                                    trace_sql_amount(s, 2),   sqlite3_column_int(s, 3),
                                    sqlite3_column_int(s, 4), trace_sql_amount(s, 5)};
    }
    return trace_sql_done(t, s);
}

/* The last step ends with the program: what is freed after its last allocation was not freed by the step's
 * work. */
static void find_end_of_work(struct trace *t, struct trace_step_memory *m)
{
    int64_t next = trace_sql_one(t, "SELECT min(seq) FROM step WHERE seq > ? AND process = ?", 2, m->last_seq,
                                 t->process.id);
    int64_t birth = next == UNKNOWN ? trace_last_birth(t, m->first_seq - 1, m->last_seq) : UNKNOWN;
    m->work_seq = birth == UNKNOWN ? m->last_seq : birth;
}

static int load_freed(struct trace *t, int64_t device, struct trace_step_memory *m)
{
    return load_lifetimes(
        t, m,
        trace_sql(t,
                  "SELECT a.seq, f.seq, " X512(
                      "a.size") ", a.phase, f.phase, a.stack FROM ev f CROSS "
                                "JOIN ev a ON a.seq = f.mate CROSS JOIN kind k ON k.id = a.kind WHERE f.seq "
                                "BETWEEN ? AND ? AND a.device = ? AND " IS_END " AND " IN_TOTALS,
                  3, m->first_seq, m->last_seq, device));
}

static int load_kept(struct trace *t, int64_t device, struct trace_step_memory *m)
{
    return load_lifetimes(
        t, m,
        trace_sql(t,
                  "SELECT a.seq, NULL, " X512(
                      "a.size") ", a.phase, 0, a.stack FROM ev a CROSS JOIN kind k ON k.id = a.kind "
                                "WHERE a.seq BETWEEN ?1 AND ?2 AND a.device = ?3 AND " IN_TOTALS
                                " AND a.seq NOT IN (SELECT "
                                "f.mate FROM ev f WHERE f.seq BETWEEN ?1 AND ?2 AND " IS_END ")",
                  3, m->first_seq, m->last_seq, device));
}

int trace_step_memory(struct trace *t, int64_t device, int64_t seq, struct trace_step_memory *out)
{
    *out = (struct trace_step_memory){.step = UNKNOWN};
    if (t->steps <= 0)
        out->why = "no training steps are known (see --steps)";
    if (out->why || !find_step(t, seq, out))
        return 0;
    find_end_of_work(t, out);
    return load_before(t, device, out) || load_points(t, device, out) || load_freed(t, device, out) ||
                   load_kept(t, device, out)
               ? -1
               : 0;
}

void trace_free_step_memory(struct trace_step_memory *m)
{
    free(m->points);
    free(m->lifetimes);
}

/* ---- at the end of the last step ---- */

int trace_step_ends(struct trace *t, struct trace_step_end **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT step, t_ns, seq FROM step WHERE process = ? AND seq > coalesce((SELECT "
                  "max(last_seq) FROM stretch WHERE folded > 0 OR unwritten > 0), 0) ORDER BY seq",
                  1, t->process.id);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) =
            (struct trace_step_end){trace_sql_int(s, 0), trace_sql_int(s, 1), trace_sql_int(s, 2)};
    return trace_sql_done(t, s);
}

/* The index of the first step that ends at SEQ or later. */
static int64_t step_of(const struct trace_step_end *steps, size_t n, int64_t seq)
{
    return (int64_t)FROM(seq, steps, n, seq);
}

/* The conditions of the view live_at_peak, at the end of the last step.  With the + no index of all events by
 * device is made for this one question. */
#define BIRTHS                                                                                               \
    "SELECT o.alloc_seq, " X512(                                                                             \
        "o.size") ", o.phase, o.stack, o.op, o.space FROM open_allocation o WHERE +o.device = ?1 "           \
                  "AND o.alloc_seq <= ?2 AND NOT o.managed AND (o.op = 20 OR o.space IN (1, 2, 9, 10, 12)) " \
                  "UNION ALL "                                                                               \
                  "SELECT a.seq, " X512("a.size") ", a.phase, a.stack, a.op, k.space FROM ev f CROSS JOIN "  \
                                                  "ev a ON a.seq = f.mate "                                  \
                                                  "CROSS JOIN kind k ON k.id = a.kind WHERE f.seq > ?2 AND " \
                                                  "f.mate > 0 AND f.mate <= ?2 AND f.op IN (2, 6, 21, 51, "  \
                                                  "52, 53) AND (f.op <> 6 OR f.size <> 0) AND f.seq NOT IN " \
                                                  "(SELECT seq FROM amend WHERE op = 3) AND a.device = ?1 "  \
                                                  "AND (a.op = 20 OR (k.space IN (1, 2, 9, 10, 12) AND NOT " \
                                                  "k.managed AND a.seq NOT IN (SELECT seq FROM amend WHERE " \
                                                  "op = 50)))"

int trace_births(struct trace *t, int64_t device, const struct trace_step_end *steps, size_t n,
                 struct trace_birth **out, size_t *count)
{
    *out = NULL;
    *count = 0;
    if (!n)
        return 0;
    struct sqlite3_stmt *s = trace_sql(t, BIRTHS, 2, device, steps[n - 1].seq);
    while (trace_sql_row(s))
        *PUSH(*out, *count) = (struct trace_birth){.step = step_of(steps, n, trace_sql_amount(s, 0)),
                                                   .size = trace_sql_amount(s, 1),
                                                   .phase = trace_sql_amount(s, 2),
                                                   .stack = trace_sql_amount(s, 3),
                                                   .op = trace_sql_amount(s, 4),
                                                   .space = trace_sql_amount(s, 5)};
    return trace_sql_done(t, s);
}

int64_t trace_last_birth(struct trace *t, int64_t after, int64_t upto)
{
    return trace_sql_one(
        t,
        "SELECT seq FROM ev WHERE seq > ? AND seq <= ? AND op IN (1, 4, 20) ORDER BY seq DESC "
        "LIMIT 1",
        2, after, upto);
}
