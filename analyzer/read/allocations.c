/*
 * allocations.c - allocations with their ends, what lived after any event, and what blocks are for
 * (stream.h).
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stream.h"
#include "living.h"

static bool has_roles(struct trace *t)
{
    return trace_sql_one(t,
                         "SELECT 1 WHERE EXISTS (SELECT 1 FROM access) OR EXISTS (SELECT 1 FROM "
                         "framework_role)",
                         0) == 1;
}

static void read_allocation(struct sqlite3_stmt *s, struct trace_allocation *a)
{
    int64_t *numbers[] = {&a->alloc_seq, &a->free_seq, &a->t_alloc, &a->t_free, &a->device,
                          &a->address,   &a->size,     &a->range,   &a->stack};
    const char **texts[] = {&a->op,   &a->space, &a->phase,    &a->layer,        &a->owner,
                            &a->line, &a->role,  &a->made_for, &a->element_type, &a->shape};
    for (int i = 0; i < 9; i++)
        *numbers[i] = trace_sql_int(s, i);
    a->managed = sqlite3_column_int(s, 9) != 0;
    for (int i = 0; i < 10; i++)
        *texts[i] = (const char *)sqlite3_column_text(s, 10 + i);
    a->request = trace_sql_int(s, 20);
}

/* ROLE: "role", or "NULL" where none can be known, which spares looking for it. */
#define ALLOCATION(role)                                                                                     \
    "SELECT alloc_seq, free_seq, t_alloc_ns, t_free_ns, device, address, size_bytes, range, stack, "         \
    "managed, op, space, phase, layer, owner, line, " role                                                   \
    ", made_for, element_type, shape, request_bytes FROM allocation"

int trace_each_allocation(struct trace *t, trace_allocation_visit *visit, void *context)
{
    struct sqlite3_stmt *s = trace_sql(t, has_roles(t) ? ALLOCATION("role") : ALLOCATION("NULL"), 0);
    bool more = true;
    while (more && trace_sql_row(s)) {
        struct trace_allocation a;
        read_allocation(s, &a);
        more = visit(context, &a);
    }
    return trace_sql_done(t, s);
}

/* The view live_at_peak says what lived at the peaks; this is the same of any event, ?1, and device, ?2. */
static const char live_sql[] =
    "WITH missing(alloc_seq) AS (SELECT g.mate FROM amend n CROSS JOIN ev g ON g.seq = n.seq WHERE n.op = 3 "
    "AND n.seq <= ?1 AND n.by_seq > ?1 AND g.mate > 0 AND g.op IN (2, 6, 51, 53) AND (g.op <> 6 OR g.size <> "
    "0)), "
    "row(alloc_seq, op, space, size, phase, stack) AS ("
    "SELECT o.alloc_seq, o.op, o.space, " X512(
        "o.size") ", o.phase, o.stack FROM open_allocation o WHERE +o.device = ?2 AND o.alloc_seq <= ?1 "
                  "AND o.alloc_seq NOT IN (SELECT alloc_seq FROM missing) AND (o.op = 20 OR o.space IN (1, "
                  "2, "
                  "9, 10, 12)) AND (NOT o.managed OR EXISTS (SELECT 1 FROM amend r WHERE r.seq = o.alloc_seq "
                  "AND r.op = 50 AND r.by_seq > ?1)) "
                  "UNION ALL SELECT a.seq, a.op, k.space, " X512(
                      "a.size") ", a.phase, a.stack FROM ev f CROSS JOIN ev a ON a.seq = f.mate AND a.device "
                                "= ?2 CROSS JOIN kind k ON k.id = a.kind WHERE f.seq > ?1 AND f.mate > 0 AND "
                                "f.mate <= ?1 AND f.op IN (2, 6, 21, 51, 52, 53) AND (f.op <> 6 OR f.size <> "
                                "0) AND a.seq NOT IN (SELECT alloc_seq FROM missing) AND (a.op = 20 OR "
                                "(k.space IN (1, 2, 9, 10, 12) AND NOT k.managed AND NOT EXISTS (SELECT 1 "
                                "FROM amend r WHERE r.seq = a.seq AND r.op = 50 AND r.by_seq <= ?1))) AND "
                                "f.seq NOT IN (SELECT seq FROM amend WHERE op = 3)), "
                                "named AS (SELECT size, stack, (SELECT name FROM phase WHERE id = phase) AS "
                                "phase, CASE WHEN op = 20 THEN 'framework block' WHEN space = 2 THEN 'direct "
                                "pool' WHEN space = 9 THEN 'direct array' WHEN space = 10 THEN 'direct "
                                "graph' WHEN op = 4 THEN 'direct physical' ELSE 'direct' END AS category, "
                                "coalesce((SELECT f.role FROM framework_says f WHERE f.alloc_seq = "
                                "row.alloc_seq), (SELECT b.role FROM access_role b WHERE b.alloc_seq = "
                                "row.alloc_seq), (SELECT i.role FROM life_role i WHERE i.alloc_seq = "
                                "row.alloc_seq)) AS role "
                                "FROM row) "
                                "SELECT ?2, sum(size), count(*), stack, phase, category, (SELECT text FROM "
                                "string WHERE id = (SELECT owner FROM stack WHERE id = named.stack)), "
                                "(SELECT "
                                "line FROM stack_text WHERE id = stack), (SELECT layer FROM stack_text WHERE "
                                "id = stack), (SELECT layer_type FROM stack_text WHERE id = stack), role "
                                "FROM "
                                "named GROUP BY phase, category, stack, role ORDER BY 2 DESC";

int trace_live_at(struct trace *t, int64_t device, int64_t seq, struct trace_live **out, size_t *n)
{
    return trace_live_rows(t, trace_sql(t, live_sql, 2, seq, device), out, n);
}

/* ---- roles ---- */

#define ROLES 32 /* more than there are: each text is kept once, however many blocks have it */

int trace_roles(struct trace *t, struct trace_role **out, size_t *n)
{
    const char *known[ROLES];
    size_t count = 0;
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT alloc_seq, role FROM block_role WHERE role IS NOT NULL ORDER BY alloc_seq", 0);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s)) {
        const char *text = (const char *)sqlite3_column_text(s, 1);
        size_t i = 0;
        while (i < count && strcmp(known[i], text) != 0)
            i++;
        if (i == count && count < ROLES)
            known[count++] = trace_sql_text(t, s, 1);
        if (i < count)
            *PUSH(*out, *n) = (struct trace_role){trace_sql_amount(s, 0), known[i]};
    }
    return trace_sql_done(t, s);
}

struct trace_role_finder {
    struct sqlite3_stmt *s, *rule;
};

struct trace_role_finder *trace_role_begin(struct trace *t)
{
    if (!has_roles(t))
        return NULL;
    struct trace_role_finder *roles = xrealloc(NULL, sizeof *roles);
    roles->s = trace_sql(t,
                         "SELECT coalesce((SELECT role FROM framework_says WHERE alloc_seq = ?1), (SELECT "
                         "role FROM access_role WHERE alloc_seq = ?1), (SELECT role FROM life_role "
                         "WHERE alloc_seq = ?1))",
                         0);
    roles->rule = trace_sql(t, "SELECT role FROM framework_role WHERE alloc_seq = ?1", 0);
    return roles;
}

int64_t trace_role_rule_of(struct trace_role_finder *roles, int64_t alloc_seq)
{
    if (!roles || !roles->rule)
        return 0;
    sqlite3_reset(roles->rule);
    sqlite3_bind_int64(roles->rule, 1, alloc_seq);
    return sqlite3_step(roles->rule) == SQLITE_ROW ? sqlite3_column_int64(roles->rule, 0) : 0;
}

const char *trace_role_of(struct trace_role_finder *roles, int64_t alloc_seq)
{
    if (!roles || !roles->s)
        return NULL;
    sqlite3_reset(roles->s);
    sqlite3_bind_int64(roles->s, 1, alloc_seq);
    return sqlite3_step(roles->s) == SQLITE_ROW ? (const char *)sqlite3_column_text(roles->s, 0) : NULL;
}

void trace_role_end(struct trace_role_finder *roles)
{
    if (roles) {
        sqlite3_finalize(roles->s);
        sqlite3_finalize(roles->rule);
    }
    free(roles);
}
