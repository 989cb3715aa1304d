/*
 * oom.c - reads out-of-memory events: the kept ones, the allocations that lived then, and the memory that a
 * framework carved blocks from.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "steps.h"
#include "living.h"
#include "curve.h"
#include "ooms.h"

static bool has_table(struct trace *t)
{
    return trace_sql_one(t, "SELECT count(*) FROM sqlite_master WHERE name = 'oom'", 0) > 0;
}

static void read_kept(struct trace *t, struct sqlite3_stmt *s, struct trace_oom_kept *o)
{
    int64_t *numbers[] = {&o->seq,           &o->role,         &o->t,
                          &o->device,        &o->op,           &o->thread,
                          &o->stack,         &o->step,         &o->requested,
                          &o->asked_driver,  &o->refusals,     &o->framework,
                          &o->direct,        &o->managed,      &o->unknown_use,
                          &o->reserved,      &o->base,         &o->pinned,
                          &o->registered,    &o->free,         &o->free_t,
                          &o->reserved_then, &o->process_used, &o->process_used_t,
                          &o->device_used,   &o->device_used_t};
    int n = (int)(sizeof numbers / sizeof *numbers);
    for (int i = 0; i < n; i++)
        *numbers[i] = trace_sql_int(s, i);
    /* every row has our own totals; in a damaged file a missing one counts as 0, so that they can
     * be added */
    int64_t *totals[] = {&o->framework, &o->direct, &o->managed, &o->unknown_use, &o->reserved, &o->base};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        *totals[i] = *totals[i] == UNKNOWN ? 0 : *totals[i];
    o->stored = sqlite3_column_int(s, n);
    o->phase = trace_sql_text(t, s, n + 1);
    o->api = trace_sql_text(t, s, n + 2);
    o->space = trace_sql_text(t, s, n + 3);
    o->owner = trace_sql_text(t, s, n + 4);
    o->thread_name = trace_sql_text(t, s, n + 5);
    o->made_for = trace_sql_text(t, s, n + 6);
    o->element_type = trace_sql_text(t, s, n + 7);
    o->shape = trace_sql_text(t, s, n + 8);
    o->tensor_bytes = trace_sql_int(s, n + 9);
    if (t->steps <= 0)
        o->step = UNKNOWN;
}

int trace_ooms_kept(struct trace *t, struct trace_oom_kept **out, size_t *n)
{
    *out = NULL;
    *n = 0;
    if (!has_table(t))
        return 0;
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT o.seq, o.role, o.t_ns, o.device, o.op, o.thread, o.stack, o.step, o.requested_bytes, "
        "o.asked_driver_bytes, o.refusals, o.framework_bytes, o.direct_bytes, o.managed_reserved_bytes, "
        "o.unknown_use_bytes, "
        "o.reserved_bytes, o.base_bytes, o.pinned_bytes, o.registered_bytes, o.free_bytes, o.free_t_ns, "
        "o.free_reserved_bytes, o.process_used_bytes, o.process_used_t_ns, o.device_used_bytes, "
        "o.device_used_t_ns, o.stored, "
        "(SELECT name FROM phase WHERE id = o.phase), (SELECT name FROM api WHERE id = o.api), "
        "(SELECT name FROM space WHERE id = o.space), "
        "(SELECT text FROM string WHERE id = (SELECT owner FROM stack WHERE id = o.stack)), "
        "(SELECT name FROM thread WHERE id = o.thread AND process = o.process), "
        "x.made_for, x.element_type, x.shape, x.request_bytes "
        "FROM oom o LEFT JOIN tensor_text x ON x.id = o.tensor ORDER BY o.seq",
        0);
    while (trace_sql_row(s))
        read_kept(t, s, PUSH(*out, *n));
    if (trace_sql_done(t, s))
        return -1;
    for (size_t i = 0; i < *n; i++)
        (*out)[i].away = trace_away_after(t, (*out)[i].device, (*out)[i].seq);
    return 0;
}

int64_t trace_last_refused(struct trace *t)
{
    if (!has_table(t))
        return UNKNOWN;
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT max(o.requested_bytes, 0) FROM (SELECT seq, requested_bytes FROM oom WHERE role & 26 "
        "ORDER BY seq DESC LIMIT 1) o WHERE NOT EXISTS (SELECT 1 FROM ev e CROSS JOIN kind k "
        "ON k.id = e.kind WHERE e.seq > o.seq AND e.op IN (1, 4, 7, 20) AND k.status = 0) "
        "AND NOT EXISTS (SELECT 1 FROM step WHERE seq > o.seq)",
        0);
    int64_t bytes = trace_sql_row(s) ? trace_sql_amount(s, 0) : UNKNOWN;
    sqlite3_finalize(s);
    return bytes;
}

int trace_live_at_oom(struct trace *t, int64_t seq, struct trace_live **out, size_t *n)
{
    return trace_live_rows(t, trace_sql(t, LIVING("role", "live_at_oom WHERE oom_seq = ?"), 1, seq), out, n);
}

int trace_left_by_oom(struct trace *t, int64_t seq, int64_t *last, struct trace_live **out, size_t *n)
{
    struct trace_step_end *steps = NULL;
    size_t count = 0, of = 0;
    *out = NULL;
    *n = 0;
    if (trace_step_ends(t, &steps, &count))
        return -1;
    while (of < count && steps[of].seq < seq)
        of++;
    if (of >= count) { /* its step never ended */
        free(steps);
        return 0;
    }
    int64_t begin = of ? steps[of - 1].seq : 0, end = steps[count - 1].seq;
    *last = steps[count - 1].step;
    free(steps);
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT device, sum(size_bytes), count(*), max(stack), phase, NULL, "
                                       "NULL, line, NULL, NULL, NULL FROM live_at_oom "
                                       "WHERE oom_seq = ?1 AND category = 'framework block' AND alloc_seq > "
                                       "?2 AND alloc_seq NOT IN (SELECT mate FROM ev WHERE op = 21 AND "
                                       "seq > ?1 AND seq <= ?3) GROUP BY phase, line ORDER BY 2 DESC",
                                       3, seq, begin, end);
    return trace_live_rows(t, s, out, n);
}

/* The most that was allocated on DEVICE from event FROM to event TO, beyond what was after FROM. */
static int64_t rose(struct trace *t, int64_t device, int64_t from, int64_t to)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT max(" X512("framework") " + " X512("direct") ") FROM ev WHERE seq BETWEEN ?1 AND ?2 "
                                                             "AND +device = ?3",
        3, from, to, device);
    int64_t most = trace_sql_row(s) ? trace_sql_amount(s, 0) : UNKNOWN;
    int64_t then = trace_allocated_at(t, device, from);
    sqlite3_finalize(s);
    return most == UNKNOWN || then == UNKNOWN ? UNKNOWN : most - then;
}

int trace_line_before(struct trace *t, const struct trace_oom_kept *o, struct trace_before *out)
{
    struct sqlite3_stmt *s = trace_sql(
        t,
        "SELECT e.seq, " X512(
            "e.size") ", p.step, p.seq FROM ev e JOIN step p ON p.seq = (SELECT min(seq) FROM step WHERE "
                      "seq > e.seq) WHERE e.op = 20 AND +e.device = ?1 AND e.seq < ?3 AND p.seq < ?3 AND "
                      "e.stack IN (SELECT id FROM "
                      "stack_text WHERE line = (SELECT line FROM stack_text WHERE id = ?2)) ORDER BY 2 DESC "
                      "LIMIT 1",
        3, o->device, o->stack, o->seq);
    int64_t from = UNKNOWN, to = UNKNOWN;
    *out = (struct trace_before){UNKNOWN, UNKNOWN, UNKNOWN};
    if (trace_sql_row(s)) {
        from = trace_sql_amount(s, 0);
        to = trace_sql_amount(s, 3);
        *out = (struct trace_before){trace_sql_amount(s, 2), trace_sql_amount(s, 1), UNKNOWN};
    }
    if (trace_sql_done(t, s))
        return -1;
    if (from != UNKNOWN)
        out->more = rose(t, o->device, from, to);
    return 0;
}

int64_t trace_counter(struct trace *t, const char *name)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT sum(value) FROM counter WHERE name = ?", 0);
    if (s)
        sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    int64_t value = trace_sql_row(s) ? trace_sql_amount(s, 0) : 0;
    sqlite3_finalize(s);
    return value;
}
