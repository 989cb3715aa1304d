/*
 * rows.c - the events of a batch, and its blocks' accesses, as tables that SQLite reads where they lie.
 *
 *      rows (an array) <--callbacks-- table `rows` --INSERT INTO ev SELECT * FROM rows--> ev
 *      values (likewise) <----------- table `accesses` ----------------------------------> access
 *
 * One statement inserts a whole run of rows from a virtual table (https://sqlite.org/vtab.html).  An INSERT
 * with bound values per row takes half as long again.  Records made by hand, which SQLite only copied, took
 * half as long, but needed SQLite's file format and a schema changed behind its back.
 */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SEQ, SIZE = 7, COLUMNS = 14 };

int64_t vs_x512(uint64_t bytes)
{
    return bytes % 512 ? -(int64_t)bytes : (int64_t)(bytes / 512);
}

/* Unknown figures are NULL. */
static bool size_unknown(const struct vs_row *row)
{
    return row->size == VS_BYTES_UNKNOWN;
}

/* Allocators reserve multiples of 2 MiB.  What libraries and programs ask for is direct, and often no
 * multiple of anything: then the rest is one. */
static int64_t x2m(uint64_t bytes, uint64_t direct)
{
    const uint64_t unit = 2u << 20;
    if (bytes % unit == 0)
        return (int64_t)(bytes / unit);
    if (bytes >= direct && (bytes - direct) % unit == 0)
        return -(int64_t)(2 * ((bytes - direct) / unit)) - 1;
    return -(int64_t)(2 * bytes) - 2;
}

uint64_t vs_from_x512(int64_t value)
{
    return value < 0 ? (uint64_t)-value : (uint64_t)value * 512;
}

/* ---- the table, and one walk through it ---- */

struct table {
    sqlite3_vtab base;
    const struct vs_store *store;
    bool accesses;
};

struct cursor {
    sqlite3_vtab_cursor base;
    const char *at, *first, *end;
    size_t item; /* its bytes; the first eight are its number */
};

static int connect_table(sqlite3 *db, void *store, int argc, const char *const *argv, sqlite3_vtab **out,
                         char **why)
{
    bool accesses = strcmp(argv[0], "accesses") == 0;
    int rc = sqlite3_declare_vtab(
        db, accesses ? "CREATE TABLE accesses(alloc_seq INT,kind INT,first INT,span INT,uses INT,born_step "
                       "INT,steps,gap INT,gap_left INT,sure INT)"
                     : "CREATE TABLE rows(seq INT,t INT,op INT,device INT,phase INT,kind INT,address INT,"
                       "size INT,range INT,stack INT,mate INT,framework INT,direct INT,reserved INT)");
    struct table *table = rc == SQLITE_OK ? sqlite3_malloc(sizeof *table) : NULL;
    if (table == NULL)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *table = (struct table){.store = store, .accesses = accesses};
    *out = &table->base;
    return SQLITE_OK;
}

static int disconnect_table(sqlite3_vtab *table)
{
    sqlite3_free(table);
    return SQLITE_OK;
}

/* The table can only be scanned from front to back. */
static int choose_index(sqlite3_vtab *table, sqlite3_index_info *info)
{
    return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *table, sqlite3_vtab_cursor **out)
{
    struct cursor *c = sqlite3_malloc(sizeof *c);
    if (c == NULL)
        return SQLITE_NOMEM;
    *c = (struct cursor){.at = NULL};
    *out = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *cursor)
{
    sqlite3_free(cursor);
    return SQLITE_OK;
}

static int to_the_first(sqlite3_vtab_cursor *cursor, int index, const char *name, int argc,
                        sqlite3_value **argv)
{
    struct cursor *c = (struct cursor *)cursor;
    const struct vs_store *s = ((const struct table *)cursor->pVtab)->store;
    bool accesses = ((const struct table *)cursor->pVtab)->accesses;
    size_t n = accesses ? s->accesses.n : s->run_length;
    c->item = accesses ? sizeof *s->accesses.at : sizeof *s->run;
    c->at = c->first = accesses ? (const char *)s->accesses.at : (const char *)s->run;
    c->end = c->at + n * c->item;
    return SQLITE_OK;
}

static int to_the_next(sqlite3_vtab_cursor *cursor)
{
    struct cursor *c = (struct cursor *)cursor;
    c->at += c->item;
    return SQLITE_OK;
}

static int is_behind_the_last(sqlite3_vtab_cursor *cursor)
{
    const struct cursor *c = (const struct cursor *)cursor;
    return c->at == c->end;
}

/* Only the first row of a run gives its rowid.  SQLite numbers the others, because it appends faster than it
 * looks a given number up. */
static int64_t value_of(const struct vs_row *row, int column)
{
    switch (column) {
    case SEQ:
        return (int64_t)row->seq;
    case 1:
        return row->t;
    case 2:
        return row->op;
    case 3:
        return row->device;
    case 4:
        return row->phase;
    case 5:
        return row->kind;
    case 6:
        return vs_x512(row->address);
    case SIZE:
        return vs_x512(row->size);
    case 8:
        return row->range;
    case 9:
        return row->stack;
    case 10:
        return (int64_t)row->mate;
    case 11:
        return vs_x512(row->framework);
    case 12:
        return vs_x512(row->direct);
    default:
        return x2m(row->reserved, row->direct);
    }
}

/* A column without a result is NULL. */
static int give_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int column)
{
    const struct cursor *c = (const struct cursor *)cursor;
    const struct vs_row *row = (const struct vs_row *)c->at;
    if ((column != SEQ || c->at == c->first) && (column != SIZE || !size_unknown(row)))
        sqlite3_result_int64(out, value_of(row, column));
    return SQLITE_OK;
}

static int give_number(sqlite3_vtab_cursor *cursor, sqlite3_int64 *number)
{
    memcpy(number, ((const struct cursor *)cursor)->at, sizeof *number);
    return SQLITE_OK;
}

/* The numbers as JSON: '[0,7,null,8]'. */
static void give_list(sqlite3_context *out, const int64_t *number)
{
    char text[VS_ACCESS_NUMBERS * 21 + 2];
    int at = 0;
    for (int i = 0; i < VS_ACCESS_NUMBERS; i++)
        at += number[i] == VS_ACCESS_NONE
                  ? snprintf(text + at, sizeof text - (size_t)at, "%cnull", i ? ',' : '[')
                  : snprintf(text + at, sizeof text - (size_t)at, "%c%" PRId64, i ? ',' : '[', number[i]);
    text[at++] = ']';
    sqlite3_result_text(out, text, at, SQLITE_TRANSIENT);
}

static int give_access_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int column)
{
    const struct vs_access_values *a = (const struct vs_access_values *)((const struct cursor *)cursor)->at;
    if (column == VS_ACCESS_STEPS && a->lists)
        give_list(out, a->number);
    else if (a->value[column] != VS_ACCESS_NONE)
        sqlite3_result_int64(out, a->value[column]);
    return SQLITE_OK;
}

/* Without xCreate the tables always exist. */
#define MODULE(column)                                                                                       \
    {                                                                                                        \
        .iVersion = 1, .xConnect = connect_table, .xDisconnect = disconnect_table,                           \
        .xBestIndex = choose_index, .xOpen = open_cursor, .xClose = close_cursor, .xFilter = to_the_first,   \
        .xNext = to_the_next, .xEof = is_behind_the_last, .xColumn = column, .xRowid = give_number           \
    }

int vs_rows_open(struct vs_store *s)
{
    static const sqlite3_module rows = MODULE(give_column), accesses = MODULE(give_access_column);
    int rc = sqlite3_create_module(s->db, "rows", &rows, s);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_module(s->db, "accesses", &accesses, s);
    return vs_sqlite_errno(s, rc);
}

/* ---- writing ---- */

static size_t run_length(const struct vs_row *row, size_t n)
{
    size_t length = 1;
    while (length < n && row[length].seq == row[length - 1].seq + 1)
        length++;
    return length;
}

int vs_rows_write(struct vs_store *s, const struct vs_row *row, size_t n)
{
    for (size_t done = 0; done < n; done += s->run_length) {
        s->run = row + done;
        s->run_length = run_length(s->run, n - done);
        int rc = vs_sql_run(s, VS_SQL_EV, "");
        if (rc < 0)
            return rc;
        if ((uint64_t)sqlite3_last_insert_rowid(s->db) != s->run[s->run_length - 1].seq)
            return -EIO; /* another program wrote into ev, so the numbers would be wrong */
    }
    return 0;
}
