/*
 * tensors.c - what blocks that lived at a moment were asked for as, by element types and shapes.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "living.h"

#define COLUMNS                                                                                              \
    "SELECT made_for, element_type, shape, line, role, CASE WHEN made_for IS NULL THEN category END, "       \
    "sum(size_bytes), CASE WHEN count(request_bytes) = count(*) THEN sum(request_bytes) END, count(*) FROM "
#define GROUPS " GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 7 DESC, 1, 2, 3, 4, 5, 6"

int trace_tensors(struct trace *t, int64_t device, int64_t seq, struct trace_tensor **out, size_t *n)
{
    struct sqlite3_stmt *s =
        seq == UNKNOWN
            ? trace_sql(t, COLUMNS "live_at_peak WHERE device = ?1" GROUPS, 1, device)
            : trace_sql(t, COLUMNS "live_at_oom WHERE device = ?1 AND oom_seq = ?2" GROUPS, 2, device, seq);
    *out = NULL;
    *n = 0;
    while (trace_sql_row(s))
        *PUSH(*out, *n) = (struct trace_tensor){.made_for = trace_sql_text(t, s, 0),
                                                .element_type = trace_sql_text(t, s, 1),
                                                .shape = trace_sql_text(t, s, 2),
                                                .line = trace_sql_text(t, s, 3),
                                                .role = trace_sql_text(t, s, 4),
                                                .category = trace_sql_text(t, s, 5),
                                                .size = trace_sql_amount(s, 6),
                                                .request = trace_sql_int(s, 7),
                                                .count = trace_sql_amount(s, 8)};
    return trace_sql_done(t, s);
}

/* Kind 4 is of an imported trace, which has requests and no tensors. */
bool trace_knows_tensors(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t, "SELECT 1 FROM tensor WHERE kind <> 4 LIMIT 1", 0);
    bool knows = trace_sql_row(s);
    sqlite3_finalize(s);
    return knows;
}

char *trace_tensor_words(const char *made_for, const char *element_type, const char *shape)
{
    if (!made_for)
        return NULL;
    if (!strcmp(made_for, "raw"))
        return xstrdup("raw bytes");
    if (!strcmp(made_for, "storage"))
        return xstrdup("resized storage");
    return xformat("%s %s", element_type ? element_type : "unknown type", shape ? shape : "of unknown shape");
}
