/*
 * test_killed.c - a file that was killed and recovered equals one that was not disturbed.
 *
 * "Killed" means a child process that ends by SIGKILL in the middle, having drained some of what it recorded,
 * and a recover by the parent; such a database must equal, row for row, the one of a run that ended well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#include "trace/writer/writer.h"

#include "job_kit.h"

static const char *const everything[] = {"ev",           "kind",    "rng",        "range_peak", "phase_stat",
                                         "peak",         "live",    "peak_live",  "step",       "phase",
                                         "zone",         "thread",  "string",     "counter",    "mismatch",
                                         "arena_sample", "stretch", "range_fold", "sample",     NULL};

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

TEST(killed_and_recovered_equals_undisturbed)
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
TEST(surface_killed_and_recovered_equals_undisturbed)
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

TEST(killed_before_the_first_commit_is_recovered_from_nothing)
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

TEST(recover_refuses_while_the_owner_lives)
{
    struct job job;
    job_open(&job, "alive");
    stream_step(&job.s);
    assert_int_equal(vs_recover(job.vsj, NULL, job.why, sizeof job.why), -EBUSY);
    assert_non_null(strstr(job.why, "still runs"));
    job_close(&job);
}

TEST(folded_run_that_was_killed_is_recovered_exactly)
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

int main(void)
{
    return run_all_tests(make_dir, drop_dir);
}
