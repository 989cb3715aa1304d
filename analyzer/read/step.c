/*
 * step.c - reads one training step of a device, event by event: the totals, and the allocations that were
 * made or freed in it.
 *
 * A step is a range of sequence numbers, so only its rows are read, however long the run.
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

static int64_t one(struct trace *t, const char *sql, int64_t a, int64_t b)
{
    struct sqlite3_stmt *s = trace_sql(t, sql, 2, a, b);
    int64_t value = s && sqlite3_step(s) == SQLITE_ROW ? trace_sql_int(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return value;
}

#define MOST_EVENTS 5000000 /* in one step: some seconds */

/* False with m->why: SEQ is in no step, or the kind of an allocation was corrected in the step, so that the
 * totals include it as the wrong kind. */
static bool find_step(struct trace *t, int64_t seq, struct trace_step_memory *m)
{
    int64_t process = t->process.id;
    m->last_seq = one(t, "SELECT min(seq) FROM step WHERE seq >= ? AND process = ?", seq, process);
    int64_t before = one(t, "SELECT max(seq) FROM step WHERE seq < ? AND process = ?", seq, process);
    m->first_seq = before != UNKNOWN
                       ? before + 1
                       : one(t, "SELECT min(first_seq) FROM rng WHERE step = ? AND process = ? AND phase > 0",
                             1, process);
    if (m->last_seq == UNKNOWN || m->first_seq == UNKNOWN || m->first_seq > seq)
        m->why = "the peak lies in no whole step";
    else if (m->last_seq - m->first_seq > MOST_EVENTS)
        m->why = "the peak's step has more than five million events";
    else if (one(t, "SELECT count(*) FROM amend WHERE op = 50 AND by_seq >= ? AND seq <= ?", m->first_seq,
                 m->last_seq) != 0)
        m->why = "in the peak's step memory turned out to be a caching allocator's only later";
    else if (t->thinned && !trace_all_events(t, m->first_seq, m->last_seq))
        m->why = "the events of the peak's step are folded (VRAMSCOPE_MAX_BYTES)";
    if (m->why)
        return false;
    m->step = one(t, "SELECT step FROM step WHERE seq = ? AND process = ?", m->last_seq, process);
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
    int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    m->before = code == SQLITE_ROW ? trace_sql_amount(s, 1) + trace_sql_amount(s, 2) : 0;
    return trace_sql_done(t, s, code);
}

static int load_points(struct trace *t, int64_t device, struct trace_step_memory *m)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT seq, " X512("framework") ", " X512(
                                           "direct") ", phase FROM ev WHERE seq BETWEEN ? AND ? AND "
                                                     "device = ? AND (op < 30 OR op >= 50) ORDER BY seq",
                                       3, m->first_seq, m->last_seq, device);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(m->points, m->point_count) = (struct trace_step_point){
            trace_sql_int(s, 0), trace_sql_amount(s, 1) + trace_sql_amount(s, 2), sqlite3_column_int(s, 3)};
    return trace_sql_done(t, s, code);
}

static int load_lifetimes(struct trace *t, struct trace_step_memory *m, struct sqlite3_stmt *s)
{
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        int64_t freed = trace_sql_int(s, 1);
        *PUSH(m->lifetimes, m->lifetime_count) =
            (struct trace_lifetime){trace_sql_int(s, 0),      freed == UNKNOWN ? INT64_MAX : freed,
                                    trace_sql_amount(s, 2),   sqlite3_column_int(s, 3),
                                    sqlite3_column_int(s, 4), trace_sql_amount(s, 5)};
    }
    return trace_sql_done(t, s, code);
}

/* The last step ends with the program: what is freed after its last allocation was not freed by the step's
 * work. */
static void find_end_of_work(struct trace *t, struct trace_step_memory *m)
{
    int64_t next =
        one(t, "SELECT min(seq) FROM step WHERE seq > ? AND process = ?", m->last_seq, t->process.id);
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
