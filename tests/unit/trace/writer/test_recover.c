/*
 * test_recover.c - which files a recovery writes to, and what it leaves there, where databases are gone,
 * moved, copied, another run's, another user's, links, FIFOs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/trace/db_kit.h"
#include "trace/journal/format.h"
#include "trace/writer/writer.h"

enum { EVENTS = 5000, NOBODY = 65534 };

struct job {
    char db[256], vsj[256], why[512];
    struct vs_journal *j;
    uint64_t events;
};

static void in_dir(char out[256], const char *name)
{
    snprintf(out, 256, "%s/%s", dir, name);
}

static void record(struct job *job, int n)
{
    for (int i = 0; i < n; i++, job->events++)
        vs_journal_append(job->j, &(struct vs_event){.op = VS_OP_ALLOC,
                                                     .space = VS_SPACE_DEVICE,
                                                     .address = 0x1000 + 0x1000 * job->events,
                                                     .size = 512,
                                                     .t_ns = 600 + job->events,
                                                     .thread = 1});
}

/* A run that began at START, in NAME.db and NAME.vsj, with EVENTS events, none of them written yet. */
static void begin(struct job *job, const char *name, uint64_t start)
{
    char file[64];
    memset(job, 0, sizeof *job);
    snprintf(file, sizeof file, "%s.db", name);
    in_dir(job->db, file);
    snprintf(file, sizeof file, "%s.vsj", name);
    in_dir(job->vsj, file);
    struct vs_journal_config c = {
        .ring_slots = 1 << 13, .database = job->db, .start_ns = 500, .start_realtime_ns = start};
    assert_int_equal(vs_journal_create(&job->j, job->vsj, &c), 0);
    vs_journal_thread(job->j, 11, 0, "main");
    record(job, EVENTS);
}

/* The process goes: nobody has its pid. */
static void die(struct job *job)
{
    job->j->header->owner_pid = 0x3fffffff;
    vs_journal_close(job->j);
}

/* Killed before it wrote anything. */
static void killed(struct job *job, const char *name)
{
    begin(job, name, 7);
    die(job);
}

/* Killed after it had written some of its events, and made room for them. */
static void killed_midway(struct job *job, const char *name)
{
    begin(job, name, 7);
    struct vs_writer *w;
    struct vs_database c = {.path = job->db, .journal_path = job->vsj, .rank = INT32_MIN};
    assert_int_equal(vs_writer_open(&w, &c, job->j, job->why, sizeof job->why), 0);
    assert_true(vs_writer_drain(w, false) > 0);
    vs_writer_close(w, false);
    record(job, 10);
    die(job);
}

static long recover(struct job *job, const char *database)
{
    return vs_recover(job->vsj, database, job->why, sizeof job->why);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(in);
    fclose(out);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void holds(const char *path, const char *text)
{
    char found[64] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    found[fread(found, 1, sizeof found - 1, f)] = 0;
    fclose(f);
    assert_string_equal(found, text);
}

static bool is_root(void)
{
    return geteuid() == 0;
}

#define MERGED "SELECT coalesce(max(value), -1) FROM meta WHERE key='journal_merged'" /* -1: nobody says */
#define ROWS   "SELECT count(*) FROM ev"

/* ---- what a recovery leaves ---- */

TEST(recovered_from_nothing_names_its_journal_and_says_that_it_is_merged)
{
    struct job job;
    char sql[512];
    killed(&job, "nothing");
    assert_int_equal(recover(&job, NULL), EVENTS);
    snprintf(sql, sizeof sql, "SELECT value='%s' FROM meta WHERE key='journal'", job.vsj);
    assert_int_equal(ask(job.db, sql), 1);
    assert_int_equal(ask(job.db, MERGED), 1);
    assert_int_equal(ask(job.db, ROWS), EVENTS);
    assert_false(exists(job.vsj));
}

TEST(without_room_it_says_nothing_and_goes_on_later)
{
    struct job job;
    struct rlimit all, little = {200 << 10, RLIM_INFINITY};
    killed(&job, "full");
    getrlimit(RLIMIT_FSIZE, &all);
    little.rlim_max = all.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_true(recover(&job, NULL) < 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_true(exists(job.vsj));
    if (ask(job.db, "SELECT count(*) FROM sqlite_master") > 0)
        assert_int_equal(ask(job.db, MERGED), -1);
    assert_true(recover(&job, NULL) > 0);
    assert_int_equal(ask(job.db, ROWS), EVENTS);
    assert_int_equal(ask(job.db, MERGED), 1);
}

TEST(what_was_merged_and_not_removed_is_merged_again_without_a_change)
{
    struct job job;
    char kept[256];
    in_dir(kept, "kept.vsj");
    killed(&job, "twice");
    copy(job.vsj, kept);
    assert_int_equal(recover(&job, NULL), EVENTS);
    copy(kept, job.vsj);
    assert_int_equal(recover(&job, NULL), 0);
    assert_int_equal(ask(job.db, ROWS), EVENTS);
    assert_false(exists(job.vsj));
}

/* ---- the database that it belongs to ---- */

/* The time of open ranges goes to the last event, which need not be one of an allocation. */
TEST(what_was_merged_and_not_removed_keeps_the_time_of_open_ranges)
{
    static const char time[] = "SELECT max(open_ns) FROM phase_stat";
    struct job job;
    char kept[256];
    in_dir(kept, "kept.vsj");
    begin(&job, "open", 7);
    vs_journal_append(job.j, &(struct vs_event){.op = VS_OP_RANGE_PUSH,
                                                .address = vs_journal_string(job.j, "forward", 7),
                                                .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE,
                                                .t_ns = 10000,
                                                .range = 1,
                                                .thread = 1});
    vs_journal_append(job.j, &(struct vs_event){.op = VS_OP_ALLOC,
                                                .space = VS_SPACE_DEVICE,
                                                .address = 0x900000000,
                                                .size = 512,
                                                .t_ns = 20000,
                                                .range = 1,
                                                .thread = 1});
    vs_journal_append(job.j,
                      &(struct vs_event){.op = VS_OP_SAMPLE, .size = 1 << 20, .t_ns = 90000, .thread = 1});
    die(&job);
    copy(job.vsj, kept);
    assert_int_equal(recover(&job, NULL), EVENTS + 3);
    assert_int_equal(ask(job.db, time), 80000);
    copy(kept, job.vsj);
    assert_int_equal(recover(&job, NULL), 0);
    assert_int_equal(ask(job.db, time), 80000);
    assert_int_equal(ask(job.db, MERGED), 1);
}

TEST(moved_database_is_completed_under_its_new_name)
{
    struct job job;
    char moved[256];
    in_dir(moved, "moved-to.db");
    killed_midway(&job, "moved");
    assert_int_equal(rename(job.db, moved), 0);
    assert_int_equal(recover(&job, NULL), -ESTALE);
    assert_false(exists(job.db)); /* nor is one with its end alone made */
    assert_true(recover(&job, moved) > 0);
    assert_int_equal(ask(moved, ROWS), EVENTS + 10);
}

TEST(copy_takes_nothing_from_its_original)
{
    struct job job;
    char other[256];
    in_dir(other, "copy-to.db");
    killed_midway(&job, "copied");
    copy(job.db, other);
    assert_int_equal(recover(&job, other), -ESTALE);
    assert_non_null(strstr(job.why, "is a copy"));
    assert_true(recover(&job, NULL) > 0);
    assert_int_equal(ask(job.db, ROWS), EVENTS + 10);
}

TEST(copy_that_lacks_events_is_refused_where_its_original_is_gone)
{
    struct job job;
    char other[256];
    in_dir(other, "early.db");
    begin(&job, "late", 7);
    struct vs_writer *w;
    struct vs_database c = {.path = job.db, .journal_path = job.vsj, .rank = INT32_MIN};
    assert_int_equal(vs_writer_open(&w, &c, job.j, job.why, sizeof job.why), 0);
    vs_writer_close(w, false);
    copy(job.db, other); /* as it was before the first event */
    assert_int_equal(vs_writer_open(&w, &c, job.j, job.why, sizeof job.why), 0);
    assert_true(vs_writer_drain(w, false) > 0);
    record(&job, 10); /* in the ring when the process dies */
    vs_writer_close(w, false);
    record(&job, 10);
    die(&job);
    unlink(job.db);
    assert_int_equal(recover(&job, other), -ESTALE);
    assert_int_equal(ask(other, MERGED), -1);
    assert_true(exists(job.vsj));
}

TEST(another_runs_database_is_left_alone)
{
    struct job job, other;
    killed(&other, "other");
    assert_int_equal(recover(&other, NULL), EVENTS);
    killed(&job, "mine"); /* started at the same moment even */
    assert_int_equal(recover(&job, other.db), -ESTALE);
    assert_int_equal(ask(other.db, ROWS), EVENTS);
    assert_true(exists(job.vsj));
    write_text(job.db, "dear diary\n");
    assert_int_equal(recover(&job, NULL), -EINVAL);
    holds(job.db, "dear diary\n");
}

TEST(journal_that_was_moved_is_taken_by_its_name)
{
    struct job job;
    char directory[256], moved[300];
    in_dir(directory, "saved");
    mkdir(directory, 0700);
    snprintf(moved, sizeof moved, "%s/shifted.vsj", directory);
    killed_midway(&job, "shifted");
    assert_int_equal(rename(job.vsj, moved), 0);
    assert_true(vs_recover(moved, NULL, job.why, sizeof job.why) > 0);
    assert_int_equal(ask(job.db, MERGED), 1);
}

TEST(journal_that_never_held_anything_goes_with_its_database)
{
    struct job job;
    begin(&job, "unused", 7);
    job.j->header->head = job.j->header->tail; /* as made */
    die(&job);
    assert_int_equal(recover(&job, NULL), -ENODATA);
    assert_false(exists(job.db));
    assert_false(exists(job.vsj));
}

/* ---- places where nothing is written ---- */

TEST(links_are_not_followed)
{
    struct job job;
    char target[256], alias[256];
    in_dir(target, "target");
    in_dir(alias, "alias.vsj");
    killed(&job, "linked");
    assert_int_equal(symlink(target, job.db), 0);
    assert_int_equal(recover(&job, NULL), -EINVAL);
    assert_false(exists(target));
    write_text(target, "");
    assert_int_equal(recover(&job, NULL), -EINVAL);
    holds(target, "");
    unlink(job.db);
    assert_int_equal(link(target, job.db), 0); /* a hard link to an empty file: somebody's own */
    assert_int_equal(recover(&job, NULL), -EPERM);
    holds(target, "");
    assert_int_equal(symlink(job.vsj, alias), 0);
    assert_int_equal(vs_recover(alias, NULL, job.why, sizeof job.why), -EINVAL);
    unlink(job.db);
    unlink(target);
    assert_int_equal(recover(&job, NULL), EVENTS);
}

TEST(what_is_no_file_is_not_waited_for)
{
    struct job job;
    char fifo[256];
    in_dir(fifo, "fifo.vsj");
    killed(&job, "fifo-for-database");
    assert_int_equal(mkfifo(job.db, 0600), 0);
    alarm(120);
    assert_int_equal(recover(&job, NULL), -EPERM);
    assert_non_null(strstr(job.why, "is no regular file"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(vs_recover(fifo, NULL, job.why, sizeof job.why), -EINVAL);
    assert_int_equal(recover(&job, "/dev/null"), -EPERM);
    assert_true(recover(&job, dir) < 0);
    alarm(0);
}

TEST(journal_of_another_machine_makes_a_file_beside_itself_alone)
{
    struct job job;
    char directory[256], moved[300];
    in_dir(directory, "unpacked");
    mkdir(directory, 0700);
    snprintf(moved, sizeof moved, "%s/x.vsj", directory);
    begin(&job, "victim", 7);
    memset(job.j->header->boot_id, 'b', 36);
    die(&job);
    assert_int_equal(rename(job.vsj, moved), 0);
    assert_int_equal(vs_recover(moved, NULL, job.why, sizeof job.why), -ESTALE);
    assert_false(exists(job.db));
    write_text(job.db, "");
    assert_int_equal(vs_recover(moved, NULL, job.why, sizeof job.why), -EPERM);
    holds(job.db, "");
    assert_int_equal(rename(moved, job.vsj), 0);
    assert_int_equal(recover(&job, NULL), EVENTS);
}

/* ---- other users ---- */

TEST(nothing_is_written_for_another_user)
{
    struct job job;
    if (!is_root())
        skip();
    killed(&job, "theirs");
    assert_int_equal(chown(job.vsj, NOBODY, NOBODY), 0);
    assert_int_equal(recover(&job, NULL), -EPERM);
    assert_false(exists(job.db));
    assert_int_equal(chown(job.vsj, 0, 0), 0);
    write_text(job.db, "");
    assert_int_equal(chown(job.db, NOBODY, NOBODY), 0);
    assert_int_equal(recover(&job, NULL), -EPERM);
    holds(job.db, "");
    unlink(job.db);
    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    assert_int_equal(recover(&job, NULL), -EPERM);
    assert_false(exists(job.db));
    write_text(job.db, ""); /* the name that the process took is its user's, wherever it lies */
    assert_int_equal(recover(&job, NULL), EVENTS);
    assert_int_equal(chown(dir, 0, 0), 0);
}

int main(void)
{
    return run_all_tests(make_dir, drop_dir);
}
