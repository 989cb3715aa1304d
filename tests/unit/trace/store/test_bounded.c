/*
 * test_bounded.c - a database with a limit (max_bytes) stays below it, and its peaks and totals are those of
 * a file without one; where a reader keeps the log from being folded in, that is said.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "job_kit.h"
#include "trace/store/vfs.h"

static const char *const aggregates[] = {"phase_stat", "peak", "live", "peak_live", "phase", "counter", NULL};

static void thinned_run(const char *name, int n, uint64_t max_bytes, struct job *job)
{
    job_journal(job, name);
    job->max_bytes = max_bytes;
    assert_int_equal(job_writer(job), 0);
    for (int i = 0; i < n; i++) {
        stream_step(&job->s);
        drain(job);
        struct stat st;
        assert_int_equal(stat(job->db, &st), 0);
        if (max_bytes)
            assert_true((uint64_t)st.st_size <= max_bytes);
    }
    job_close(job);
    sound(job->db);
}

TEST(limited_file_stays_below_and_its_peaks_are_exact)
{
    struct job full, thin;
    struct stat st;
    thinned_run("full", 400, 0, &full);
    thinned_run("thin", 400, 2 << 20, &thin);
    equal(full.db, thin.db, aggregates);
    assert_int_equal(stat(thin.db, &st), 0);
    assert_true(st.st_size <= 2 << 20);
    assert_int_equal(ask(thin.db, "SELECT count(*) FROM meta WHERE key='thinned_from_seq'"), 0);
    assert_int_equal(ask(thin.db, "SELECT sum(size_bytes) FROM live_at_peak"),
                     ask(full.db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(ask(thin.db, "SELECT max(allocated_bytes) FROM timeline"),
                     ask(full.db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(ask(thin.db, "SELECT sum(size_bytes) FROM leak"), thin.s.allocated);
    assert_int_equal(ask(thin.db, "SELECT sum(size_bytes) FROM allocation WHERE free_seq IS NULL AND "
                                  "op='block_alloc'"),
                     thin.s.allocated);
}

/* A reader that stays in one transaction keeps the log from being folded in. */
TEST(log_that_a_reader_lets_grow_is_told_once_and_gone_at_the_end)
{
    struct job full, job;
    struct stat log = {0};
    char path[600];
    thinned_run("wfull", 400, 0, &full);
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

/* Driver events and ranges that name phases. */
static void flood(struct job *job, const char *name, uint64_t max_bytes)
{
    job_journal(job, name);
    job->max_bytes = max_bytes;
    assert_int_equal(job_writer(job), 0);
    uint64_t t = 0;
    for (uint32_t i = 1; i <= 60000; i++) {
        uint64_t address = (i % 64 + 1) << 20;
        emit(job->j, &(struct vs_event){.op = VS_OP_RANGE_PUSH,
                                        .range = i,
                                        .t_ns = t += 100,
                                        .thread = 1,
                                        .address = job->s.name[i % 4],
                                        .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
        emit(job->j, &(struct vs_event){.op = VS_OP_ALLOC,
                                        .space = VS_SPACE_POOL,
                                        .address = address,
                                        .size = i * 512,
                                        .range = i,
                                        .t_ns = t += 100,
                                        .thread = 1});
        if (i % 3)
            emit(job->j,
                 &(struct vs_event){
                     .op = VS_OP_FREE, .address = address, .range = i, .t_ns = t += 100, .thread = 1});
        emit(job->j, &(struct vs_event){.op = VS_OP_RANGE_POP, .range = i, .t_ns = t += 100, .thread = 1});
        if (i % 1000 == 0)
            drain(job);
    }
    job_close(job);
    sound(job->db);
}

TEST(flood_of_driver_events_and_ranges_stays_below_as_well)
{
    static const char *const totals[] = {"phase_stat", "peak", "counter", NULL};
    struct job full, thin;
    struct stat st;
    flood(&full, "ffull", 0);
    flood(&thin, "fthin", 2 << 20);
    equal(full.db, thin.db, totals);
    assert_int_equal(stat(full.db, &st), 0);
    assert_true(st.st_size > 8 << 20);
    assert_int_equal(stat(thin.db, &st), 0);
    assert_true(st.st_size <= 2 << 20);
}

int main(void)
{
    vs_vfs_alone(); /* as the drain's thread */
    return run_all_tests(make_dir, drop_dir);
}
