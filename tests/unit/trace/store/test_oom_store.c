/*
 * test_oom_store.c - out-of-memory in the database: the live set found among the events, written out, written
 * while events are thinned, and completed after a kill is the same set, the one that the job itself knew.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "unit/test.h"
#include "unit/trace/stream.h"
#include "trace/writer/writer.h"

static char dir[64];

struct job {
    char db[256], vsj[256], why[256];
    struct vs_journal *j;
    struct vs_writer *w;
    struct stream s;
    uint64_t max_bytes, living[3], blocks[3]; /* bytes and blocks at the first, largest and last */
};

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs_oom.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return getenv("KEEP") ? 0 : system(command);
}

static void emit(void *context, const struct vs_event *e)
{
    assert_true(vs_journal_append(context, e) != VS_SEQ_NONE);
}

static void job_open(struct job *job, const char *name, uint64_t max_bytes)
{
    memset(job, 0, sizeof *job);
    snprintf(job->db, sizeof job->db, "%s/%s.db", dir, name);
    snprintf(job->vsj, sizeof job->vsj, "%s/%s.vsj", dir, name);
    struct vs_journal_config c = {.ring_slots = 1 << 16, .database = job->db, .start_ns = 500};
    assert_int_equal(vs_journal_create(&job->j, job->vsj, &c), 0);
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, max_bytes);
    vs_journal_set_fact(job->j, "max_bytes", text);
    stream_init(&job->s, emit, job->j);
    for (int i = 0; i < 4; i++)
        job->s.name[i] = vs_journal_string(job->j, &"forwlogibackopti"[i * 4], 4);
    struct vs_writer_config w = {.path = job->db,
                                 .journal_path = job->vsj,
                                 .version = "test",
                                 .pid = 42,
                                 .rank = INT32_MIN,
                                 .max_bytes = max_bytes};
    assert_int_equal(vs_writer_open(&job->w, &w, job->j, job->why, sizeof job->why), 0);
}

static void drain(struct job *job)
{
    while (vs_writer_drain(job->w, false) > 0) {
    }
}

static void job_close(struct job *job)
{
    while (vs_writer_drain(job->w, true) > 0) {
    }
    assert_int_equal(vs_writer_close(job->w, true), 0);
    vs_journal_close(job->j);
}

static void note(struct job *job, int which)
{
    job->living[which] = job->s.allocated;
    job->blocks[which] = (uint64_t)job->s.depth;
}

/* The step has left what lives on; a few blocks more live at each out-of-memory alone. */
static void oom(struct job *job, uint64_t size, int which)
{
    for (uint64_t i = 0; i < 5 + job->s.step * 7 % 50; i++)
        stream_alloc(&job->s);
    stream_emit(&job->s,
                (struct vs_event){
                    .op = VS_OP_BLOCK_OOM, .size = size, .arg0 = job->s.allocated, .arg1 = job->s.reserved});
    note(job, which);
}

/* A job that runs out of memory again and again: first, largest, last, and goes on. */
static void run(struct job *job, int steps, bool drained)
{
    for (int i = 0; i < steps; i++) {
        stream_step(&job->s);
        if (i >= 3)
            oom(job, i == 5 ? 9ull << 30 : 1ull << 30, 2);
        if (i == 3)
            note(job, 0);
        if (i == 5)
            note(job, 1);
        if (drained)
            drain(job);
    }
    stream_step(&job->s);
    if (drained)
        drain(job);
}

static int64_t ask(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return value;
}

#define SET(role, what)                                                                                      \
    "SELECT " what " FROM live_at_oom WHERE oom_seq = (SELECT seq FROM oom WHERE role & " #role " ORDER BY " \
    "seq LIMIT 1)"

static void right(const struct job *job)
{
    assert_int_equal(ask(job->db, SET(1, "sum(size_bytes)")), job->living[0]);
    assert_int_equal(ask(job->db, SET(4, "sum(size_bytes)")), job->living[1]);
    assert_int_equal(ask(job->db, SET(2, "sum(size_bytes)")), job->living[2]);
    assert_int_equal(ask(job->db, SET(1, "count(*)")), job->blocks[0]);
    assert_int_equal(ask(job->db, SET(2, "count(*)")), job->blocks[2]);
    assert_int_equal(ask(job->db, "SELECT count(*) FROM oom"), 3);
    assert_int_equal(ask(job->db, "SELECT count(*) FROM oom o WHERE framework_bytes + direct_bytes <> "
                                  "(SELECT sum(size_bytes) FROM live_at_oom WHERE oom_seq = o.seq)"),
                     0);
    assert_int_equal(ask(job->db, "SELECT requested_bytes FROM oom WHERE role & 4"), 9ll << 30);
}

/* Rows of live_at_oom that only one of the two databases has. */
static int64_t differences(const char *a, const char *b)
{
    char sql[900];
    static const char columns[] = "oom_seq,phase,category,size_bytes,alloc_seq,address,t_alloc_ns,range";
    sqlite3 *db;
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_open(a, &db), SQLITE_OK);
    snprintf(sql, sizeof sql, "ATTACH '%s' AS other", b);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    snprintf(
        sql, sizeof sql,
        "SELECT count(*) FROM (SELECT * FROM (SELECT %s FROM main.live_at_oom EXCEPT SELECT %s FROM "
        "other.live_at_oom) "
        "UNION ALL SELECT * FROM (SELECT %s FROM other.live_at_oom EXCEPT SELECT %s FROM main.live_at_oom))",
        columns, columns, columns, columns);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

TEST(set_is_exact_while_it_runs_and_written_out_at_the_end)
{
    struct job job;
    job_open(&job, "plain", 0);
    run(&job, 12, true);
    assert_int_equal(ask(job.db, "SELECT sum(stored) FROM oom"), 0); /* from the events */
    right(&job);
    char command[700];
    snprintf(command, sizeof command, "cd %s && sqlite3 plain.db '.backup events.db'", dir);
    bool compare = system(command) == 0;
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT min(stored) FROM oom"), 1);
    right(&job);
    snprintf(command, sizeof command, "%s/events.db", dir);
    if (compare)
        assert_int_equal(differences(job.db, command), 0);
}

static void die(struct job *job, const char *name, uint64_t max_bytes, int steps, int drained)
{
    pid_t child = fork();
    if (child == 0) {
        job_open(job, name, max_bytes);
        for (int i = 0; i < steps; i++) {
            stream_step(&job->s);
            if (i >= 3)
                oom(job, i == 5 ? 9ull << 30 : 1ull << 30, 2);
            if (i < drained)
                drain(job);
        }
        stream_step(&job->s);
        kill(getpid(), SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
}

TEST(killed_and_recovered_equals_undisturbed_wherever_the_kill_falls)
{
    struct job whole, job;
    job_open(&whole, "whole", 0);
    run(&whole, 12, true);
    job_close(&whole);
    for (int drained = 0; drained <= 12; drained += 2) {
        char name[32], vsj[300], db[300], why[256] = "";
        snprintf(name, sizeof name, "killed%d", drained);
        die(&job, name, 0, 12, drained);
        snprintf(vsj, sizeof vsj, "%s/%s.vsj", dir, name);
        snprintf(db, sizeof db, "%s/%s.db", dir, name);
        assert_true(vs_recover(vsj, NULL, why, sizeof why) >= 0);
        assert_int_equal(differences(whole.db, db), 0);
        assert_int_equal(ask(db, "SELECT count(*) FROM oom"), 3);
    }
}

TEST(thinned_events_have_their_sets_written)
{
    struct job job;
    job_open(&job, "thin", 2 << 20);
    run(&job, 60, true);
    job_close(&job);
    assert_true(ask(job.db, "SELECT count(*) FROM folded") > 0);
    assert_int_equal(ask(job.db, "SELECT min(stored) FROM oom"), 1);
    right(&job);
    assert_true(ask(job.db, "SELECT page_count * 4096 FROM pragma_page_count") <= 2 << 20);
}

TEST(thinned_and_killed_is_recovered_with_its_sets)
{
    struct job whole, job;
    job_open(&whole, "thin_whole", 2 << 20);
    run(&whole, 60, true);
    job_close(&whole);
    for (int drained = 30; drained <= 60; drained += 10) {
        char name[32], vsj[300], db[300], why[256] = "";
        snprintf(name, sizeof name, "thin_killed%d", drained);
        die(&job, name, 2 << 20, 60, drained);
        snprintf(vsj, sizeof vsj, "%s/%s.vsj", dir, name);
        snprintf(db, sizeof db, "%s/%s.db", dir, name);
        assert_true(vs_recover(vsj, NULL, why, sizeof why) >= 0);
        assert_int_equal(differences(whole.db, db), 0);
    }
}

TEST(refusal_left_open_by_a_kill_is_decided_after_it)
{
    struct job job;
    char why[256] = "";
    pid_t child = fork();
    if (child == 0) {
        job_open(&job, "open", 0);
        stream_step(&job.s);
        for (int i = 0; i < 3; i++)
            stream_emit(
                &job.s,
                (struct vs_event){
                    .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .size = 7777, .arg1 = 10, .status = 2});
        drain(&job);
        stream_emit(&job.s, (struct vs_event){.op = VS_OP_BLOCK_OOM,
                                              .size = 7000,
                                              .arg0 = job.s.allocated,
                                              .arg1 = job.s.reserved});
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    snprintf(job.vsj, sizeof job.vsj, "%s/open.vsj", dir);
    snprintf(job.db, sizeof job.db, "%s/open.db", dir);
    assert_int_equal(ask(job.db, "SELECT sum(role) FROM oom"), 8 + 16);
    assert_true(vs_recover(job.vsj, NULL, why, sizeof why) >= 0);
    assert_int_equal(ask(job.db, "SELECT role FROM oom"), 1 + 2 + 4);
    assert_int_equal(ask(job.db, "SELECT refusals FROM oom"), 3);
    assert_int_equal(ask(job.db, "SELECT asked_driver_bytes FROM oom"), 7777);
    assert_int_equal(ask(job.db, "SELECT value FROM counter WHERE name = 'driver_out_of_memory_reported'"),
                     3);
}

int main(void)
{
    return run_all_tests(make_dir, drop_dir);
}
