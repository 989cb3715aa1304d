/*
 * test_store.c - journal to database and back: round trips, kills, limits, hosts with bad manners.
 *
 * The events are those of stream.h.  "Killed" means a child process that ends with _exit in the middle,
 * having drained some of what it recorded, and a recover by the parent; such a database must equal, row for
 * row, the one of a run that was not disturbed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "unit/trace/stream.h"
#include "trace/store/store.h"
#include "trace/writer/writer.h"

static char dir[64];

static bool with_surface; /* jobs use the whole surface */

struct job {
    char db[256], vsj[256], why[256];
    struct vs_journal *j;
    struct vs_writer *w;
    struct stream s;
    uint64_t max_bytes;
    bool no_pid; /* the configuration does not know it */
};

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/vs_store.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int drop_dir(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return getenv("KEEP") ? 0 : system(command);
}

/* ---- a job ---- */

static void emit(void *context, const struct vs_event *e)
{
    assert_true(vs_journal_append(context, e) != VS_SEQ_NONE);
}

static void names(struct job *job)
{
    static const char *const phase[] = {"forward", "logits", "backward", "optimizer"};
    for (int i = 0; i < 4; i++)
        job->s.name[i] = vs_journal_string(job->j, phase[i], strlen(phase[i]));
    assert_int_equal(vs_journal_thread(job->j, 100, 0, "python"), 1);
    assert_int_equal(vs_journal_thread(job->j, 101, VS_THREAD_AUTOGRAD, "pt_autograd_0"), 2);
}

static void job_journal_of(struct job *job, const char *name, uint32_t slots)
{
    memset(job, 0, sizeof *job);
    snprintf(job->db, sizeof job->db, "%s/%s.db", dir, name);
    snprintf(job->vsj, sizeof job->vsj, "%s/%s.vsj", dir, name);
    struct vs_journal_config c = {
        .ring_slots = slots, .database = job->db, .start_ns = 500, .start_realtime_ns = 7};
    assert_int_equal(vs_journal_create(&job->j, job->vsj, &c), 0);
    stream_init(&job->s, emit, job->j);
    job->s.surface = with_surface;
    names(job);
}

static void job_journal(struct job *job, const char *name)
{
    job_journal_of(job, name, 1 << 16);
}

static int job_writer(struct job *job)
{
    struct vs_writer_config c = {.path = job->db,
                                 .journal_path = job->vsj,
                                 .version = "test",
                                 .host = "here",
                                 .command = "python train.py",
                                 .pid = job->no_pid ? INT32_MIN : 42,
                                 .rank = INT32_MIN,
                                 .local_rank = 3,
                                 .world_size = INT32_MIN,
                                 .max_bytes = job->max_bytes};
    return vs_writer_open(&job->w, &c, job->j, job->why, sizeof job->why);
}

static void job_open(struct job *job, const char *name)
{
    job_journal(job, name);
    assert_int_equal(job_writer(job), 0);
}

static void drain(struct job *job)
{
    long n;
    while ((n = vs_writer_drain(job->w, false)) > 0) {
    }
    assert_int_equal(n, 0);
}

static void job_close(struct job *job)
{
    while (vs_writer_drain(job->w, true) > 0) {
    }
    assert_int_equal(vs_writer_close(job->w, true), 0);
    vs_journal_close(job->j);
}

static void steps(struct job *job, int n)
{
    for (int i = 0; i < n; i++) {
        stream_step(&job->s);
        drain(job);
    }
}

/* ---- looking at databases ---- */

static sqlite3 *look(const char *path)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return db;
}

static int64_t ask(const char *path, const char *sql)
{
    sqlite3 *db = look(path);
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return value;
}

static void sound(const char *path)
{
    assert_int_equal(ask(path, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
}

/* Every row of TABLES in one database is in the other, and the other way round. */
static void equal(const char *a, const char *b, const char *const *tables)
{
    sqlite3 *db = look(a);
    char sql[512];
    snprintf(sql, sizeof sql, "ATTACH '%s' AS other", b);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    for (; *tables; tables++) {
        for (int way = 0; way < 2; way++) {
            sqlite3_stmt *q;
            snprintf(sql, sizeof sql, "SELECT count(*) FROM (SELECT * FROM %s.%s EXCEPT SELECT * FROM %s.%s)",
                     way ? "main" : "other", *tables, way ? "other" : "main", *tables);
            if (sqlite3_prepare_v2(db, sql, -1, &q, NULL) != SQLITE_OK)
                fail_msg("%s", sqlite3_errmsg(db));
            assert_int_equal(sqlite3_step(q), SQLITE_ROW);
            if (sqlite3_column_int64(q, 0))
                fail_msg("%s: %s differs from %s in %lld rows", *tables, a, b, sqlite3_column_int64(q, 0));
            sqlite3_finalize(q);
        }
    }
    sqlite3_close(db);
}

static const char *const everything[] = {"ev",           "kind",    "rng",        "range_peak", "phase_stat",
                                         "peak",         "live",    "peak_live",  "step",       "phase",
                                         "zone",         "thread",  "string",     "counter",    "mismatch",
                                         "arena_sample", "stretch", "range_fold", "sample",     NULL};
static const char *const aggregates[] = {"phase_stat", "peak", "live", "peak_live", "phase", "counter", NULL};

/* ---- tests ---- */

static void a_run_ends_as_one_sound_file_with_exact_totals(void **state)
{
    struct job job;
    char wal[300];
    job_open(&job, "round");
    steps(&job, 30);
    uint64_t allocated = job.s.allocated, reserved = job.s.reserved;
    job_close(&job);
    sound(job.db);
    assert_int_equal(ask(job.db, "SELECT end_bytes FROM peak WHERE kind='framework'"), allocated);
    assert_int_equal(ask(job.db, "SELECT end_bytes FROM peak WHERE kind='managed_reserved'"), reserved);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM mismatch"), 0);
    assert_int_equal(ask(job.db, "SELECT max(allocated_bytes) FROM timeline"),
                     ask(job.db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(ask(job.db, "SELECT sum(size_bytes) FROM live_at_peak"),
                     ask(job.db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(ask(job.db, "SELECT sum(size_bytes) FROM leak"), allocated);
    assert_int_equal(
        ask(job.db, "SELECT sum(size_bytes) FROM allocation WHERE free_seq IS NULL AND op='block_alloc'"),
        allocated);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM allocation"),
                     ask(job.db, "SELECT count(*) FROM event WHERE op IN ('alloc','block_alloc')"));
    assert_int_equal(ask(job.db, "SELECT count(*) FROM phase_peak"), 5);
    assert_int_equal(ask(job.db, "SELECT ranges FROM phase_peak WHERE phase='backward'"), 30);
    assert_int_equal(ask(job.db, "SELECT value FROM meta WHERE key='clean_end'"), 1);
    assert_int_equal(ask(job.db, "SELECT rank IS NULL AND local_rank=3 AND end_ns>0 FROM process"), 1);
    snprintf(wal, sizeof wal, "%s-wal", job.db);
    assert_int_not_equal(access(wal, F_OK), 0);
}

static void peaks_of_ranges_equal_those_of_their_rows(void **state)
{
    struct job job;
    job_open(&job, "peaks");
    steps(&job, 10);
    job_close(&job);
    assert_int_equal(
        ask(job.db,
            "SELECT count(*) FROM rng r JOIN range_peak p ON p.range=r.id WHERE p.allocated_bytes <> "
            "(SELECT max(allocated_bytes) FROM event e WHERE e.seq >= r.first_seq AND e.t_ns <= r.t_pop)"),
        0);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM rng"), 40);
    assert_int_equal(
        ask(job.db, "SELECT count(*) FROM zone z WHERE z.max_allocated < (SELECT max(allocated_bytes) FROM "
                    "event e WHERE e.seq BETWEEN z.first_seq AND z.last_seq AND "
                    "e.phase=(SELECT name FROM phase WHERE id=z.phase) AND e.size_bytes > 0)"),
        0);
}

/* ---- a ring that was full to its last slot ---- */

static bool offer(struct job *job, uint8_t op, uint64_t address)
{
    struct vs_event e = {.op = op,
                         .space = VS_SPACE_DEVICE,
                         .address = address << 9,
                         .size = op == VS_OP_ALLOC ? 512 : 0,
                         .t_ns = 600};
    return vs_journal_try_append(job->j, &e) != VS_SEQ_NONE;
}

#define BOUNDS(curve)                                                                                        \
    "SELECT count(*) FROM upper_bound WHERE kind='" curve "' AND device=0 AND from_seq=65 AND "              \
    "(SELECT peak_bytes FROM peak WHERE kind='" curve "')=56*512 AND to_seq "

/* 56 allocations, 14 frees of which the ring takes 8; then whatever the ring has room for. */
static void lose_ends(struct job *job, const char *name)
{
    job_journal_of(job, name, 64);
    for (uint64_t i = 1; i <= 56; i++)
        assert_true(offer(job, VS_OP_ALLOC, i));
    for (uint64_t i = 1; i <= 14; i++)
        assert_int_equal(offer(job, VS_OP_FREE, i), i <= 8);
    assert_int_equal(job_writer(job), 0);
    drain(job);
    for (uint64_t i = 57; i <= 60; i++)
        assert_true(offer(job, VS_OP_ALLOC, i));
}

static void ends_that_the_ring_lost_are_told_apart_and_from_there_on_totals_are_upper_bounds(void **state)
{
    struct job job;
    lose_ends(&job, "ends");
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT sum(events) FROM loss WHERE code = 'ring_full_ends'"), 6);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM loss"), 1);
    assert_int_equal(ask(job.db, BOUNDS("allocated") "IS NULL"), 1);
    assert_int_equal(ask(job.db, BOUNDS("reserved") "IS NULL"), 1);
}

/* In a child, which leaves its first writer as a kill would. */
static void outlive_a_kill(struct job *job)
{
    lose_ends(job, "ends_killed");
    drain(job);
    assert_int_equal(job_writer(job), 0);
    for (uint64_t i = 15; i <= 60; i++)
        assert_true(offer(job, VS_OP_FREE, i));
    drain(job);
    for (uint64_t i = 9; i <= 14; i++) { /* handed out again */
        assert_true(offer(job, VS_OP_ALLOC, i));
        assert_true(offer(job, VS_OP_FREE, i));
    }
    job_close(job);
}

static void upper_bounds_outlive_a_kill_and_end_where_nothing_is_alive_any_more(void **state)
{
    struct job job;
    int status;
    pid_t child = fork();
    if (child == 0) {
        outlive_a_kill(&job);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    snprintf(job.db, sizeof job.db, "%s/ends_killed.db", dir);
    assert_int_equal(ask(job.db, "SELECT end_bytes FROM peak WHERE kind='allocated'"), 0);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM upper_bound WHERE to_seq IS NULL"), 0);
    assert_int_equal(ask(job.db, BOUNDS("allocated") "> 65"), 1);
    assert_int_equal(ask(job.db, "SELECT sum(events) FROM loss"), 6);
}

/* Records in a child that drains what the first DRAINED steps made, and is killed; the journal stays. */
static void die_in_child(struct job *job, const char *name, int all, int drained, uint64_t max_bytes)
{
    pid_t child = fork();
    if (child == 0) {
        job_journal(job, name);
        job->max_bytes = max_bytes;
        if (max_bytes) {
            char text[32];
            snprintf(text, sizeof text, "%" PRIu64, max_bytes);
            vs_journal_set_fact(job->j, "max_bytes", text);
        }
        vs_journal_set_fact(job->j, "host", "here");
        if (job_writer(job) < 0)
            _exit(1);
        for (int i = 0; i < all; i++) {
            stream_step(&job->s);
            if (i < drained)
                drain(job);
        }
        kill(getpid(), SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    snprintf(job->db, sizeof job->db, "%s/%s.db", dir, name);
    snprintf(job->vsj, sizeof job->vsj, "%s/%s.vsj", dir, name);
}

static void killed_and_recovered_equals_undisturbed(void **state)
{
    struct job whole, killed;
    job_open(&whole, "whole");
    for (int i = 0; i < 12; i++) {
        stream_step(&whole.s);
        if (i < 8)
            drain(&whole);
    }
    job_close(&whole);
    die_in_child(&killed, "killed", 12, 8, 0);
    assert_true(vs_recover(killed.vsj, NULL, killed.why, sizeof killed.why) > 0);
    sound(killed.db);
    equal(whole.db, killed.db, everything);
    assert_int_equal(ask(killed.db, "SELECT value FROM meta WHERE key='clean_end'"), 0);
    assert_int_not_equal(access(killed.vsj, F_OK), 0);
}

/* The same with all that a driver has to offer, some of it open across the kill. */
static void surface_killed_and_recovered_equals_undisturbed(void **state)
{
    struct job whole, killed;
    with_surface = true;
    job_open(&whole, "whole_surface");
    for (int i = 0; i < 12; i++) {
        stream_step(&whole.s);
        if (i < 8)
            drain(&whole);
    }
    job_close(&whole);
    die_in_child(&killed, "killed_surface", 12, 8, 0);
    with_surface = false;
    assert_true(vs_recover(killed.vsj, NULL, killed.why, sizeof killed.why) > 0);
    sound(killed.db);
    equal(whole.db, killed.db, everything);
    assert_int_equal(ask(whole.db, "SELECT count(*) FROM mismatch"), 0);
    assert_true(ask(whole.db, "SELECT count(*) FROM event WHERE op='context_freed'") > 40);
    /* what the views pair by hand is what the ledger counted */
    assert_int_equal(ask(whole.db, "SELECT sum(size_bytes) FROM live_at_peak"),
                     ask(whole.db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(ask(whole.db,
                         "SELECT sum(size_bytes) FROM allocation WHERE free_seq IS NULL AND NOT managed AND "
                         "space IN ('none','device','pool','array','graph','arena')"),
                     ask(whole.db, "SELECT end_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(
        ask(whole.db, "SELECT sum(size_bytes) FROM allocation WHERE free_seq IS NULL AND space='imported'"),
        7000);
    assert_int_equal(
        ask(whole.db, "SELECT count(*) FROM event WHERE op='context_create' AND size_bytes IS NULL"), 6);
    assert_int_equal(ask(whole.db, "SELECT min(size_bytes) FROM event WHERE op='limit'"), -4096);
}

static void killed_before_the_first_commit_is_recovered_from_nothing(void **state)
{
    struct job whole, killed;
    job_open(&whole, "whole0");
    for (int i = 0; i < 3; i++)
        stream_step(&whole.s);
    job_close(&whole);
    die_in_child(&killed, "killed0", 3, 0, 0);
    unlink(killed.db);
    assert_true(vs_recover(killed.vsj, NULL, killed.why, sizeof killed.why) > 0);
    equal(whole.db, killed.db, everything);
    assert_int_equal(ask(killed.db, "SELECT count(*) FROM process WHERE host='here'"), 1);
}

static void recover_refuses_while_the_owner_lives(void **state)
{
    struct job job;
    job_open(&job, "alive");
    stream_step(&job.s);
    assert_int_equal(vs_recover(job.vsj, NULL, job.why, sizeof job.why), -EBUSY);
    assert_non_null(strstr(job.why, "still runs"));
    job_close(&job);
}

/* ---- limits ---- */

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

static void limited_file_stays_below_and_its_peaks_are_exact(void **state)
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
static void log_that_a_reader_lets_grow_is_told_once_and_gone_at_the_end(void **state)
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

static void flood_of_driver_events_and_ranges_stays_below_as_well(void **state)
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

static void folded_run_that_was_killed_is_recovered_exactly(void **state)
{
    struct job whole, killed;
    uint64_t max = 2 << 20;
    job_journal(&whole, "twhole");
    whole.max_bytes = max;
    assert_int_equal(job_writer(&whole), 0);
    for (int i = 0; i < 60; i++) {
        stream_step(&whole.s);
        if (i < 50)
            drain(&whole);
    }
    job_close(&whole);
    die_in_child(&killed, "tkilled", 60, 50, max);
    assert_true(vs_recover(killed.vsj, NULL, killed.why, sizeof killed.why) > 0);
    assert_true(ask(killed.db, "SELECT count(*) FROM folded") > 0);
    equal(whole.db, killed.db, everything);
    sound(killed.db);
}

static void full_disk_is_an_error_that_can_be_repeated(void **state)
{
    struct job job;
    struct rlimit before, tight = {400000, RLIM_INFINITY};
    job_open(&job, "disk");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &tight);
    long n = 0;
    for (int i = 0; i < 12; i++) {
        stream_step(&job.s);
        if (n >= 0)
            while ((n = vs_writer_drain(job.w, false)) > 0) {
            }
    }
    assert_true(n == -ENOSPC || n == -EFBIG || n == -EIO);
    setrlimit(RLIMIT_FSIZE, &before);
    uint64_t allocated = job.s.allocated;
    job_close(&job);
    sound(job.db);
    assert_int_equal(ask(job.db, "SELECT end_bytes FROM peak WHERE kind='framework'"), allocated);
    assert_int_equal(ask(job.db, "SELECT count(*)=max(seq) FROM ev"), 1);
}

/* ---- other people's files ---- */

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void foreign_and_newer_files_are_refused_untouched(void **state)
{
    struct job job;
    struct stat before, after;
    job_journal(&job, "foreign");
    put(job.db, "these are the host's own notes, no database at all; long enough to be read as a header....");
    stat(job.db, &before);
    assert_int_equal(job_writer(&job), -EINVAL);
    assert_non_null(strstr(job.why, "not a database of vramscope"));
    stat(job.db, &after);
    assert_int_equal(before.st_size, after.st_size);
    unlink(job.db);
    sqlite3 *db;
    sqlite3_open(job.db, &db);
    sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(job_writer(&job), -EINVAL);
    assert_non_null(strstr(job.why, "another program"));
    unlink(job.db);
    assert_int_equal(job_writer(&job), 0);
    vs_writer_close(job.w, false);
    sqlite3_open(job.db, &db);
    sqlite3_exec(db, "UPDATE meta SET value=99 WHERE key='schema_version'", NULL, NULL, NULL);
    assert_int_equal(job_writer(&job), -EPROTO);
    assert_non_null(strstr(job.why, "newer"));
    sqlite3_exec(db, "UPDATE meta SET value=3 WHERE key='schema_version'", NULL, NULL, NULL);
    sqlite3_close(db);
    assert_int_equal(job_writer(&job), -EPROTO);
    assert_non_null(strstr(job.why, "older"));
    vs_journal_close(job.j);
}

static void a_process_without_a_known_pid_has_none_in_the_database(void **state)
{
    struct job job;
    job_journal(&job, "nopid");
    job.no_pid = true;
    assert_int_equal(job_writer(&job), 0);
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM process WHERE pid IS NULL AND rank IS NULL"), 1);
}

static void directory_that_is_not_there_is_an_error(void **state)
{
    struct job job;
    job_journal(&job, "nodir");
    snprintf(job.db, sizeof job.db, "%s/no/such/x.db", dir);
    assert_true(job_writer(&job) < 0);
    assert_non_null(strstr(job.why, "no/such"));
    vs_journal_close(job.j);
}

/* ---- hosts with bad manners ---- */

static void host_closes_every_descriptor_and_reuses_the_numbers(void **state)
{
    struct job job;
    char name[128], own[256];
    job_open(&job, "fds");
    steps(&job, 3);
    snprintf(own, sizeof own, "%s/own", dir);
    put(own, "");
    int reused = 0;
    for (int fd = 3; fd < 2000; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        char target[512] = "";
        if (readlink(name, target, sizeof target - 1) < 0 || !strstr(target, "fds.db"))
            continue;
        assert_true(fd >= 500); /* they sit high */
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(fd);
        int mine = open(own, O_RDWR);
        if (mine != fd) {
            dup2(mine, fd);
            close(mine);
        }
        reused++;
    }
    assert_true(reused >= 2);
    steps(&job, 3);
    uint64_t allocated = job.s.allocated;
    job_close(&job);
    struct stat st;
    stat(own, &st);
    assert_int_equal(st.st_size, 0); /* not one byte of ours in the host's file */
    sound(job.db);
    assert_int_equal(ask(job.db, "SELECT end_bytes FROM peak WHERE kind='framework'"), allocated);
    for (int fd = 500; fd < 2000; fd++)
        close(fd);
}

static void hosts_own_sqlite_may_open_and_close_the_same_file(void **state)
{
    struct job job;
    job_open(&job, "both");
    for (int i = 0; i < 10; i++) {
        steps(&job, 1);
        assert_true(ask(job.db, "SELECT max(seq) FROM ev") > 0);
        pid_t child = fork(); /* and another process, which would take over if our locks were gone */
        if (child == 0) {
            sqlite3 *db;
            sqlite3_open(job.db, &db);
            sqlite3_exec(db, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
            sqlite3_exec(db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
            sqlite3_close(db);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    uint64_t allocated = job.s.allocated;
    job_close(&job);
    sound(job.db);
    assert_int_equal(ask(job.db, "SELECT end_bytes FROM peak WHERE kind='framework'"), allocated);
}

static void readers_see_whole_batches_while_it_runs(void **state)
{
    struct job job;
    job_open(&job, "live");
    for (int i = 0; i < 5; i++) {
        steps(&job, 1);
        assert_int_equal(ask(job.db, "SELECT max(seq)=(SELECT upto_seq FROM mark) FROM ev"), 1);
        assert_int_equal(ask(job.db, "SELECT sum(size_bytes) FROM live_at_peak"),
                         ask(job.db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
        assert_int_equal(ask(job.db, "SELECT sum(size_bytes) FROM leak"), job.s.allocated);
    }
    job_close(&job);
}

static void network_mode_writes_without_shared_memory(void **state)
{
    struct job job;
    struct vs_store *s;
    char shm[300];
    job_journal(&job, "net");
    struct vs_store_config c = {.path = job.db, .network = true, .start_realtime_ns = 7};
    assert_int_equal(vs_store_open(&s, &c, job.j, job.why, sizeof job.why), 0);
    snprintf(shm, sizeof shm, "%s-shm", job.db);
    assert_int_not_equal(access(shm, F_OK), 0);
    assert_int_equal(vs_store_close(s, 5), 0);
    sound(job.db);
    vs_journal_close(job.j);
}

/* ---- stacks ---- */

static void owner_is_the_first_library_that_is_not_cudas(void **state)
{
    struct job job;
    job_open(&job, "owner");
    uint32_t module[3], stack = 0;
    const char *path[] = {"/usr/lib/libpython3.12.so", "/opt/nccl/libnccl.so.2", "/usr/lib/libcuda.so.1"};
    for (int i = 0; i < 3; i++) {
        struct vs_module_row m = {.base = 0x1000u * (unsigned)(i + 1), .start = 0, .end = 0x100};
        m.path = vs_journal_string(job.j, path[i], strlen(path[i]));
        module[i] = vs_journal_module(job.j, &m);
        stack = vs_journal_stack(job.j, stack,
                                 vs_journal_frame(job.j, 0x1000u * (unsigned)(i + 1) + 5, module[i]));
    }
    emit(job.j,
         &(struct vs_event){
             .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .address = 0x1000, .size = 777, .stack = stack});
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT owner='libnccl.so.2' AND size_bytes=777 FROM leak"), 1);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM stack"), 3);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM frame WHERE offset=5"), 3);
}

static uint32_t python_frame(struct job *job, const char *file, uint32_t line, const char *function)
{
    return vs_journal_named_frame(job->j, VS_FRAME_PYTHON,
                                  vs_journal_string(job->j, function, strlen(function)),
                                  vs_journal_string(job->j, file, strlen(file)), line);
}

static uint32_t marking(struct job *job, enum vs_frame_kind kind, const char *name)
{
    return vs_journal_named_frame(job->j, kind, vs_journal_string(job->j, name, strlen(name)), 0, 0);
}

/* Stacks of backward, each innermost frame first: what ran, the node, the forward. */
static void what_was_born_in_backward_has_a_line_that_ran_there_or_else_the_forwards(void **state)
{
    enum { USERS = 'u', TORCH = 't', NODE = 'n', LAYER = 'l' };
    static const struct {
        const char *frames, *line, *layer;
    } cases[] = {{"nu", "forward: /a/train.py:2 f", NULL},
                 {"ntu", "forward: /a/train.py:3 f", NULL},
                 {"nt", "forward: /v/site-packages/torch/a.py:2 f", NULL},
                 {"unu", "/a/train.py:1 f", NULL},
                 {"tnu", "forward: /a/train.py:3 f", NULL},
                 {"tnt", "/v/site-packages/torch/a.py:1 f", NULL},
                 {"tn", "/v/site-packages/torch/a.py:1 f", NULL},
                 {"n", "AddmmBackward0", NULL},
                 {"nlu", "forward: /a/train.py:3 f", "model.layers.2"},
                 {"lunlu", "/a/train.py:2 f", "model.layers.1"},
                 {"nn", "AddmmBackward0", NULL},
                 {"lu", "/a/train.py:2 f", "model.layers.1"},
                 {"l", NULL, "model.layers.1"}};
    size_t n = sizeof cases / sizeof *cases;
    char sql[256], name[32];
    struct job job;
    job_open(&job, "forward");
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = 0;
        for (size_t at = strlen(cases[i].frames); at-- > 0;) {
            char kind = cases[i].frames[at];
            uint32_t line = (uint32_t)at + 1;
            snprintf(name, sizeof name, "model.layers.%u", line);
            stack = vs_journal_stack(job.j, stack,
                                     kind == USERS ? python_frame(&job, "/a/train.py", line, "f")
                                     : kind == TORCH
                                         ? python_frame(&job, "/v/site-packages/torch/a.py", line, "f")
                                     : kind == NODE ? marking(&job, VS_FRAME_NODE, "AddmmBackward0")
                                                    : marking(&job, VS_FRAME_LAYER, name));
        }
        emit(job.j, &(struct vs_event){.op = VS_OP_ALLOC,
                                       .space = VS_SPACE_DEVICE,
                                       .address = 0x1000 * (i + 1),
                                       .size = i + 1,
                                       .stack = stack});
    }
    job_close(&job);
    for (size_t i = 0; i < n; i++) {
        const char *layer = cases[i].frames[0] == NODE && cases[i].layer ? "model.layers.2" : cases[i].layer;
        snprintf(sql, sizeof sql, "SELECT line IS %s%s%s FROM leak WHERE size_bytes=%zu",
                 cases[i].line ? "'" : "", cases[i].line ? cases[i].line : "NULL", cases[i].line ? "'" : "",
                 i + 1);
        assert_int_equal(ask(job.db, sql), 1);
        snprintf(sql, sizeof sql, "SELECT layer IS %s%s%s FROM allocation WHERE size_bytes=%zu",
                 layer ? "'" : "", layer ? layer : "NULL", layer ? "'" : "", i + 1);
        assert_int_equal(ask(job.db, sql), 1);
    }
}

static void line_is_the_innermost_of_the_programs_own_python_code(void **state)
{
    static const struct {
        const char *file;
        bool users;
    } files[] = {
        {"/home/ada/train.py", true},
        {"/usr/lib/python3.12/threading.py", false},
        {"/venv/lib/python3.12/site-packages/transformers/trainer.py", false},
        {"/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", false},
        {"/usr/lib/python3/dist-packages/model/layers.py", false},
        {"/venv/bin/accelerate", false},
        {"/usr/lib/python3/dist-packages/torch/nn/functional.py", false},
        {"/tmp/torchinductor_ada/xy/cxy.py", false},
        {"/venv/lib/python3.12/site-packages/vramscope/share/vramscope/python/vramscope/_torch.py", false},
        {"/src/shim/framework/python/vramscope/_torch.py", false},
        {"/home/ada/python/vramscope/train.py", true},
        {"<frozen runpy>", false},
        {"<stdin>", true}};
    struct job job;
    job_open(&job, "line");
    uint32_t stack = 0;
    char sql[256];
    size_t n = sizeof files / sizeof *files;
    for (size_t i = 0; i < n; i++) {
        stack = vs_journal_stack(job.j, stack, python_frame(&job, files[i].file, (uint32_t)i + 1, "f"));
        emit(job.j, &(struct vs_event){.op = VS_OP_ALLOC,
                                       .space = VS_SPACE_DEVICE,
                                       .address = 0x1000 * (i + 1),
                                       .size = i + 1,
                                       .stack = stack});
    }
    uint32_t alone = vs_journal_stack(job.j, 0, python_frame(&job, files[1].file, 0, "g"));
    emit(job.j, &(struct vs_event){.op = VS_OP_ALLOC,
                                   .space = VS_SPACE_DEVICE,
                                   .address = 0x100000,
                                   .size = 99,
                                   .stack = vs_journal_stack(job.j, alone, vs_journal_frame(job.j, 5, 0))});
    job_close(&job);
    for (size_t i = 0, own = 0; i < n; i++) {
        own = files[i].users ? i : own;
        snprintf(sql, sizeof sql, "SELECT line='%s:%zu f' FROM leak WHERE size_bytes=%zu", files[own].file,
                 own + 1, i + 1);
        assert_int_equal(ask(job.db, sql), 1);
    }
    /* none of its own: the innermost; no line, no number */
    assert_int_equal(ask(job.db, "SELECT line='/usr/lib/python3.12/threading.py g' FROM allocation WHERE "
                                 "size_bytes=99"),
                     1);
    assert_int_equal(
        ask(job.db, "SELECT count(*) FROM frame WHERE kind=2 AND module IS NULL AND offset IS NULL"),
        (int)n + 1);
    assert_int_equal(ask(job.db, "SELECT line IS NULL FROM frame WHERE function='g'"), 1);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM frame WHERE kind=1 AND offset=5"), 1);
}

/* Stacks of a program that calls packages, each innermost frame first: P the program, E einops, T
 * transformers, F torch, C torch's call of a module, M its other methods, S Python's library, B the script of
 * a package's command, N an autograd node. */
static void helpers_of_packages_are_passed_over_and_their_modules_are_not(void **state)
{
    static const struct {
        const char *frames;
        int line;                              /* from 0 */
    } cases[] = {{"FEP", 2},     {"EP", 1},    /* rearrange(x) in the program's forward */
                 {"FSTSTP", 5},                /* optimizer.step() in a trainer that the program started */
                 {"MTMTP", 4},                 /* PreTrainedModel.to, by the program */
                 {"FTCP", 1},                  /* a package's module that the program calls */
                 {"FTTCTCP", 1},               /* its innermost, as near as can be */
                 {"FETCP", 2},                 /* a helper of it */
                 {"TETCP", 0},                 /* which it calls back */
                 {"FPCTCP", 1},                /* the program's module inside of a package's */
                 {"FCTCP", 2},                 /* torch's own module inside of it */
                 {"FTB", 1},                   /* a package that is a program: no line is the program's own */
                 {"FETTB", 2},                 /* the innermost of it, not of its helper */
                 {"FSTMS", 2},   {"ENPCP", 0}, /* a helper's backward */
                 {"FNETCP", 3},                /* the forward's line */
                 {"FMS", 0}};
    static const struct {
        char kind;
        const char *file, *function;
    } files[] = {{'P', "/a/train.py", "f"},
                 {'E', "/v/lib/python3.12/site-packages/einops/einops.py", "rearrange"},
                 {'T', "/v/lib/python3.12/site-packages/transformers/a.py", "g"},
                 {'F', "/v/lib/python3.12/site-packages/torch/nn/functional.py", "linear"},
                 {'C', "/v/lib/python3.12/site-packages/torch/nn/modules/module.py", "Module._call_impl"},
                 {'M', "/v/lib/python3.12/site-packages/torch/nn/modules/module.py", "Module.to"},
                 {'S', "/usr/lib/python3.12/contextlib.py", "inner"},
                 {'B', "/v/bin/accelerate", "<module>"}};
    size_t n = sizeof cases / sizeof *cases;
    char sql[256];
    struct job job;
    job_open(&job, "packages");
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = 0;
        for (size_t at = strlen(cases[i].frames); at-- > 0;) {
            size_t k = 0;
            while (k < sizeof files / sizeof *files && files[k].kind != cases[i].frames[at])
                k++;
            stack = vs_journal_stack(
                job.j, stack,
                cases[i].frames[at] == 'N'
                    ? marking(&job, VS_FRAME_NODE, "AddmmBackward0")
                    : python_frame(&job, files[k].file, (uint32_t)at + 1, files[k].function));
        }
        emit(job.j, &(struct vs_event){.op = VS_OP_ALLOC,
                                       .space = VS_SPACE_DEVICE,
                                       .address = 0x1000 * (i + 1),
                                       .size = i + 1,
                                       .stack = stack});
    }
    job_close(&job);
    for (size_t i = 0; i < n; i++) {
        snprintf(sql, sizeof sql, "SELECT line LIKE '%%:%d %%' FROM leak WHERE size_bytes=%zu",
                 cases[i].line + 1, i + 1);
        if (ask(job.db, sql) != 1)
            fail_msg("%s: another line than frame %d", cases[i].frames, cases[i].line);
    }
}

/* A number in every range's name: the phases end at 1024, which is said once, and continuing changes nothing.
 */
static void endless_phase_names_end_in_one_phase(void **state)
{
    struct job job;
    job_open(&job, "endless");
    for (int n = 0; n < 3000; n++) {
        char name[32];
        job.s.name[0] =
            vs_journal_string(job.j, name, (size_t)snprintf(name, sizeof name, "iteration %d", n));
        stream_push(&job.s, 0);
        stream_alloc(&job.s);
        stream_free(&job.s);
        stream_pop(&job.s);
        if (n % 100 == 0)
            drain(&job);
        if (n == 2000) { /* the writer of a killed process's journal */
            drain(&job);
            vs_writer_close(job.w, false);
            assert_int_equal(job_writer(&job), 0);
        }
    }
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM phase"), 1024);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM loss WHERE code = 'phase_names'"), 1);
    assert_int_equal(ask(job.db, "SELECT sum(ranges) FROM phase_peak"), 3000);
    assert_int_equal(ask(job.db, "SELECT ranges FROM phase_peak WHERE phase='other phases'"), 3000 - 1018);
    assert_int_equal(ask(job.db, "SELECT count(DISTINCT name) FROM range"), 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_ends_as_one_sound_file_with_exact_totals),
        cmocka_unit_test(peaks_of_ranges_equal_those_of_their_rows),
        cmocka_unit_test(ends_that_the_ring_lost_are_told_apart_and_from_there_on_totals_are_upper_bounds),
        cmocka_unit_test(upper_bounds_outlive_a_kill_and_end_where_nothing_is_alive_any_more),
        cmocka_unit_test(killed_and_recovered_equals_undisturbed),
        cmocka_unit_test(surface_killed_and_recovered_equals_undisturbed),
        cmocka_unit_test(killed_before_the_first_commit_is_recovered_from_nothing),
        cmocka_unit_test(recover_refuses_while_the_owner_lives),
        cmocka_unit_test(limited_file_stays_below_and_its_peaks_are_exact),
        cmocka_unit_test(log_that_a_reader_lets_grow_is_told_once_and_gone_at_the_end),
        cmocka_unit_test(flood_of_driver_events_and_ranges_stays_below_as_well),
        cmocka_unit_test(folded_run_that_was_killed_is_recovered_exactly),
        cmocka_unit_test(full_disk_is_an_error_that_can_be_repeated),
        cmocka_unit_test(foreign_and_newer_files_are_refused_untouched),
        cmocka_unit_test(a_process_without_a_known_pid_has_none_in_the_database),
        cmocka_unit_test(directory_that_is_not_there_is_an_error),
        cmocka_unit_test(host_closes_every_descriptor_and_reuses_the_numbers),
        cmocka_unit_test(hosts_own_sqlite_may_open_and_close_the_same_file),
        cmocka_unit_test(readers_see_whole_batches_while_it_runs),
        cmocka_unit_test(network_mode_writes_without_shared_memory),
        cmocka_unit_test(owner_is_the_first_library_that_is_not_cudas),
        cmocka_unit_test(line_is_the_innermost_of_the_programs_own_python_code),
        cmocka_unit_test(helpers_of_packages_are_passed_over_and_their_modules_are_not),
        cmocka_unit_test(what_was_born_in_backward_has_a_line_that_ran_there_or_else_the_forwards),
        cmocka_unit_test(endless_phase_names_end_in_one_phase),
    };
    return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
