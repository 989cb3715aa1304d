/*
 * test_oom_store.c - the live set of an out-of-memory is the one that the job itself knew, whether found
 * among the events, written out, or completed after a kill.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job_kit.h"

static uint64_t living[3], blocks[3]; /* of the job: bytes and blocks at the first, largest and last */

static void begin(struct job *job, const char *name, uint64_t max_bytes)
{
    job_limited(job, name, 1 << 16, max_bytes);
}

static void note(struct job *job, int which)
{
    living[which] = job->s.allocated;
    blocks[which] = (uint64_t)job->s.depth;
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

#define SET(role, what)                                                                                      \
    "SELECT " what " FROM live_at_oom WHERE oom_seq = (SELECT seq FROM oom WHERE role & " #role " ORDER BY " \
    "seq LIMIT 1)"

static void right(const struct job *job)
{
    assert_int_equal(ask(job->db, SET(1, "sum(size_bytes)")), living[0]);
    assert_int_equal(ask(job->db, SET(4, "sum(size_bytes)")), living[1]);
    assert_int_equal(ask(job->db, SET(2, "sum(size_bytes)")), living[2]);
    assert_int_equal(ask(job->db, SET(1, "count(*)")), blocks[0]);
    assert_int_equal(ask(job->db, SET(2, "count(*)")), blocks[2]);
    assert_int_equal(ask(job->db, "SELECT count(*) FROM oom"), 3);
    assert_int_equal(ask(job->db, "SELECT count(*) FROM oom o WHERE framework_bytes + direct_bytes <> "
                                  "(SELECT sum(size_bytes) FROM live_at_oom WHERE oom_seq = o.seq)"),
                     0);
    assert_int_equal(ask(job->db, "SELECT requested_bytes FROM oom WHERE role & 4"), 9ll << 30);
}

TEST(set_is_exact_while_it_runs_and_written_out_at_the_end)
{
    struct job job;
    begin(&job, "plain", 0);
    run(&job, 12, true);
    assert_int_equal(ask(job.db, "SELECT sum(stored) FROM oom"), 0); /* from the events */
    right(&job);
    char events[128], sql[200];
    snprintf(events, sizeof events, "%s/events.db", dir);
    snprintf(sql, sizeof sql, "VACUUM INTO '%s'", events);
    sqlite3 *db = look(job.db);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT min(stored) FROM oom"), 1);
    right(&job);
    equal(job.db, events, (const char *const[]){"live_at_oom", NULL});
}

TEST(thinned_events_have_their_sets_written)
{
    struct job job;
    begin(&job, "thin", 2 << 20);
    run(&job, 60, true);
    job_close(&job);
    assert_true(ask(job.db, "SELECT count(*) FROM folded") > 0);
    assert_int_equal(ask(job.db, "SELECT min(stored) FROM oom"), 1);
    right(&job);
    assert_true(ask(job.db, "SELECT page_count * 4096 FROM pragma_page_count") <= 2 << 20);
}

TEST(refusal_left_open_by_a_kill_is_decided_after_it)
{
    struct job job;
    pid_t child = fork();
    if (child == 0) {
        begin(&job, "open", 0);
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
    job_paths(&job, "open");
    assert_int_equal(ask(job.db, "SELECT sum(role) FROM oom"), 8 + 16);
    job_recover(&job, "open");
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
