/* test_live.c - what a look at a running process finds out about it. */
#include "unit/test.h"
#include "unit/trace/store/job_kit.h"
#include "read/live.h"

TEST(what_comes_behind_the_journal_is_learnt_until_the_first_figures, make_dir, drop_dir)
{
    struct job job;
    struct live l;
    struct vs_now now = {.published_ns = 1};
    char why[256];
    job_journal(&job, "live");
    assert_true(live_open(&l, job.vsj, why, sizeof why));
    assert_int_equal(l.rank, UNKNOWN);
    vs_journal_set_fact(job.j, "rank", "3");
    vs_journal_set_fact(job.j, "command", "python train.py");
    live_look(&l);
    assert_int_equal(l.rank, 3);
    assert_string_equal(l.command, "python train.py");
    assert_int_equal(l.world_size, UNKNOWN);
    vs_journal_set_fact(job.j, "world_size", "8");
    vs_journal_publish(job.j, &now);
    live_look(&l);
    assert_true(l.seen);
    assert_int_equal(l.world_size, 8);
    live_look(&l);
    assert_int_equal(l.rank, 3);
    live_close(&l);
    vs_journal_close(job.j);
}
