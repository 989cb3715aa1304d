/*
 * test_merge.c - one file into another: events get numbers of their process, and so does what refers to them.
 */

#include "unit/trace/db_kit.h"
#include "trace/event.h"
#include "trace/store/files.h"

/* Tables that have a column like '%WHAT', with a value for each column; and each such column. */
#define TABLES(what, value)                                                                                  \
    "SELECT m.name, group_concat(" value ") FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type " \
    "= 'table' GROUP BY m.name HAVING max(c.name LIKE '%" what "')"
#define COLUMNS(what)                                                                                        \
    "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND "    \
    "c.name LIKE '%" what "'"

static char into[128], from[128];

static int make_paths(void **state)
{
    if (make_dir(state))
        return -1;
    snprintf(into, sizeof into, "%s/into.db", dir);
    snprintf(from, sizeof from, "%s/from.db", dir);
    return 0;
}

static sqlite3 *empty(const char *path)
{
    sqlite3 *db;
    remove(path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    change(db, vs_schema_sql);
    return db;
}

static void make(const char *path, const char *sql)
{
    sqlite3 *db = empty(path);
    change(db, sql);
    sqlite3_close(db);
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

/* FROM into INTO, which is open then. */
static sqlite3 *merged(void)
{
    char why[256] = "";
    if (merge(0, why, sizeof why))
        fail_msg("%s", why);
    return look(into);
}

/* A row into each of TABLES. */
static void fill(sqlite3 *db, const char *tables)
{
    char sql[512];
    sqlite3_stmt *q = query(db, tables);
    while (sqlite3_step(q) == SQLITE_ROW) {
        snprintf(sql, sizeof sql, "INSERT INTO %s VALUES(%s)", (const char *)sqlite3_column_text(q, 0),
                 (const char *)sqlite3_column_text(q, 1));
        change(db, sql);
    }
    sqlite3_finalize(q);
}

/* The least value of each of COLUMNS is WANTED; that of mark.ring_seq, the ring's own number, is OWN.  How
 * many. */
static int all_are(sqlite3 *db, const char *columns, int64_t wanted, int64_t own)
{
    int n = 0;
    sqlite3_stmt *q = query(db, columns);
    for (; sqlite3_step(q) == SQLITE_ROW; n++) {
        const char *table = (const char *)sqlite3_column_text(q, 0);
        const char *column = (const char *)sqlite3_column_text(q, 1);
        char sql[256];
        snprintf(sql, sizeof sql, "SELECT min(%s) FROM %s", column, table);
        bool stays = !strcmp(table, "mark") && !strcmp(column, "ring_seq");
        if (number(db, sql) != (stays ? own : wanted))
            fail_msg("%s.%s is %lld", table, column, (long long)number(db, sql));
    }
    sqlite3_finalize(q);
    return n;
}

TEST(every_number_of_an_event_moves, make_paths, drop_dir)
{
    char sql[256];
    sqlite3_close(empty(into));
    sqlite3 *db = empty(from);
    fill(db, TABLES("seq", "5"));
    snprintf(sql, sizeof sql, "INSERT INTO ev(seq, op, mate) VALUES(6, %d, 1), (7, %d, 1)", VS_OP_LIMIT,
             VS_OP_OVERHEAD);
    change(db, sql);
    sqlite3_close(db);
    db = merged();
    assert_true(all_are(db, COLUMNS("seq"), 5 + (INT64_C(1) << 40), 5) > 25);
    assert_int_equal(number(db, "SELECT mate FROM ev WHERE op = 5"), 5 + (INT64_C(1) << 40));
    snprintf(sql, sizeof sql, "SELECT sum(mate) FROM ev WHERE op IN (%d, %d)", VS_OP_LIMIT, VS_OP_OVERHEAD);
    assert_int_equal(number(db, sql), 2); /* a direction, no number */
    sqlite3_close(db);
}

/* The same number is another phase in another file. */
TEST(phases_are_matched_by_their_names, make_paths, drop_dir)
{
    make(into, "INSERT INTO phase VALUES(0, 'none'), (9, 'loading')");
    sqlite3 *db = empty(from);
    fill(db, TABLES("phase", "9"));
    change(db, "INSERT INTO phase VALUES(0, 'none'), (9, 'warm-up'), (3, 'loading');"
               "UPDATE zone SET held = '[[9,4096,512],[3,1,0],[-1,5,0]]'");
    sqlite3_close(db);
    db = merged();
    assert_int_equal(number(db, "SELECT id FROM phase WHERE name = 'warm-up'"), 10);
    assert_int_equal(number(db, "SELECT count(*) FROM phase"), 3);
    assert_true(all_are(db, COLUMNS("phase"), 10, 10) >= 10);
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
static void write_names(const char *path, int n, int base, int line)
{
    char sql[2048];
    snprintf(sql, sizeof sql, NAMES, n, n + 1, n, base, n + 1, base, n, n, n + 1, n + 1, n + 2, line, n,
             n + 2, n + 2, n + 1, n, n, n, n + 2, n + 1, n);
    make(path, sql);
}

#define STACK_OF(seq)                                                                                        \
    "SELECT e.stack FROM ev e JOIN stack s ON s.id = e.stack JOIN string o ON o.id = s.owner JOIN frame f "  \
    "ON f.id = s.frame JOIN module m ON m.id = f.module JOIN stack p ON p.id = s.parent JOIN frame l ON "    \
    "l.id = s.line WHERE e.seq = " seq " AND o.text = 'libx.so' AND m.path = '/lib/x' AND p.frame = l.id "   \
    "AND l.function = 'main' AND l.line = "

TEST(names_that_files_share_stand_once_and_others_are_added, make_paths, drop_dir)
{
    write_names(into, 3, 4096, 7);
    write_names(from, 50, 4096, 7);
    sqlite3 *db = merged();
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
    write_names(into, 3, 4096, 7);
    write_names(from, 3, 8192, 8);
    db = merged();
    assert_int_equal(number(db, "SELECT count(*) FROM string"), 2);
    assert_int_equal(number(db, "SELECT count(*) FROM module"), 3);
    assert_int_equal(number(db, "SELECT count(*) FROM frame"), 5);
    assert_int_equal(number(db, "SELECT count(*) FROM stack"), 4);
    assert_int_equal(number(db, STACK_OF("1") "7"), 4);
    assert_int_equal(number(db, STACK_OF("1 + (1 << 40)") "8"), 6);
    sqlite3_close(db);
}

/* A table that does not end would fill the disk. */
TEST(copying_takes_no_more_steps_than_it_may, make_paths, drop_dir)
{
    char why[256] = "";
    sqlite3_close(empty(into));
    make(from,
         "INSERT INTO mismatch(seq) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE "
         "i < 20000) SELECT i FROM n");
    assert_int_equal(merge(20000, why, sizeof why), -1);
    assert_non_null(strstr(why, "interrupted"));
    assert_int_equal(ask(into, "SELECT count(*) FROM mismatch"), 0);
    assert_int_equal(merge(0, why, sizeof why), 0);
}
