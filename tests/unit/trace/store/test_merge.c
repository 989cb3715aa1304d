/*
 * test_merge.c - one file into another: every number of an event moves up to those of its process.
 */

#include <sqlite3.h>

#include "unit/test.h"
#include "trace/event.h"
#include "trace/store/merge.h"
#include "trace/store/schema.h"

#define EACH_TABLE                                                                                           \
    "SELECT m.name, group_concat(5) FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = "       \
    "'table' GROUP BY m.name HAVING max(c.name LIKE '%seq')"
#define EACH_NUMBER                                                                                          \
    "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' "        \
    "AND c.name LIKE '%seq'"

static char dir[64], into[128], from[128];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs_merge.XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(into, sizeof into, "%s/into.db", dir);
    snprintf(from, sizeof from, "%s/from.db", dir);
    return 0;
}

static int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static sqlite3 *empty(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, vs_schema_sql, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return value;
}

static int merge(int64_t steps, char *why, size_t size)
{
    struct vs_merge *m;
    int rc = vs_store_merge_open(&m, into, why, size);
    if (rc == 0)
        rc = vs_store_merge_add(m, from, 2, steps, why, size);
    vs_store_merge_close(m);
    return rc;
}

/* A row of fives into each table that has numbers of events. */
static void fill(sqlite3 *db)
{
    sqlite3_stmt *q;
    char sql[512];
    assert_int_equal(sqlite3_prepare_v2(db, EACH_TABLE, -1, &q, NULL), SQLITE_OK);
    while (sqlite3_step(q) == SQLITE_ROW) {
        snprintf(sql, sizeof sql, "INSERT INTO %s VALUES(%s)", (const char *)sqlite3_column_text(q, 0),
                 (const char *)sqlite3_column_text(q, 1));
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
            fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    sqlite3_finalize(q);
}

/* The ring's own number is the only one that is none of the file's. */
static bool stays(const char *table, const char *column)
{
    return !strcmp(table, "mark") && !strcmp(column, "ring_seq");
}

TEST(every_number_of_an_event_moves, make_dir, drop_dir)
{
    char why[256] = "", sql[256];
    sqlite3_close(empty(into));
    sqlite3 *db = empty(from);
    fill(db);
    snprintf(sql, sizeof sql, "INSERT INTO ev(seq, op, mate) VALUES(6, %d, 1), (7, %d, 1)", VS_OP_LIMIT,
             VS_OP_OVERHEAD);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    if (merge(0, why, sizeof why))
        fail_msg("%s", why);

    assert_int_equal(sqlite3_open(into, &db), SQLITE_OK);
    sqlite3_stmt *q;
    int columns = 0;
    assert_int_equal(sqlite3_prepare_v2(db, EACH_NUMBER, -1, &q, NULL), SQLITE_OK);
    for (; sqlite3_step(q) == SQLITE_ROW; columns++) {
        const char *table = (const char *)sqlite3_column_text(q, 0);
        const char *column = (const char *)sqlite3_column_text(q, 1);
        snprintf(sql, sizeof sql, "SELECT min(%s) FROM %s", column, table);
        int64_t want = 5 + (stays(table, column) ? 0 : INT64_C(1) << 40), got = number(db, sql);
        if (got != want)
            fail_msg("%s.%s is %lld", table, column, (long long)got);
    }
    sqlite3_finalize(q);
    assert_true(columns > 25);
    assert_int_equal(number(db, "SELECT mate FROM ev WHERE op = 5"), 5 + (INT64_C(1) << 40));
    snprintf(sql, sizeof sql, "SELECT sum(mate) FROM ev WHERE op IN (%d, %d)", VS_OP_LIMIT, VS_OP_OVERHEAD);
    assert_int_equal(number(db, sql), 2); /* a direction, no number */
    sqlite3_close(db);
}

#define PHASED_TABLE                                                                                         \
    "SELECT m.name, group_concat(9) FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = "       \
    "'table' GROUP BY m.name HAVING max(c.name LIKE '%phase')"
#define EACH_PHASE                                                                                           \
    "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' "        \
    "AND c.name LIKE '%phase'"

/* The same number is another phase in another file. */
TEST(phases_are_matched_by_their_names, make_dir, drop_dir)
{
    char why[256] = "", sql[512];
    sqlite3 *db = empty(into);
    assert_int_equal(
        sqlite3_exec(db, "INSERT INTO phase VALUES(0, 'none'), (9, 'loading')", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    db = empty(from);
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_prepare_v2(db, PHASED_TABLE, -1, &q, NULL), SQLITE_OK);
    while (sqlite3_step(q) == SQLITE_ROW) {
        snprintf(sql, sizeof sql, "INSERT INTO %s VALUES(%s)", (const char *)sqlite3_column_text(q, 0),
                 (const char *)sqlite3_column_text(q, 1));
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
            fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    sqlite3_finalize(q);
    assert_int_equal(sqlite3_exec(db,
                                  "INSERT INTO phase VALUES(0, 'none'), (9, 'warm-up'), (3, 'loading');"
                                  "UPDATE zone SET held = '[[9,4096,512],[3,1,0],[-1,5,0]]'",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    if (merge(0, why, sizeof why))
        fail_msg("%s", why);

    assert_int_equal(sqlite3_open(into, &db), SQLITE_OK);
    assert_int_equal(number(db, "SELECT id FROM phase WHERE name = 'warm-up'"), 10);
    assert_int_equal(number(db, "SELECT count(*) FROM phase"), 3);
    int columns = 0;
    assert_int_equal(sqlite3_prepare_v2(db, EACH_PHASE, -1, &q, NULL), SQLITE_OK);
    for (; sqlite3_step(q) == SQLITE_ROW; columns++) {
        const char *table = (const char *)sqlite3_column_text(q, 0);
        const char *column = (const char *)sqlite3_column_text(q, 1);
        snprintf(sql, sizeof sql, "SELECT min(%s) FROM %s", column, table);
        if (number(db, sql) != 10)
            fail_msg("%s.%s is %lld", table, column, (long long)number(db, sql));
    }
    sqlite3_finalize(q);
    assert_true(columns >= 10);
    assert_int_equal(number(db, "SELECT held = '[[10,4096,512],[9,1,0],[-1,5,0]]' FROM zone"), 1);
    sqlite3_close(db);
}

#define NAMES                                                                                                \
    "INSERT INTO string VALUES(%d, 'libx.so'), (%d, 'kernel');"                                              \
    "INSERT INTO module VALUES(%d, '/lib/x', 'ab12', %d, 4096), (%d, '/lib/y', NULL, %d, 4096);"             \
    "INSERT INTO frame VALUES(%d, 1, %d, 64, NULL, NULL, NULL), (%d, 1, %d, 64, NULL, NULL, NULL), (%d, 2, " \
    "NULL, NULL, 'main', 'train.py', %d);"                                                                   \
    "INSERT INTO stack(id, parent, frame, owner, line) VALUES(%d, 0, %d, NULL, %d), (%d, %d, %d, %d, %d);"   \
    "INSERT INTO ev(seq, op, stack) VALUES(1, 20, %d), (2, 20, 0), (3, 20, NULL), (4, 20, 777);"             \
    "INSERT INTO pool_use(process, device, pool) VALUES(1, 0, %d)"

/* The same names under ids that begin at N, modules at BASE, and a line of the program. */
static void write_names(sqlite3 *db, int n, int base, int line)
{
    char sql[2048];
    snprintf(sql, sizeof sql, NAMES, n, n + 1, n, base, n + 1, base, n, n, n + 1, n + 1, n + 2, line, n,
             n + 2, n + 2, n + 1, n, n, n, n + 2, n + 1, n);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

#define STACK_OF(seq)                                                                                        \
    "SELECT e.stack FROM ev e JOIN stack s ON s.id = e.stack JOIN string o ON o.id = s.owner JOIN frame f "  \
    "ON f.id = s.frame JOIN module m ON m.id = f.module JOIN stack p ON p.id = s.parent JOIN frame l ON "    \
    "l.id = s.line WHERE e.seq = " seq " AND o.text = 'libx.so' AND m.path = '/lib/x' AND p.frame = l.id "   \
    "AND l.function = 'main' AND l.line = "

TEST(names_that_files_share_stand_once_and_others_are_added, make_dir, drop_dir)
{
    char why[256] = "";
    sqlite3 *db = empty(into);
    write_names(db, 3, 4096, 7);
    sqlite3_close(db);
    db = empty(from);
    write_names(db, 50, 4096, 7);
    sqlite3_close(db);
    if (merge(0, why, sizeof why))
        fail_msg("%s", why);
    assert_int_equal(sqlite3_open(into, &db), SQLITE_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM string"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM module"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM frame"), 3);
    assert_int_equal(number(db, "SELECT count(*) FROM stack"), 2);
    assert_int_equal(number(db, STACK_OF("1 + (1 << 40)") "7"), 4);
    assert_int_equal(number(db, "SELECT count(DISTINCT pool) FROM pool_use"), 1);
    /* none stays none, and what the file lacks is none */
    assert_int_equal(number(db, "SELECT stack IS 0 FROM ev WHERE seq = 2 + (1 << 40)"), 1);
    assert_int_equal(number(db, "SELECT stack IS NULL FROM ev WHERE seq = 3 + (1 << 40)"), 1);
    assert_int_equal(number(db, "SELECT stack IS 0 FROM ev WHERE seq = 4 + (1 << 40)"), 1);
    sqlite3_close(db);

    /* another line, and modules elsewhere: with a build ID it is the same one, without not */
    remove(into);
    remove(from);
    db = empty(into);
    write_names(db, 3, 4096, 7);
    sqlite3_close(db);
    db = empty(from);
    write_names(db, 3, 8192, 8);
    sqlite3_close(db);
    if (merge(0, why, sizeof why))
        fail_msg("%s", why);
    assert_int_equal(sqlite3_open(into, &db), SQLITE_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM string"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM module"), 3);
    assert_int_equal(number(db, "SELECT count(*) FROM frame"), 5);
    assert_int_equal(number(db, "SELECT count(*) FROM stack"), 4);
    assert_int_equal(number(db, STACK_OF("1") "7"), 4);
    assert_int_equal(number(db, STACK_OF("1 + (1 << 40)") "8"), 6);
    sqlite3_close(db);
}

/* A table that does not end would fill the disk. */
TEST(copying_takes_no_more_steps_than_it_may, make_dir, drop_dir)
{
    char why[256] = "";
    sqlite3 *db = empty(into);
    sqlite3_close(db);
    db = empty(from);
    assert_int_equal(
        sqlite3_exec(db,
                     "INSERT INTO mismatch(seq) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT "
                     "i + 1 FROM n WHERE i < 20000) SELECT i FROM n",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(merge(20000, why, sizeof why), -1);
    assert_non_null(strstr(why, "interrupted"));
    assert_int_equal(sqlite3_open(into, &db), SQLITE_OK);
    assert_int_equal(number(db, "SELECT count(*) FROM mismatch"), 0);
    sqlite3_close(db);
    assert_int_equal(merge(0, why, sizeof why), 0);
}
