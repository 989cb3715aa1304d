/*
 * test_store.c - journal to database: what a run that ends well leaves, what readers see meanwhile, and what
 * the database says where the ring lost ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/wait.h>

#include "trace/store/store.h"

#include "job_kit.h"

TEST(a_run_ends_as_one_sound_file_with_exact_totals)
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

TEST(peaks_of_ranges_equal_those_of_their_rows)
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

TEST(readers_see_whole_batches_while_it_runs)
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

TEST(recover_refuses_while_the_owner_lives)
{
    struct job job;
    job_open(&job, "alive");
    stream_step(&job.s);
    assert_int_equal(vs_recover(job.vsj, NULL, job.why, sizeof job.why), -EBUSY);
    assert_non_null(strstr(job.why, "still runs"));
    job_close(&job);
}

TEST(network_mode_writes_without_shared_memory)
{
    struct job job;
    struct vs_store *s;
    char shm[300];
    job_journal(&job, "net");
    struct vs_database c = {.path = job.db, .network = true};
    assert_int_equal(vs_store_open(&s, &c, job.j, job.why, sizeof job.why), 0);
    snprintf(shm, sizeof shm, "%s-shm", job.db);
    assert_int_not_equal(access(shm, F_OK), 0);
    assert_int_equal(vs_store_close(s, 5), 0);
    sound(job.db);
    vs_journal_close(job.j);
}

/* A number in every range's name: the phases end at 1024, which is said once, and continuing changes nothing.
 */
TEST(endless_phase_names_end_in_one_phase)
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

TEST(ends_that_the_ring_lost_are_told_apart_and_from_there_on_totals_are_upper_bounds)
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

TEST(upper_bounds_outlive_a_kill_and_end_where_nothing_is_alive_any_more)
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

int main(void)
{
    return run_all_tests(make_dir, drop_dir);
}
