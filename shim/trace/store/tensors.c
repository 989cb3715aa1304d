/*
 * tensors.c - writes what a framework's blocks were asked for as: rows of `tensor` and the names of element
 * types.
 *
 * Shapes repeat, so the journal has each only once, and a row is written when the first block refers to it.
 * Rows of ev refer to it by their kind, which costs next to nothing: most blocks of a step are of a few
 * hundred kinds.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdio.h>

#define SHAPE_TEXT (VS_TENSOR_DIMS_MAX * 22 + 3)

int vs_tensors_static(struct vs_store *s)
{
    static const struct {
        const char *name;
        int id, bytes;
    } types[] = {
#define X(n, text, size) {text, n, size},
        VS_ELEMENT_TYPES(X)
#undef X
    };
    char sql[128];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof types / sizeof *types; i++) {
        snprintf(sql, sizeof sql, "INSERT OR IGNORE INTO element_type VALUES(%d,'%s',%d)", types[i].id,
                 types[i].name, types[i].bytes);
        rc = vs_store_exec(s, sql);
    }
    return rc;
}

/* As a list of JSON, which is how Python prints it too. */
static const char *shape_text(const struct vs_tensor *t, char *text, size_t room)
{
    uint32_t dims = vs_tensor_dims_of(&t->row);
    size_t n = 0;
    if (dims == VS_TENSOR_NO_SHAPE)
        return NULL;
    text[n++] = '[';
    for (uint32_t i = 0; i < dims && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, i ? ", " : "", t->size[i]);
    if (n + 1 < room)
        snprintf(text + n, room - n, "]");
    return text;
}

int vs_store_tensor(struct vs_store *s, uint32_t id)
{
    struct vs_tensor t;
    char text[SHAPE_TEXT];
    if (!id || vs_bits_has(&s->tensors, id) || !vs_journal_get_tensor(s->journal, id, &t))
        return 0;
    uint32_t type = vs_tensor_type_of(&t.row);
    int rc =
        vs_sql_run(s, VS_SQL_TENSOR, "iinnt", (int64_t)id, (int64_t)vs_tensor_kind_of(&t.row),
                   type == VS_TENSOR_NO_TYPE ? (int64_t)-1 : (int64_t)type,
                   t.row.request ? (int64_t)t.row.request : (int64_t)-1, shape_text(&t, text, sizeof text));
    if (rc == 0)
        vs_bits_add(&s->tensors, id);
    return rc;
}
