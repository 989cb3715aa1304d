/*
 * test_bad_hosts.c - a full disk, files of other people, a host that closes our descriptors or opens our file
 * with its own SQLite.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "job_kit.h"

TEST(full_disk_is_an_error_that_can_be_repeated)
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

TEST(foreign_and_newer_files_are_refused_untouched)
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

TEST(a_process_without_a_known_pid_has_none_in_the_database)
{
    struct job job;
    job_journal(&job, "nopid");
    job.no_pid = true;
    assert_int_equal(job_writer(&job), 0);
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM process WHERE pid IS NULL AND rank IS NULL"), 1);
}

TEST(directory_that_is_not_there_is_an_error)
{
    struct job job;
    job_journal(&job, "nodir");
    snprintf(job.db, sizeof job.db, "%s/no/such/x.db", dir);
    assert_true(job_writer(&job) < 0);
    assert_non_null(strstr(job.why, "no/such"));
    vs_journal_close(job.j);
}

/* ---- hosts with bad manners ---- */

TEST(host_closes_every_descriptor_and_reuses_the_numbers)
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

TEST(hosts_own_sqlite_may_open_and_close_the_same_file)
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

int main(void)
{
    return run_all_tests(make_dir, drop_dir);
}
