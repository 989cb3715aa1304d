/*
 * test_resume.c - a recording whose writer is killed, or cut short, again and again is the one of a writer
 * that never was.
 *
 * Random events go through two recordings.  In one a single writer takes them all; in the other the writer is
 * left after any batch, as a kill leaves it, and the next one goes on with what database and journal say.
 * Every table must be the same, row by row: so what a ledger knows and the database does not tell shows here.
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "unit/trace/db_kit.h"
#include "any_events.h"
#include "trace/store/vfs.h"
#include "trace/writer/writer.h"

/* RESUME_SEED and RESUME_SEEDS in the environment: from which on, how many */
#ifdef __SANITIZE_ADDRESS__
#define SEEDS 4
#else
#define SEEDS 8 /* of tests/run.sh full: 400 */
#endif
#define BATCHES 45 /* of a recording, about */

/* ---- the two recordings ---- */

struct recording {
    char db[128], vsj[128], why[256];
    struct made made;
    struct vs_writer *w;
};

static void open_writer(struct recording *r)
{
    struct vs_database c = {.path = r->db,
                            .journal_path = r->vsj,
                            .version = "test",
                            .pid = 42,
                            .rank = INT32_MIN,
                            .local_rank = INT32_MIN,
                            .world_size = INT32_MIN};
    if (vs_writer_open(&r->w, &c, r->made.j, r->why, sizeof r->why) < 0)
        fail_msg("%s", r->why);
}

static void begin(struct recording *r, const char *name, uint64_t seed)
{
    static const char *const text[] = {"forward", "logits", "backward", "optimizer", "mine", "library"};
    memset(r, 0, sizeof *r);
    snprintf(r->db, sizeof r->db, "%s/%s.db", dir, name);
    snprintf(r->vsj, sizeof r->vsj, "%s/%s.vsj", dir, name);
    struct vs_journal_config c = {.ring_slots = 1 << 14, .database = r->db, .start_ns = 500};
    assert_int_equal(vs_journal_create(&r->made.j, r->vsj, &c), 0);
    for (int i = 0; i < 6; i++)
        r->made.names[i] = vs_journal_string(r->made.j, text[i], strlen(text[i]));
    for (uint32_t i = 1; i <= THREADS; i++)
        vs_journal_thread(r->made.j, 100 + i, i == 2 ? VS_THREAD_AUTOGRAD : 0, "t");
    r->made.random = seed;
    r->made.t = 1000000;
    open_writer(r);
}

/* How a writer ends after two batches of three, before a new one goes on: not at all; as a kill leaves it; as
 * an exit does that has no time for the rest of the journal. */
enum end { NEVER, KILLED, CUT_SHORT };

static void next_writer(struct recording *r, enum end end)
{
    if (end == CUT_SHORT)
        assert_int_equal(vs_writer_close(r->w, false), 0);
    open_writer(r);
}

static void record(const char *name, uint64_t seed, int events, enum end end)
{
    struct recording r;
    uint64_t chance = seed * 977 + 1;
    begin(&r, name, seed);
    for (int done = 0; done < events;) {
        int n = 1 + (int)((chance >> 33) % (uint64_t)(events * 2 / BATCHES));
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        uint64_t before = r.made.t;
        make(&r.made, n);
        done += n;
        if (r.made.t == before)
            continue; /* idle writers decide by the clock what they hold back */
        if (vs_writer_drain(r.w, false) < 0)
            fail_msg("drain");
        if (end == NEVER || (chance >> 40) % 3 == 0)
            continue;
        next_writer(&r, end);
    }
    while (vs_writer_drain(r.w, true) > 0) {
    }
    assert_int_equal(vs_writer_close(r.w, true), 0);
}

/* In a child: the writers that were left take nothing of this process. */
static void record_in_child(const char *name, uint64_t seed, int events, enum end end)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        record(name, seed, events, end);
        _exit(0);
    }
    assert_true(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

/* ---- every table ---- */

static void show(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *q = query(db, sql);
    for (int n = 0; n < 4 && sqlite3_step(q) == SQLITE_ROW; n++) {
        fputs("   ", stderr);
        for (int i = 0; i < sqlite3_column_count(q); i++)
            fprintf(stderr, " %s=%s", sqlite3_column_name(q, i), (const char *)sqlite3_column_text(q, i));
        fputc('\n', stderr);
    }
    sqlite3_finalize(q);
}

/* Rows of TABLE that only one of the databases has. */
static int differences(sqlite3 *db, const char *table, uint64_t seed)
{
    int found = 0;
    for (int way = 0; way < 2; way++) {
        char rows[256], sql[300];
        snprintf(rows, sizeof rows, "SELECT * FROM %s.%s EXCEPT SELECT * FROM %s.%s", way ? "other" : "main",
                 table, way ? "main" : "other", table);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM (%s)", rows);
        int n = (int)number(db, sql);
        found += n;
        if (n) {
            fprintf(stderr, "seed %" PRIu64 ", %s: %d rows that only the %s recording has\n", seed, table, n,
                    way ? "cut" : "whole");
            show(db, rows);
        }
    }
    return found;
}

static int compare(uint64_t seed)
{
    char whole[128], cut[128];
    int found = 0;
    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    snprintf(cut, sizeof cut, "%s/cut.db", dir);
    sqlite3 *db = look_both(whole, cut, "other");
    sqlite3_stmt *q = query(db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN "
                                "('meta', 'process') AND name NOT LIKE 'sqlite_%'");
    while (sqlite3_step(q) == SQLITE_ROW)
        found += differences(db, (const char *)sqlite3_column_text(q, 0), seed);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return found;
}

static void forget_files(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -f %s/*", dir);
    assert_int_equal(system(command), 0);
}

static uint64_t given(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void cut_and_whole(uint64_t seeds, int events, enum end end)
{
    uint64_t from = given("RESUME_SEED", 1), n = given("RESUME_SEEDS", seeds), wrong = 0;
    for (uint64_t seed = from; seed < from + n; seed++) {
        record_in_child("whole", seed, events, NEVER);
        record_in_child("cut", seed, events, end);
        wrong += compare(seed) != 0;
        if (!getenv("KEEP"))
            forget_files();
    }
    if (wrong)
        fail_msg("%" PRIu64 " of %" PRIu64 " seeds", wrong, n);
}

TEST(a_writer_that_is_killed_after_any_batch_leaves_what_the_next_one_needs)
{
    cut_and_whole(SEEDS, 900, KILLED);
}

TEST(an_exit_that_leaves_events_leaves_what_the_next_writer_needs)
{
    cut_and_whole(SEEDS / 4, 900, CUT_SHORT);
}

/* ---- out of memory, each state of the watch ---- */

#define PIECE (2ull << 20)

static struct vs_event asked_of(uint16_t thread, uint8_t op)
{
    return (struct vs_event){.op = op,
                             .space = VS_SPACE_DEVICE,
                             .thread = thread,
                             .device = (int8_t)(thread % DEVICES),
                             .size = PIECE * thread,
                             .arg0 = op == VS_OP_PHYS_CREATE ? 1ull << 32 : 0,
                             .arg1 = 10};
}

static void put(struct made *m, struct vs_event e)
{
    e.t_ns = m->t += 1000;
    assert_true(vs_journal_append(m->j, &e) != VS_SEQ_NONE);
}

static void refused(struct made *m, uint16_t thread, uint8_t op)
{
    struct vs_event e = asked_of(thread, op);
    e.status = REFUSED;
    put(m, e);
}

/* What was refused, granted; BY a caching allocator's own code or nobody knows whose. */
static void granted(struct made *m, uint16_t thread, uint8_t op, enum vs_caller by)
{
    struct vs_event e = asked_of(thread, op);
    e.arg1 |= VS_CALLED_BY(by);
    e.address = op == VS_OP_PHYS_CREATE ? 0x10u + thread : PLACE(thread);
    put(m, e);
}

static void block_at(struct made *m, uint16_t thread, uint64_t address, uint8_t op)
{
    struct vs_event e = {
        .op = op, .thread = thread, .device = (int8_t)(thread % DEVICES), .address = address, .size = 512};
    m->allocated[e.device] += op == VS_OP_BLOCK_ALLOC ? 512 : 0;
    e.arg0 = m->allocated[e.device];
    put(m, e);
}

static void refusals_begin(struct made *m)
{
    for (uint16_t thread = 1; thread <= 8; thread++) {
        uint8_t op = thread == 4 ? VS_OP_PHYS_CREATE : VS_OP_ALLOC;
        refused(m, thread, op);
        if (thread == 2 || thread == 3)
            refused(m, thread, op);
    }
    granted(m, 3, VS_OP_ALLOC, VS_CALLER_UNKNOWN);
    granted(m, 4, VS_OP_PHYS_CREATE, VS_CALLER_CARVER);
    granted(m, 5, VS_OP_ALLOC, VS_CALLER_UNKNOWN);
    m->t += 60000000; /* nothing was heard of them: direct */
    put(m, (struct vs_event){.op = VS_OP_GRAPH_NODE, .thread = 9, .device = 0});
}

/* Absorbed: 1, 3 (refused twice), 4.  Reported: 2 (twice).  The others reached the program. */
static void refusals_end(struct made *m)
{
    granted(m, 1, VS_OP_ALLOC, VS_CALLER_CARVER);
    block_at(m, 2, 0, VS_OP_BLOCK_OOM);
    block_at(m, 3, PLACE(3), VS_OP_BLOCK_ALLOC);
    block_at(m, 4, PLACE(40), VS_OP_BLOCK_ALLOC);
    block_at(m, 5, PLACE(50), VS_OP_BLOCK_ALLOC);
    granted(m, 6, VS_OP_PHYS_CREATE, VS_CALLER_CARVER);
    put(m, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                             .thread = 7,
                             .device = -1,
                             .range = 1,
                             .address = m->names[0],
                             .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
}

static void watch_refusals(const char *name, enum end end)
{
    struct recording r;
    begin(&r, name, 1);
    refusals_begin(&r.made);
    assert_true(vs_writer_drain(r.w, false) > 0);
    if (end != NEVER)
        next_writer(&r, end);
    refusals_end(&r.made);
    assert_true(vs_writer_drain(r.w, false) > 0);
    while (vs_writer_drain(r.w, true) > 0) {
    }
    assert_int_equal(vs_writer_close(r.w, true), 0);
}

static int64_t asked(const char *name, const char *sql)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s.db", dir, name);
    return ask(path, sql);
}

static int64_t counted(const char *name, const char *counter)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT sum(value) FROM counter WHERE name = '%s'", counter);
    return asked(name, sql);
}

static void watched_refusals_are_decided_as_without(enum end end)
{
    for (int cut = 0; cut < 2; cut++) {
        const char *name = cut ? "cut" : "whole";
        pid_t child = fork();
        int status;
        if (child == 0) {
            watch_refusals(name, cut ? end : NEVER);
            _exit(0);
        }
        assert_true(waitpid(child, &status, 0) == child);
        assert_int_equal(status, 0);
        assert_int_equal(counted(name, "driver_out_of_memory"), 10);
        assert_int_equal(counted(name, "driver_out_of_memory_absorbed"), 4);
        assert_int_equal(counted(name, "driver_out_of_memory_reported"), 2);
    }
    assert_int_equal(compare(0), 0);
    forget_files();
}

TEST(each_refusal_that_is_watched_at_a_kill_is_decided_as_without_it)
{
    watched_refusals_are_decided_as_without(KILLED);
}

TEST(each_refusal_that_is_watched_at_an_exit_that_leaves_events_is_decided_by_them)
{
    watched_refusals_are_decided_as_without(CUT_SHORT);
}

/* ---- after the end ---- */

/* What threads record after the last drain is drained on the spot, by a writer that goes on with a whole
 * file. */
TEST(what_comes_after_a_clean_end_goes_on_with_its_steps_and_figures)
{
    struct recording r;
    begin(&r, "late", 1);
    for (int i = 0; i < 7; i++)
        put(&r.made, (struct vs_event){.op = VS_OP_STEP, .device = -1});
    put(&r.made,
        (struct vs_event){.op = VS_OP_SAMPLE, .device = 0, .size = 700, .arg0 = VS_SAMPLE_NVML_PROCESS});
    for (int i = 0; i < 2; i++) {
        assert_true(vs_writer_drain(r.w, true) > 0);
        assert_int_equal(vs_writer_close(r.w, true), 0);
        open_writer(&r);
        put(&r.made, (struct vs_event){.op = VS_OP_STEP, .device = -1});
        block_at(&r.made, DEVICES, 0, VS_OP_BLOCK_OOM); /* on device 0 */
    }
    assert_true(vs_writer_drain(r.w, true) > 0);
    assert_int_equal(vs_writer_close(r.w, true), 0);
    assert_int_equal(asked("late", "SELECT count(*) = 9 AND max(step) = 9 AND min(step) = 1 FROM step"), 1);
    assert_int_equal(asked("late", "SELECT min(step) = 9 AND max(step) = 10 FROM oom"), 1);
    assert_int_equal(asked("late", "SELECT count(*) = 2 AND min(process_used_bytes) = 700 FROM oom"), 1);
    forget_files();
}

int main(void)
{
    vs_vfs_alone(); /* as the drain's thread */
    return run_all_tests(make_dir, drop_dir);
}
