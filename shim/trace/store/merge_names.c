/*
 * merge_names.c - the rows of string, module, frame, stack and tensor of several files, each content once.
 *
 * A row of the other file gets the id of the same row that is there, or the next one.  Tables come in the
 * order in which they refer to each other, and stacks in the order of their ids, in which a caller stands
 * before what it called.  A module without a build ID is the same where it also lay at the same address; with
 * one, wherever it lay.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MOST 16
#define STAYS        VS_NAMES

struct column {
    const char *name;
    enum vs_names of; /* whose id it is; STAYS: nobody's */
};

static const struct table {
    const char *name;
    struct column columns[COLUMNS_MOST]; /* without the id */
} tables[VS_NAMES] = {
    [VS_NAMES_STRING] = {"string", {{"text", STAYS}}},
    [VS_NAMES_MODULE] = {"module", {{"path", STAYS}, {"build_id", STAYS}, {"size", STAYS}, {"base", STAYS}}},
    [VS_NAMES_FRAME] = {"frame",
                        {{"kind", STAYS},
                         {"module", VS_NAMES_MODULE},
                         {"offset", STAYS},
                         {"function", STAYS},
                         {"file", STAYS},
                         {"line", STAYS}}},
    [VS_NAMES_STACK] = {"stack",
                        {{"parent", VS_NAMES_STACK},
                         {"frame", VS_NAMES_FRAME},
                         {"owner", VS_NAMES_STRING},
                         {"line", VS_NAMES_FRAME},
                         {"forward", STAYS},
                         {"node", VS_NAMES_FRAME},
                         {"layer", VS_NAMES_FRAME},
                         {"again", STAYS},
                         {"caller", VS_NAMES_FRAME}}},
    [VS_NAMES_TENSOR] = {"tensor",
                         {{"kind", STAYS}, {"element_type", STAYS}, {"request", STAYS}, {"shape", STAYS}}},
};
enum { MODULE_BUILD_ID = 2, MODULE_BASE = 4 }; /* columns of a statement, behind the id */

bool vs_merge_names_has(const char *table)
{
    for (int i = 0; i < VS_NAMES; i++)
        if (!strcmp(tables[i].name, table))
            return true;
    return false;
}

/* ---- ids ---- */

static int64_t moved_id(const struct vs_merge_names *n, enum vs_names kind, int64_t id)
{
    const struct vs_moved_id *m = n->moved[kind];
    size_t low = 0, high = n->moved_count[kind];
    if (id <= 0)
        return id;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m[middle].was < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n->moved_count[kind] && m[low].was == id ? m[low].is : 0;
}

static void moved_name(sqlite3_context *c, int argc, sqlite3_value **values)
{
    int kind = sqlite3_value_int(values[0]);
    (void)argc;
    if (sqlite3_value_type(values[1]) != SQLITE_INTEGER || kind < 0 || kind >= VS_NAMES)
        sqlite3_result_value(c, values[1]);
    else
        sqlite3_result_int64(
            c, moved_id(sqlite3_user_data(c), (enum vs_names)kind, sqlite3_value_int64(values[1])));
}

static int add_moved(struct vs_merge_names *n, enum vs_names kind, int64_t was, int64_t is)
{
    size_t count = n->moved_count[kind];
    if ((count & (count - 1)) == 0) { /* room is a power of two */
        void *larger = realloc(n->moved[kind], (count ? 2 * count : 1) * sizeof **n->moved);
        if (!larger)
            return -ENOMEM;
        n->moved[kind] = larger;
    }
    n->moved[kind][n->moved_count[kind]++] = (struct vs_moved_id){was, is};
    return 0;
}

/* ---- rows ---- */

static int column_count(enum vs_names kind)
{
    int n = 0;
    while (n < COLUMNS_MOST && tables[kind].columns[n].name)
        n++;
    return n;
}

/* "SELECT id, text FROM main.string ORDER BY id", or the statement that writes such a row. */
static sqlite3_stmt *prepare(struct vs_merge_names *n, enum vs_names kind, const char *from)
{
    sqlite3_stmt *s = NULL;
    sqlite3_str *columns = sqlite3_str_new(n->db), *values = sqlite3_str_new(n->db);
    for (int i = 0; i < column_count(kind); i++) {
        sqlite3_str_appendf(columns, ", %s", tables[kind].columns[i].name);
        sqlite3_str_appendall(values, ", ?");
    }
    char *names = sqlite3_str_finish(columns), *marks = sqlite3_str_finish(values);
    char *sql =
        from ? sqlite3_mprintf("SELECT id%s FROM %s.%s ORDER BY id", names, from, tables[kind].name)
             : sqlite3_mprintf("INSERT INTO main.%s(id%s) VALUES(?%s)", tables[kind].name, names, marks);
    if (names && marks && sql)
        sqlite3_prepare_v2(n->db, sql, -1, &s, NULL);
    sqlite3_free(names);
    sqlite3_free(marks);
    sqlite3_free(sql);
    return s;
}

struct key { /* of the row that is read */
    char *bytes;
    size_t size, room;
    bool failed;
};

static void put(struct key *k, const void *bytes, size_t size)
{
    if (k->size + size > k->room) {
        size_t room = 2 * (k->size + size) + 256;
        char *larger = realloc(k->bytes, room);
        k->failed = k->failed || !larger;
        if (!larger)
            return;
        k->bytes = larger;
        k->room = room;
    }
    if (size)
        memcpy(k->bytes + k->size, bytes, size);
    k->size += size;
}

/* Whether the column says nothing of which row it is: where a module lay that has a build ID. */
static bool is_place(enum vs_names kind, sqlite3_stmt *row, int column)
{
    return kind == VS_NAMES_MODULE && column == MODULE_BASE &&
           sqlite3_column_type(row, MODULE_BUILD_ID) == SQLITE_TEXT &&
           sqlite3_column_bytes(row, MODULE_BUILD_ID) > 0;
}

/* Of the row that ROW has read; ids of the OTHER file become those of main. */
static void make_key(const struct vs_merge_names *n, enum vs_names kind, sqlite3_stmt *row, bool other,
                     struct key *k)
{
    k->size = 0;
    for (int i = 1; i <= column_count(kind); i++) {
        enum vs_names of = tables[kind].columns[i - 1].of;
        char type = (char)sqlite3_column_type(row, i);
        if (is_place(kind, row, i))
            continue;
        put(k, &type, 1);
        if (type == SQLITE_INTEGER) {
            int64_t value = sqlite3_column_int64(row, i);
            value = other && of != STAYS ? moved_id(n, of, value) : value;
            put(k, &value, sizeof value);
        } else if (type != SQLITE_NULL) { /* bytes, as they are; of a number with a point its text */
            const void *bytes = sqlite3_column_blob(row, i);
            size_t size = (size_t)sqlite3_column_bytes(row, i);
            put(k, &size, sizeof size);
            put(k, bytes, bytes ? size : 0);
        }
    }
}

static int insert(const struct vs_merge_names *n, enum vs_names kind, sqlite3_stmt *row, sqlite3_stmt *into,
                  int64_t id)
{
    sqlite3_reset(into);
    sqlite3_bind_int64(into, 1, id);
    for (int i = 1; i <= column_count(kind); i++) {
        enum vs_names of = tables[kind].columns[i - 1].of;
        if (of != STAYS && sqlite3_column_type(row, i) == SQLITE_INTEGER)
            sqlite3_bind_int64(into, i + 1, moved_id(n, of, sqlite3_column_int64(row, i)));
        else
            sqlite3_bind_value(into, i + 1, sqlite3_column_value(row, i));
    }
    return sqlite3_step(into) == SQLITE_DONE ? 0 : -1;
}

/* The row of the other file: found, or written behind those that are there. */
static int take(struct vs_merge_names *n, enum vs_names kind, sqlite3_stmt *row, sqlite3_stmt *into,
                struct key *k)
{
    make_key(n, kind, row, true, k);
    if (k->failed)
        return -1;
    int64_t id = vs_intern_find(&n->rows[kind], k->bytes, k->size);
    if (!id) {
        id = ++n->last[kind];
        if (insert(n, kind, row, into, id) || vs_intern_add(&n->rows[kind], k->bytes, k->size, id))
            return -1;
    }
    return add_moved(n, kind, sqlite3_column_int64(row, 0), id);
}

/* A row of main is known by its first id. */
static int learn(struct vs_merge_names *n, enum vs_names kind, sqlite3_stmt *row, struct key *k)
{
    int64_t id = sqlite3_column_int64(row, 0);
    n->last[kind] = id > n->last[kind] ? id : n->last[kind];
    make_key(n, kind, row, false, k);
    if (k->failed)
        return -1;
    return id <= 0 || vs_intern_find(&n->rows[kind], k->bytes, k->size)
               ? 0
               : vs_intern_add(&n->rows[kind], k->bytes, k->size, id);
}

static int each_row(struct vs_merge_names *n, enum vs_names kind, const char *from, sqlite3_stmt *into)
{
    struct key k = {0};
    sqlite3_stmt *row = prepare(n, kind, from);
    int rc = row ? 0 : -1, code = SQLITE_DONE;
    while (rc == 0 && (code = sqlite3_step(row)) == SQLITE_ROW)
        rc = into ? take(n, kind, row, into, &k) : learn(n, kind, row, &k);
    sqlite3_finalize(row);
    free(k.bytes);
    return rc == 0 && code == SQLITE_DONE ? 0 : -1;
}

/* ---- all ---- */

int vs_merge_names_open(struct vs_merge_names *n, sqlite3 *db)
{
    *n = (struct vs_merge_names){.db = db};
    int rc = sqlite3_create_function(db, "moved_name", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, n, moved_name,
                                     NULL, NULL) == SQLITE_OK
                 ? 0
                 : -1;
    for (int i = 0; i < VS_NAMES && rc == 0; i++)
        rc = each_row(n, (enum vs_names)i, "main", NULL);
    return rc;
}

int vs_merge_names_copy(struct vs_merge_names *n)
{
    int rc = 0;
    for (int i = 0; i < VS_NAMES; i++)
        n->moved_count[i] = 0;
    for (int i = 0; i < VS_NAMES && rc == 0; i++) {
        sqlite3_stmt *into = prepare(n, (enum vs_names)i, NULL);
        rc = into ? each_row(n, (enum vs_names)i, "other", into) : -1;
        sqlite3_finalize(into);
    }
    return rc;
}

void vs_merge_names_close(struct vs_merge_names *n)
{
    for (int i = 0; i < VS_NAMES; i++) {
        vs_intern_free(&n->rows[i]);
        free(n->moved[i]);
        n->moved[i] = NULL;
    }
}
