/* test_bounded.c - a database with a limit (max_bytes) whose log a reader keeps from being folded in. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "job_kit.h"
#include "trace/store/vfs.h"

static const char *const aggregates[] = {"phase_stat", "peak", "live", "peak_live", "phase", "counter", NULL};

/* A reader that stays in one transaction keeps the log from being folded in. */
TEST(log_that_a_reader_lets_grow_is_told_once_and_gone_at_the_end)
{
    struct job full, job;
    struct stat log = {0};
    char path[600];
    job_open(&full, "wfull");
    steps(&full, 400);
    job_close(&full);
    assert_int_equal(ask(full.db, "SELECT count(*) FROM loss WHERE code = 'held_log'"), 0);
    job_journal(&job, "wlog");
    job.max_bytes = 4 << 20;
    assert_int_equal(job_writer(&job), 0);
    stream_step(&job.s);
    drain(&job);
    sqlite3 *reader = look(job.db);
    assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM ev", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 1; i < 400; i++) {
        stream_step(&job.s);
        drain(&job);
    }
    snprintf(path, sizeof path, "%s-wal", job.db);
    assert_int_equal(stat(path, &log), 0);
    assert_true(log.st_size > 4 << 20); /* or the reader held nothing */
    sqlite3_close(reader);
    job_close(&job);
    sound(job.db);
    assert_int_equal(stat(path, &log), -1);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM loss WHERE code = 'held_log' AND events = 0"), 1);
    equal(full.db, job.db, aggregates);
}

int main(void)
{
    vs_vfs_alone(); /* as the drain's thread */
    return run_all_tests(make_dir, drop_dir);
}
