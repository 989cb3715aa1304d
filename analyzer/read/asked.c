/* asked.c - see asked.h. */
#include "asked.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "living.h"
#include "sql.h"

enum { TENSOR = 1, RAW = 3, SIZED = 4, KINDS }; /* tensor.kind */

/* FNV-1a; shapes of a program are few. */
static uint64_t number_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return text ? hash | 1 : 0;
}

/* Rank, the first extent and the last two, of AT, "[4, 2048, 8192]". */
static void extents_of(const char *at, struct asked *a)
{
    char *end;
    while (at && (at = strpbrk(at, "0123456789"))) {
        a->rank += a->rank < UINT8_MAX;
        a->inner[1] = a->inner[0];
        a->inner[0] = strtoull(at, &end, 10);
        a->outer = a->rank == 1 ? a->inner[0] : a->outer;
        at = end;
    }
}

static void take(struct trace *t, struct asked_table *a, const struct trace_texts *types,
                 struct sqlite3_stmt *s)
{
    static const char *const made_for[KINDS] = {NULL, "tensor", "storage", "raw"};
    int64_t id = sqlite3_column_int64(s, 0), kind = sqlite3_column_int64(s, 1);
    int64_t type = sqlite3_column_type(s, 2) == SQLITE_NULL ? -1 : sqlite3_column_int64(s, 2);
    if (id <= 0 || a->n >= UINT32_MAX)
        return;
    struct asked asked = {.id = id,
                          .bytes = (uint64_t)trace_sql_amount(s, 3),
                          .made_for = kind > 0 && kind < KINDS ? made_for[kind] : NULL,
                          .element_type = trace_name_of(types, type),
                          .extents = trace_sql_text(t, s, 4),
                          .type = type >= 0 && type < UINT8_MAX ? (uint8_t)(type + 1) : ELEMENT_UNKNOWN,
                          .raw = kind == RAW,
                          .sized = kind == SIZED};
    if (kind == TENSOR) {
        asked.shape = number_of(asked.extents);
        extents_of(asked.extents, &asked);
    }
    *PUSH(a->at, a->n) = asked;
}

int asked_read(struct trace *t, struct asked_table *out)
{
    *out = (struct asked_table){0};
    *PUSH(out->at, out->n) = (struct asked){0};
    struct trace_texts types = {0};
    if (trace_names(t, "SELECT id, name FROM element_type ORDER BY id", &types)) {
        free(types.at);
        return -1;
    }
    struct sqlite3_stmt *s =
        trace_sql(t, "SELECT id, kind, element_type, request, shape FROM tensor ORDER BY id", 0);
    while (trace_sql_row(s))
        take(t, out, &types, s);
    int result = trace_sql_done(t, s);
    free(types.at);
    if (result)
        asked_free(out);
    return result;
}

uint32_t asked_find(const struct asked_table *a, int64_t id)
{
    const struct asked *found = id > 0 ? FIND(id, a->at, a->n) : NULL;
    return found ? (uint32_t)(found - a->at) : 0;
}

struct asked_table asked_copy(const struct asked_table *a)
{
    struct asked_table copy = {xrealloc(NULL, (a->n + 1) * sizeof *a->at), a->n};
    memcpy(copy.at, a->at, a->n * sizeof *a->at);
    return copy;
}

void asked_free(struct asked_table *a)
{
    free(a->at);
    *a = (struct asked_table){0};
}

/* ---- what lived at a moment, by what it was asked for as ---- */

#define TENSORS                                                                                              \
    "SELECT made_for, element_type, shape, line, role, CASE WHEN made_for IS NULL THEN category END, "       \
    "sum(size_bytes), CASE WHEN count(request_bytes) = count(*) THEN sum(request_bytes) END, count(*) FROM "
#define TENSOR_GROUPS " GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 7 DESC, 1, 2, 3, 4, 5, 6"

int trace_tensors(struct trace *t, int64_t device, int64_t seq, struct trace_tensor **out, size_t *n)
{
    struct sqlite3_stmt *s =
        seq == UNKNOWN ? trace_sql(t, TENSORS "live_at_peak WHERE device = ?1" TENSOR_GROUPS, 1, device)
                       : trace_sql(t, TENSORS "live_at_oom WHERE device = ?1 AND oom_seq = ?2" TENSOR_GROUPS,
                                   2, device, seq);
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
