/* test_reads_once.c - `report`, its pages and its advice included, goes through the history once. */

#include <sqlite3.h>
#include <unistd.h>

#include "unit/test.h"
#include "show/first/first.h"
#include "trace/database.h"

#define KIB(n) ((n)*2) /* x512 */
enum { BLOCK = 20, BLOCK_GONE, STEP = 33, FORWARD = 1, BACKWARD, STEPS = 3, LAYERS = 4 };

static char path[] = "/tmp/vramscope-once-XXXXXX";
static sqlite3 *db;
static int64_t seq, held;

static void add(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *sql = sqlite3_vmprintf(format, arguments);
    va_end(arguments);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sqlite3_errmsg(db), sql);
    sqlite3_free(sql);
}

static int64_t event(int op, int phase, int64_t address, int64_t size, int64_t mate)
{
    seq++;
    held += op == BLOCK ? size : op == BLOCK_GONE ? -size : 0;
    add("INSERT INTO ev VALUES(%lld, %lld, %d, 0, %d, 1, %lld, %lld, 0, 0, %lld, %lld, 0, 1)", (long long)seq,
        (long long)seq * 1000, op, phase, (long long)address, (long long)size, (long long)mate,
        (long long)held);
    return seq;
}

/* A step: each layer's forward makes what its backward frees. */
static void step(int number)
{
    int64_t made[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        made[i] = event(BLOCK, FORWARD, 100000 + i * KIB(64), KIB(64), 0);
    if (number == 1)
        add("INSERT INTO peak VALUES(1, 0, 'allocated', %lld, %lld, %lld, 0, NULL), (1, 0, 'framework', "
            "%lld, "
            "%lld, %lld, 0, NULL), (1, 0, 'reserved', 2097152, 1, 1000, 2097152, NULL)",
            (long long)held * 512, (long long)seq, (long long)seq * 1000, (long long)held * 512,
            (long long)seq, (long long)seq * 1000);
    for (int i = LAYERS; i-- > 0;)
        event(BLOCK_GONE, BACKWARD, 100000 + i * KIB(64), KIB(64), made[i]);
    event(STEP, 0, 0, 0, 0);
    add("INSERT INTO step VALUES(1, %d, %lld, %lld)", number, (long long)seq * 1000, (long long)seq);
}

static int make_file(void **state)
{
    static char schema[1 << 18];
    FILE *f = fopen(SCHEMA, "r");
    schema[fread(schema, 1, sizeof schema - 1, f)] = 0;
    fclose(f);
    close(mkstemp(path));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    add("PRAGMA synchronous = OFF");
    assert_int_equal(sqlite3_exec(db, schema, NULL, NULL, NULL), SQLITE_OK);
    add("BEGIN");
    add("INSERT INTO meta VALUES('schema_version', %d, 0), ('clean_end', 1, 1)", VS_SCHEMA_VERSION);
    add("INSERT INTO process VALUES(1, 'here', 'b', 1, NULL, NULL, NULL, 'train.py', 0, 99000, 0)");
    add("INSERT OR IGNORE INTO phase VALUES(1, 'forward'), (2, 'backward')");
    add("INSERT INTO kind VALUES(1, 1, 0, 1, 1, 0, 1, 0, 0, NULL)");
    for (int i = 1; i <= STEPS; i++)
        step(i);
    add("INSERT INTO mark VALUES(1, %lld, %lld, %lld)", (long long)seq, (long long)seq, (long long)seq);
    add("COMMIT");
    return sqlite3_close(db);
}

static int remove_file(void **state)
{
    return unlink(path);
}

static int count_scan(unsigned mask, void *scans, void *statement, void *sql)
{
    *(int *)scans += strstr(sqlite3_sql(statement), "FROM ev WHERE seq BETWEEN ?1 AND ?2 AND (?3 OR") != NULL;
    return 0;
}

static int scans_of(unsigned parts, void (*show)(const struct report *r, FILE *out))
{
    struct trace t;
    struct report r;
    int scans = 0;
    FILE *out = fopen("/dev/null", "w");
    if (trace_open(&t, path))
        fail_msg("%s", t.why);
    sqlite3_trace_v2(t.db, SQLITE_TRACE_STMT, count_scan, &scans);
    assert_int_equal(report_load(&r, &t, parts), 0);
    show(&r, out);
    assert_true(t.found_roles);
    report_free(&r);
    trace_close(&t);
    fclose(out);
    return scans;
}

static void first(const struct report *r, FILE *out)
{
    first_text(r, out, false);
}

static void all(const struct report *r, FILE *out)
{
    report_text(r, out, false, false);
}

TEST(the_first_screen_goes_through_the_history_once)
{
    assert_int_equal(scans_of(FIRST_PARTS, first), 1);
}

TEST(the_whole_report_goes_through_the_history_once)
{
    assert_int_equal(scans_of(REPORT_ALL, all), 1);
}

int main(void)
{
    return run_all_tests(make_file, remove_file);
}
