/*
 * deltas.c - what each event changed of a device's allocated memory, and what the blocks are for.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "trace/event.h"
#include "sql.h"
#include "curve.h"
#include "living.h"

int trace_deltas(struct trace *t, int64_t device, trace_delta_visit *visit, void *context)
{
    struct sqlite3_stmt *s =
        trace_sql(t,
                  "SELECT seq, t, op, " X512("size") ", mate, " X512("framework") ", " X512(
                      "direct") ", phase FROM ev WHERE device = ? AND (op < 30 OR op >= "
                                "50) ORDER BY seq",
                  1, device);
    int code = SQLITE_ERROR;
    bool more = true;
    while (more && s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const struct trace_delta c = {.seq = trace_sql_int(s, 0),
                                      .t = trace_sql_amount(s, 1),
                                      .op = sqlite3_column_int(s, 2),
                                      .size = trace_sql_amount(s, 3),
                                      .mate = trace_sql_amount(s, 4),
                                      .allocated = trace_sql_amount(s, 5) + trace_sql_amount(s, 6),
                                      .phase = sqlite3_column_int(s, 7)};
        more = visit(context, &c);
    }
    return trace_sql_done(t, s, more ? code : SQLITE_DONE);
}

bool trace_has_roles(struct trace *t)
{
    return trace_sql_one(t, "SELECT EXISTS (SELECT 1 FROM access)") > 0;
}

#define ROLES 16 /* more than there are: each text is kept once, however many blocks have it */

static const char *role_of(struct trace *t, struct sqlite3_stmt *s, const char **known)
{
    const char *text = (const char *)sqlite3_column_text(s, 1);
    size_t i = 0;
    if (!text)
        return NULL;
    while (i < ROLES && known[i] && strcmp(known[i], text) != 0)
        i++;
    if (i < ROLES && !known[i])
        known[i] = trace_sql_text(t, s, 1);
    return i < ROLES ? known[i] : NULL;
}

int trace_roles(struct trace *t, struct trace_role **out, size_t *n)
{
    const char *known[ROLES] = {NULL};
    *out = NULL;
    *n = 0;
    struct sqlite3_stmt *s = trace_sql(t, "SELECT alloc_seq, role FROM block_role ORDER BY alloc_seq", 0);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW)
        *PUSH(*out, *n) = (struct trace_role){trace_sql_int(s, 0), role_of(t, s, known)};
    return trace_sql_done(t, s, code);
}
