/*
 * job_kit.h - a job: a journal, the writer that makes a database of it, and the events of stream.h.
 *
 *      job_open(&job, "name");      # the group's directory has name.vsj and name.db
 *      steps(&job, 10);             # each records a training step and drains it
 *      job_close(&job);
 *
 * A test that changes the configuration calls job_journal, sets what it wants in the job, and calls
 * job_writer.
 */
#ifndef TESTS_UNIT_TRACE_STORE_JOB_KIT_H
#define TESTS_UNIT_TRACE_STORE_JOB_KIT_H

#include "unit/trace/db_kit.h"
#include "unit/trace/stream.h"
#include "trace/writer/writer.h"

struct job {
    char db[256], vsj[256], why[256];
    struct vs_journal *j;
    struct vs_writer *w;
    struct stream s;
    uint64_t max_bytes;
    bool no_pid; /* the configuration does not know it */
};

/* ---- a job ---- */

static inline void emit(void *context, const struct vs_event *e)
{
    assert_true(vs_journal_append(context, e) != VS_SEQ_NONE);
}

static inline void names(struct job *job)
{
    static const char *const phase[] = {"forward", "logits", "backward", "optimizer"};
    for (int i = 0; i < 4; i++)
        job->s.name[i] = vs_journal_string(job->j, phase[i], strlen(phase[i]));
    assert_int_equal(vs_journal_thread(job->j, 100, 0, "python"), 1);
    assert_int_equal(vs_journal_thread(job->j, 101, VS_THREAD_AUTOGRAD, "pt_autograd_0"), 2);
}

static inline void job_paths(struct job *job, const char *name)
{
    snprintf(job->db, sizeof job->db, "%s/%s.db", dir, name);
    snprintf(job->vsj, sizeof job->vsj, "%s/%s.vsj", dir, name);
}

static inline void job_journal_of(struct job *job, const char *name, uint32_t slots)
{
    memset(job, 0, sizeof *job);
    job_paths(job, name);
    struct vs_journal_config c = {
        .ring_slots = slots, .database = job->db, .start_ns = 500, .start_realtime_ns = 7};
    assert_int_equal(vs_journal_create(&job->j, job->vsj, &c), 0);
    stream_init(&job->s, emit, job->j);
    names(job);
}

static inline void job_journal(struct job *job, const char *name)
{
    job_journal_of(job, name, 1 << 16);
}

static inline int job_writer(struct job *job)
{
    struct vs_database c = {.path = job->db,
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

static inline void job_open(struct job *job, const char *name)
{
    job_journal(job, name);
    assert_int_equal(job_writer(job), 0);
}

/* With a limit, which who recovers it is told as well. */
static inline void job_limited(struct job *job, const char *name, uint32_t slots, uint64_t max_bytes)
{
    char text[32];
    job_journal_of(job, name, slots);
    job->max_bytes = max_bytes;
    snprintf(text, sizeof text, "%" PRIu64, max_bytes);
    vs_journal_set_fact(job->j, "max_bytes", text);
    assert_int_equal(job_writer(job), 0);
}

static inline void drain(struct job *job)
{
    long n;
    while ((n = vs_writer_drain(job->w, false)) > 0) {
    }
    assert_int_equal(n, 0);
}

static inline void job_close(struct job *job)
{
    while (vs_writer_drain(job->w, true) > 0) {
    }
    assert_int_equal(vs_writer_close(job->w, true), 0);
    vs_journal_close(job->j);
}

static inline void steps(struct job *job, int n)
{
    for (int i = 0; i < n; i++) {
        stream_step(&job->s);
        drain(job);
    }
}

static inline void job_recover(struct job *job, const char *name)
{
    job_paths(job, name);
    if (vs_recover(job->vsj, NULL, job->why, sizeof job->why) < 0)
        fail_msg("%s", job->why);
}

#endif
