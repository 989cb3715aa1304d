/* asked.c - see asked.h. */
#include "asked.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

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
