/*
 * db_kit.h - a directory for a group of tests (it stays where KEEP is set), and questions to databases in it.
 *
 *      ask(path, sql)              the first column of the first row
 *      equal(one, other, tables)   every row of each table is in both
 */
#ifndef TESTS_UNIT_TRACE_DB_KIT_H
#define TESTS_UNIT_TRACE_DB_KIT_H

#include <inttypes.h>
#include <sqlite3.h>

#include "unit/test.h"

static char dir[64];

static inline int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs_db.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return getenv("KEEP") ? 0 : system(command);
}

/* ---- databases ---- */

static inline sqlite3 *look(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

static inline void change(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

/* The second one by a name of its own. */
static inline sqlite3 *look_both(const char *path, const char *other, const char *name)
{
    sqlite3 *db = look(path);
    char sql[512];
    snprintf(sql, sizeof sql, "ATTACH '%s' AS %s", other, name);
    change(db, sql);
    return db;
}

static inline sqlite3_stmt *query(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    return q;
}

/* The first column of the first row. */
static inline int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *q = query(db, sql);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return value;
}

/* The same, and DB is closed. */
static inline int64_t ask_of(sqlite3 *db, const char *sql)
{
    int64_t value = number(db, sql);
    sqlite3_close(db);
    return value;
}

static inline int64_t ask(const char *path, const char *sql)
{
    return ask_of(look(path), sql);
}

static inline void sound(const char *path)
{
    assert_int_equal(ask(path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
}

/* Every row of TABLES in one database is in the other, and the other way round. */
static inline void equal(const char *a, const char *b, const char *const *tables)
{
    for (; *tables; tables++) {
        for (int way = 0; way < 2; way++) {
            char sql[512];
            snprintf(sql, sizeof sql, "SELECT count(*) FROM (SELECT * FROM %s.%s EXCEPT SELECT * FROM %s.%s)",
                     way ? "main" : "other", *tables, way ? "other" : "main", *tables);
            int64_t n = ask_of(look_both(a, b, "other"), sql);
            if (n)
                fail_msg("%s: %s differs from %s in %" PRId64 " rows", *tables, a, b, n);
        }
    }
}

#endif
