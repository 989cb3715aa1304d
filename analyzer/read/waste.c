/*
 * waste.c - roles by the rules that decided, and where blocks lay unused.  A long run has as many rows of
 * waste as blocks: lines and layers are looked up once for each call stack.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "curve.h"
#include "events.h"
#include "living.h"

/* ---- roles ---- */

int trace_rules(struct trace *t, int64_t device, int64_t seq, struct trace_rule **out, size_t *n)
{
#define RULES  "SELECT role, role_rule, sum(size_bytes), count(*) FROM "
#define GROUPS " AND role IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
    struct sqlite3_stmt *s =
        seq == UNKNOWN
            ? trace_sql(t, RULES "live_at_peak WHERE device = ?1" GROUPS, 1, device)
            : trace_sql(t, RULES "live_at_oom WHERE device = ?1 AND oom_seq = ?2" GROUPS, 2, device, seq);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = (struct trace_rule){trace_sql_text(t, s, 0), trace_sql_text(t, s, 1),
                                              trace_sql_amount(s, 2), trace_sql_amount(s, 3)};
    return trace_sql_done(t, s);
}

int trace_witnesses(struct trace *t, int64_t device, struct trace_witness **out, size_t *n)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT by_framework, by_access, size_bytes, allocations FROM role_agreement "
                  "WHERE device = ? ORDER BY by_framework IS NULL, by_framework, 3 DESC",
                  1, device);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = (struct trace_witness){trace_sql_text(t, s, 0), trace_sql_text(t, s, 1),
                                                 trace_sql_amount(s, 2), trace_sql_amount(s, 3)};
    return trace_sql_done(t, s);
}

/* ---- waste ---- */

static enum trace_waste_kind kind_of(const char *name)
{
    static const char *const names[] = {"never used", "early", "late free", "idle"};
    for (int i = 0; name && i < WASTE_KINDS; i++)
        if (!strcmp(name, names[i]))
            return (enum trace_waste_kind)i;
    return WASTE_KINDS;
}

/* There are few roles, and a row for each block. */
static const char *role_of(struct trace *t, struct sqlite3_stmt *s, int column, const char **known, size_t *n)
{
    const char *role = (const char *)sqlite3_column_text(s, column);
    for (size_t i = 0; role && i < *n; i++)
        if (!strcmp(role, known[i]))
            return known[i];
    if (!role || *n == 32)
        return NULL;
    return known[(*n)++] = trace_sql_text(t, s, column);
}

static int by_stack(const void *a, const void *b)
{
    const struct trace_waste *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (x->alloc_seq > y->alloc_seq) - (x->alloc_seq < y->alloc_seq);
}

/* Lines and layers of all rows, by their call stacks. */
static int name_stacks(struct trace *t, struct trace_waste *rows, size_t n)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT line, layer FROM stack_text WHERE id = ?", 0);
    if (n)
        qsort(rows, n, sizeof *rows, by_stack);
    for (size_t i = 0; s && i < n; i++) {
        if (i && rows[i].stack == rows[i - 1].stack) {
            rows[i].line = rows[i - 1].line;
            rows[i].layer = rows[i - 1].layer;
            continue;
        }
        sqlite3_bind_int64(s, 1, rows[i].stack);
        if (sqlite3_step(s) == SQLITE_ROW) {
            rows[i].line = trace_sql_text(t, s, 0);
            rows[i].layer = trace_sql_text(t, s, 1);
        }
        sqlite3_reset(s);
    }
    return trace_sql_done(t, s);
}

bool trace_knows_sure(struct trace *t)
{
    return trace_sql_one(t,
                         "SELECT EXISTS(SELECT 1 FROM access WHERE sure IS NOT NULL) OR NOT EXISTS(SELECT "
                         "1 FROM access WHERE uses > 0)",
                         0) == 1;
}

int trace_waste(struct trace *t, int64_t device, bool at_most, struct trace_waste **out, size_t *n)
{
    static const char seen
        [] = "SELECT kind, alloc_seq, free_seq, size_bytes, from_ns, to_ns, stack, role, "
             "from_ns, to_ns FROM waste WHERE device = ?",
    most[] =
        "SELECT kind, alloc_seq, free_seq, size_bytes, from_ns, to_ns, stack, CASE (SELECT op FROM ev WHERE "
        "seq = w.alloc_seq) WHEN 1 THEN (SELECT role FROM access_role r WHERE r.alloc_seq = w.alloc_seq) "
        "END, "
        "all_from_ns, all_to_ns FROM waste_at_most w WHERE device = ?"; /* a workspace is asked of the driver
                                                                         */
    struct sqlite3_stmt *s = trace_sql(t, at_most ? most : seen, 1, device);
    const char *roles[32];
    size_t role_count = 0;
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s)) {
        struct trace_waste w = {.kind = kind_of((const char *)sqlite3_column_text(s, 0)),
                                .alloc_seq = trace_sql_int(s, 1),
                                .free_seq = trace_sql_int(s, 2),
                                .size = trace_sql_amount(s, 3),
                                .from = trace_sql_amount(s, 4),
                                .to = trace_sql_amount(s, 5),
                                .stack = trace_sql_amount(s, 6),
                                .role = role_of(t, s, 7, roles, &role_count),
                                .all_from = trace_sql_amount(s, 8),
                                .all_to = sqlite3_column_type(s, 9) == SQLITE_NULL ? INT64_MIN
                                                                                   : trace_sql_amount(s, 9)};
        if (w.kind < WASTE_KINDS && w.size > 0)
            *PUSH(*out, *n) = w;
    }
    int result = trace_sql_done(t, s);
    return result ? result : name_stacks(t, *out, *n);
}

int trace_followed(struct trace *t, int64_t device, struct trace_followed *out)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT sum(l.size_bytes), sum(CASE WHEN x.alloc_seq IS NOT NULL THEN "
                                       "l.size_bytes END), sum(CASE WHEN k.kinds & 896 "
                                       "THEN l.size_bytes END) FROM live_at_peak l LEFT JOIN access x ON "
                                       "x.alloc_seq = l.alloc_seq LEFT JOIN access_kind "
                                       "k ON k.id = x.kind WHERE l.device = ?",
                                       1, device);
    *out = (struct trace_followed){0};
    if (trace_sql_row(s))
        *out =
            (struct trace_followed){trace_sql_amount(s, 0), trace_sql_amount(s, 1), trace_sql_amount(s, 2)};
    return trace_sql_done(t, s);
}

struct totals {
    struct trace_total *at;
    size_t n;
};

static bool take_total(void *totals, const struct trace_row *row)
{
    struct totals *all = totals;
    *PUSH(all->at, all->n) = (struct trace_total){row->seq, row->t, row->framework + row->direct};
    return true;
}

int trace_totals(struct trace *t, int64_t device, struct trace_total **out, size_t *n)
{
    const struct trace_part part = {device, 0, INT64_MAX, EVENTS_ALL};
    struct totals all = {0};
    int result = trace_rows(t, &part, take_total, &all);
    *out = all.at;
    *n = all.n;
    return result;
}
