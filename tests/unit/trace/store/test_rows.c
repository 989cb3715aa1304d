/*
 * test_rows.c - the events that a batch writes: every number comes back as it was, at every width of SQLite's
 * records, whatever others do to the file meanwhile.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "unit/trace/db_kit.h"
#include "trace/store/store.h"

#define ROWS 30000

static char db_path[128];
static struct vs_journal *journal;
static struct vs_ledger *ledger;
static struct vs_store *store;
static struct vs_output out;
static uint64_t seq, random_state;

static int open_store(void **state)
{
    char path[128], why[256] = "";
    if (make_dir(state))
        return -1;
    snprintf(path, sizeof path, "%s/j", dir);
    snprintf(db_path, sizeof db_path, "%s/db", dir);
    seq = 0;
    random_state = 88172645463325252ull;
    ledger = vs_ledger_new(&(struct vs_ledger_config){0});
    struct vs_database c = {.path = db_path, .version = "test"};
    return vs_journal_create(&journal, path, &(struct vs_journal_config){.database = db_path}) < 0 ||
           vs_store_open(&store, &c, journal, why, sizeof why) < 0;
}

static int close_store(void **state)
{
    vs_journal_close(journal);
    vs_ledger_free(ledger);
    vs_output_free(&out);
    return drop_dir(state);
}

/* Any number of bits up to MAX, so that every width comes. */
static uint64_t any(int max)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    int bits = (int)(random_state % (unsigned)(max + 1));
    return bits ? (random_state >> 5 | random_state << 59) >> (64 - bits) : 0;
}

/* A multiple of 2 MiB, so many more than DIRECT, or any number. */
static uint64_t random_reserved(uint64_t direct)
{
    switch (any(8) % 4) {
    case 0:
        return any(40) << 21;
    case 1:
        return direct + (any(39) << 21);
    case 2:
        return any(61);
    default:
        return direct;
    }
}

static void add_row(uint64_t gap)
{
    uint64_t failed = 0, direct = any(61);
    vs_list_push(&out.rows, failed,
                 (struct vs_row){.seq = seq += 1 + gap,
                                 .t = (int64_t)any(63),
                                 .op = (uint8_t)any(8),
                                 .device = (int8_t)any(8),
                                 .phase = (uint32_t)any(32),
                                 .address = any(63),
                                 .size = any(63) << 9 >> any(5),
                                 .range = (uint32_t)any(32),
                                 .stack = (uint32_t)any(32),
                                 .mate = any(63),
                                 .framework = any(54) * 512,
                                 .direct = direct,
                                 .reserved = random_reserved(direct)});
    assert_int_equal(failed, 0);
}

static void commit(void)
{
    struct vs_commit c = {.out = &out, .ledger = ledger, .seq = seq, .ring_seq = seq};
    for (size_t i = 0; i < out.rows.n; i++)
        out.rows.at[i].size &= INT64_MAX;
    assert_int_equal(vs_store_commit(store, &c), 0);
}

static uint64_t bytes(sqlite3_stmt *q, int column, uint64_t unit)
{
    int64_t v = sqlite3_column_int64(q, column);
    return v < 0 ? (uint64_t)-v : (uint64_t)v * unit;
}

static uint64_t reserved(sqlite3_stmt *q)
{
    int64_t v = sqlite3_column_int64(q, 13);
    return v >= 0   ? (uint64_t)v << 21
           : ~v & 1 ? (uint64_t)~v >> 1
                    : ((uint64_t)~v >> 1 << 21) + bytes(q, 12, 512);
}

static void assert_row(sqlite3_stmt *q, const struct vs_row *r)
{
    assert_int_equal(sqlite3_column_int64(q, 0), r->seq);
    assert_int_equal(sqlite3_column_int64(q, 1), r->t);
    assert_int_equal(sqlite3_column_int64(q, 2), r->op);
    assert_int_equal(sqlite3_column_int64(q, 3), r->device);
    assert_int_equal(sqlite3_column_int64(q, 4), r->phase);
    assert_int_equal(sqlite3_column_int64(q, 5), r->kind);
    assert_int_equal(bytes(q, 6, 512), r->address);
    assert_int_equal(bytes(q, 7, 512), r->size);
    assert_int_equal(sqlite3_column_int64(q, 8), r->range);
    assert_int_equal(sqlite3_column_int64(q, 9), r->stack);
    assert_int_equal(sqlite3_column_int64(q, 10), r->mate);
    assert_int_equal(bytes(q, 11, 512), r->framework);
    assert_int_equal(bytes(q, 12, 512), r->direct);
    assert_int_equal(reserved(q), r->reserved);
}

/* Another program reads what stands in `out`. */
static void assert_written(void)
{
    sqlite3 *db = look(db_path);
    sqlite3_stmt *q = query(db, "SELECT * FROM ev WHERE seq >= ? ORDER BY seq");
    sqlite3_bind_int64(q, 1, (int64_t)out.rows.at[0].seq);
    for (size_t i = 0; i < out.rows.n; i++) {
        assert_int_equal(sqlite3_step(q), SQLITE_ROW);
        assert_row(q, &out.rows.at[i]);
    }
    assert_int_equal(sqlite3_step(q), SQLITE_DONE);
    sqlite3_finalize(q);
    sqlite3_close(db);
    sound(db_path);
}

static void check_batch(void)
{
    commit();
    assert_written();
    vs_output_clear(&out);
}

TEST(numbers_of_every_width_come_back, open_store, close_store)
{
    for (int i = 0; i < ROWS; i++)
        add_row(0);
    check_batch();
    for (int n = 1; n < 600; n += 37) {
        for (int i = 0; i < n; i++)
            add_row(0);
        check_batch();
    }
    assert_int_equal(vs_store_close(store, 1), 0);
}

TEST(rows_behind_gaps_keep_their_numbers, open_store, close_store)
{
    for (int i = 0; i < ROWS / 10; i++)
        add_row(any(3) < 6 ? 0 : any(20));
    check_batch();
    for (int i = 0; i < 300; i++)
        add_row(i % 100 == 0);
    check_batch();
    assert_int_equal(vs_store_close(store, 1), 0);
}

static void run_elsewhere(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(db_path, &db), SQLITE_OK);
    change(db, sql);
    sqlite3_close(db);
}

/* Then the writer reads the schema again. */
TEST(an_index_made_meanwhile_changes_no_row, open_store, close_store)
{
    static const char *const meanwhile[] = {"CREATE INDEX mine ON ev(t)", "DROP INDEX mine", "SELECT 1"};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++)
            add_row(i == 1000);
        check_batch();
        run_elsewhere(meanwhile[round]);
    }
    assert_int_equal(vs_store_close(store, 1), 0);
}

TEST(a_size_that_nobody_could_say_is_null, open_store, close_store)
{
    for (int i = 0; i < 3; i++)
        add_row(0);
    out.rows.at[1].size = VS_BYTES_UNKNOWN;
    struct vs_commit c = {.out = &out, .ledger = ledger, .seq = seq, .ring_seq = seq};
    assert_int_equal(vs_store_commit(store, &c), 0);
    assert_int_equal(ask(db_path, "SELECT count(*) FROM ev WHERE size IS NULL AND seq = 2"), 1);
    assert_int_equal(ask(db_path, "SELECT count(*) FROM ev WHERE size IS NULL"), 1);
    assert_int_equal(vs_store_close(store, 1), 0);
}

/* Numbers are the events' own: none is moved behind a row that another program wrote, and none is written
 * over. */
TEST(a_strangers_row_stops_the_batch, open_store, close_store)
{
    static const char *const theirs[] = {"INSERT INTO ev(seq) VALUES(1000000)",
                                         "INSERT INTO ev(seq) VALUES(15)"};
    for (int i = 0; i < 10; i++)
        add_row(0);
    check_batch();
    for (int way = 0; way < 2; way++) {
        run_elsewhere(theirs[way]);
        seq = 10;
        for (int i = 0; i < 10; i++)
            add_row(0);
        struct vs_commit c = {.out = &out, .ledger = ledger, .seq = seq, .ring_seq = seq};
        assert_true(vs_store_commit(store, &c) < 0);
        vs_output_clear(&out);
        assert_int_equal(ask(db_path, "SELECT count(*) FROM ev WHERE t IS NOT NULL"), 10);
        run_elsewhere("DELETE FROM ev WHERE t IS NULL");
    }
    assert_int_equal(vs_store_close(store, 1), 0);
}

/* The key is declared: numbers behind gaps survive. */
TEST(vacuum_keeps_the_numbers, open_store, close_store)
{
    for (int i = 0; i < 500; i++)
        add_row(i % 7 == 0);
    commit();
    assert_int_equal(vs_store_close(store, 1), 0);
    run_elsewhere("VACUUM");
    assert_written();
    vs_output_clear(&out);
}
