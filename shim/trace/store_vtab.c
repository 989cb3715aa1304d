/*
 * store_vtab.c - the batch as a table: INSERT INTO ev SELECT * FROM vs_rows reads the rows where they lie.
 *
 * No bind and no step per row: measured as the largest single gain of bulk insertion.  Column 0 is NULL
 * wherever the row's number is the one that SQLite would give by itself, which is faster than telling it.
 */
#include "store_internal.h"

#include <stdlib.h>

struct rows_table {
    sqlite3_vtab base;
    struct vs_store *store;
};

struct rows_cursor {
    sqlite3_vtab_cursor base;
    const struct vs_row *row, *end;
    const struct vs_row *first;
    uint64_t before; /* the number before the first row's in ev */
};

int64_t vs_x512(uint64_t bytes)
{
    return bytes % 512 ? -(int64_t)bytes : (int64_t)(bytes / 512);
}

int64_t vs_x2m(uint64_t bytes)
{
    return bytes % (2u << 20) ? -(int64_t)bytes : (int64_t)(bytes / (2u << 20));
}

uint64_t vs_from_x512(int64_t value)
{
    return value < 0 ? (uint64_t)-value : (uint64_t)value * 512;
}

static int rows_connect(sqlite3 *db, void *context, int argc, const char *const *argv, sqlite3_vtab **out,
                        char **error)
{
    (void)argc;
    (void)argv;
    (void)error;
    struct rows_table *t = sqlite3_malloc(sizeof *t);
    if (!t)
        return SQLITE_NOMEM;
    *t = (struct rows_table){.store = context};
    *out = &t->base;
    return sqlite3_declare_vtab(db, "CREATE TABLE x(seq,t,op,device,phase,kind,address,size,range,stack,mate,"
                                    "framework,direct,reserved)");
}

static int rows_disconnect(sqlite3_vtab *t)
{
    sqlite3_free(t);
    return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *t, sqlite3_index_info *info)
{
    (void)t;
    info->estimatedCost = 1e6;
    return SQLITE_OK;
}

static int rows_open(sqlite3_vtab *t, sqlite3_vtab_cursor **out)
{
    (void)t;
    struct rows_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct rows_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *c)
{
    sqlite3_free(c);
    return SQLITE_OK;
}

static int rows_filter(sqlite3_vtab_cursor *base, int plan, const char *name, int argc, sqlite3_value **argv)
{
    (void)plan;
    (void)name;
    (void)argc;
    (void)argv;
    struct rows_cursor *c = (struct rows_cursor *)base;
    const struct vs_store *s = ((struct rows_table *)base->pVtab)->store;
    c->first = c->row = s->rows;
    c->end = s->rows + s->n_rows;
    c->before = s->last_ev;
    return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *base)
{
    ((struct rows_cursor *)base)->row++;
    return SQLITE_OK;
}

static int rows_eof(sqlite3_vtab_cursor *base)
{
    const struct rows_cursor *c = (struct rows_cursor *)base;
    return c->row >= c->end;
}

static void give_seq(sqlite3_context *out, const struct rows_cursor *c)
{
    uint64_t before = c->row > c->first ? c->row[-1].seq : c->before;
    if (c->row->seq != before + 1)
        sqlite3_result_int64(out, (int64_t)c->row->seq);
}

static int rows_column(sqlite3_vtab_cursor *base, sqlite3_context *out, int column)
{
    const struct rows_cursor *c = (struct rows_cursor *)base;
    const struct vs_row *r = c->row;
    switch (column) {
    case 0:
        give_seq(out, c);
        break;
    case 1:
        sqlite3_result_int64(out, r->t);
        break;
    case 2:
        sqlite3_result_int(out, r->op);
        break;
    case 3:
        sqlite3_result_int(out, r->device);
        break;
    case 4:
        sqlite3_result_int64(out, r->phase);
        break;
    case 5:
        sqlite3_result_int64(out, r->kind);
        break;
    case 6:
        sqlite3_result_int64(out, vs_x512(r->address));
        break;
    case 7:
        sqlite3_result_int64(out, vs_x512(r->size));
        break;
    case 8:
        sqlite3_result_int64(out, r->range);
        break;
    case 9:
        sqlite3_result_int64(out, r->stack);
        break;
    case 10:
        sqlite3_result_int64(out, (int64_t)r->mate);
        break;
    case 11:
        sqlite3_result_int64(out, vs_x512(r->framework));
        break;
    case 12:
        sqlite3_result_int64(out, vs_x512(r->direct));
        break;
    default:
        sqlite3_result_int64(out, vs_x2m(r->reserved));
    }
    return SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct rows_cursor *)base)->row->seq;
    return SQLITE_OK;
}

int vs_vtab_register(struct vs_store *s)
{
    static const sqlite3_module module = {
        .xConnect = rows_connect, /* no xCreate: the table is there by its name alone */
        .xBestIndex = rows_best_index,
        .xDisconnect = rows_disconnect,
        .xOpen = rows_open,
        .xClose = rows_close,
        .xFilter = rows_filter,
        .xNext = rows_next,
        .xEof = rows_eof,
        .xColumn = rows_column,
        .xRowid = rows_rowid,
    };
    return sqlite3_create_module(s->db, "vs_rows", &module, s);
}
