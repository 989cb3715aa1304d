/*
 * test_fold.c - what a file with a limit still says, and one that was killed: held against the undisturbed
 * file of the same events.
 *
 * Each job is made several times: without a limit, with a small one, and killed and recovered with either.
 * Totals, peaks and what lived must be equal, what is in full must be as it was, all else must be counted,
 * and the killed file must be the undisturbed one row by row.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job_kit.h"
#include "trace/store/vfs.h"

#define LIMIT (2u << 20)

static struct stream second; /* of device 1 */
static uint32_t outer_name, inner_name;

typedef void step_fn(struct job *job, int i);

/* ---- a job ---- */

static void begin(struct job *job, const char *name, uint64_t max_bytes)
{
    job_limited(job, name, 1 << 17, max_bytes);
    vs_journal_set_fact(job->j, "host", "here");
    stream_init(&second, emit, job->j);
    second.device = 1;
    second.random ^= 99;
    second.persistent = 300;
    memcpy(second.name, job->s.name, sizeof second.name);
    outer_name = vs_journal_string(job->j, "outer", 5);
    inner_name = vs_journal_string(job->j, "inner", 5);
}

static void below(const struct job *job)
{
    struct stat st;
    assert_int_equal(stat(job->db, &st), 0);
    assert_true(st.st_size <= LIMIT);
}

/* STEPS of a job, drained after each one, in one go from DRAINED on. */
static void run(struct job *job, const char *name, uint64_t max_bytes, step_fn *step, int steps, int drained)
{
    begin(job, name, max_bytes);
    for (int i = 0; i < steps; i++) {
        step(job, i);
        if (i < drained)
            drain(job);
        if (max_bytes)
            below(job);
    }
}

/* The same in a child that is killed with what was not drained in its ring. */
static void die(const char *name, uint64_t max_bytes, step_fn *step, int steps, int drained)
{
    struct job job;
    int status;
    pid_t child = fork();
    if (child == 0) {
        run(&job, name, max_bytes, step, steps, drained);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
}

static void run_killed(struct job *job, const char *name, step_fn *step, int steps, int drained)
{
    die(name, LIMIT, step, steps, drained);
    job_recover(job, name);
    sound(job->db);
    assert_int_equal(ask(job->db, "SELECT value FROM meta WHERE key='clean_end'"), 0);
    assert_int_not_equal(access(job->vsj, F_OK), 0);
}

/* ---- looking ---- */

/* First column of the first row; the other database is `full`. */
static int64_t ask2(const char *path, const char *full, const char *sql)
{
    return ask_of(look_both(path, full, "full"), sql);
}

static const char *const totals[] = {"phase_stat", "peak", "phase", "counter", "mismatch", NULL};
static const char *const all[] = {
    "ev",         "kind",   "rng",     "range_peak",   "phase_stat",  "peak",    "live",         "peak_live",
    "step",       "phase",  "zone",    "thread",       "string",      "counter", "mismatch",     "oom",
    "amend",      "moment", "stretch", "range_fold",   "sample",      "away",    "arena_sample", "oom_live",
    "away_block", "loss",   "leak",    "live_at_peak", "live_at_oom", NULL};

#define BYTES(c) "CASE WHEN e." c " < 0 THEN -e." c " ELSE e." c " * 512 END"
#define RESERVED                                                                                             \
    "CASE WHEN e.reserved >= 0 THEN e.reserved * 2097152 WHEN ~e.reserved & 1 THEN ~e.reserved >> 1 "        \
    "ELSE (~e.reserved >> 1) * 2097152 + CASE WHEN e.direct < 0 THEN -e.direct ELSE e.direct * 512 END END"

/* What was away on the device of row Z. */
#define THEN(table, until)                                                                                   \
    "ifnull((SELECT away_bytes FROM " table " WHERE device = z.device AND " until                            \
    " ORDER BY seq DESC LIMIT 1), 0)"

/* Which blocks were away at event Z. */
#define BLOCKS(file)                                                                                         \
    "ifnull((SELECT group_concat(row, ';') FROM (SELECT alloc_seq || ',' || away_bytes AS row, max(seq) "    \
    "FROM " file ".away_block WHERE seq <= z.seq GROUP BY device, alloc_seq ORDER BY alloc_seq)), '')"

#define RANGE                                                                                                \
    "r.id, r.phase, source, flags, parent, thread, step, first_seq, t_push, t_pop, p.device, "               \
    "allocated_bytes, reserved_bytes, t_ns"

/* What must hold of the limited file THIN, beside that of the same events without a limit. */
static void holds(const char *thin, const char *full)
{
    static const struct {
        const char *what, *sql;
    } none[] = {
        {"events in full that are other ones",
         "SELECT count(*) FROM (SELECT * FROM ev EXCEPT SELECT * FROM full.ev)"},
        {"ranges in full that are other ones",
         "SELECT count(*) FROM (SELECT " RANGE
         " FROM rng r JOIN range_peak p ON p.range = r.id EXCEPT SELECT " RANGE
         " FROM full.rng r JOIN full.range_peak p ON p.range = r.id)"},
        {"samples that are other ones",
         "SELECT count(*) FROM (SELECT * FROM sample EXCEPT SELECT * FROM full.sample)"},
        {"steps that are other ones",
         "SELECT count(*) FROM (SELECT * FROM step EXCEPT SELECT * FROM full.step)"},
        {"events that are missing where nothing is folded",
         "SELECT count(*) FROM full.ev e WHERE seq NOT IN (SELECT seq FROM ev) AND NOT EXISTS (SELECT 1 FROM "
         "stretch s "
         "WHERE s.folded > 0 AND e.seq BETWEEN s.first_seq AND s.last_seq)"},
        {"gaps between stretches", "SELECT count(*) FROM stretch s WHERE first_seq > 1 AND NOT EXISTS "
                                   "(SELECT 1 FROM stretch p WHERE p.last_seq + 1 = "
                                   "s.first_seq)"},
        {"events that no stretch holds",
         "SELECT (SELECT sum(last_seq - first_seq + 1) FROM stretch) <> (SELECT max(seq) FROM full.ev)"},
        {"ranges that are not counted", "SELECT (SELECT count(*) FROM rng) + (SELECT coalesce(sum(ranges), "
                                        "0) FROM range_fold WHERE device = -1) <> (SELECT "
                                        "count(*) FROM full.rng)"},
        {"nanoseconds of phases that are not counted",
         "SELECT count(*) FROM full.phase p WHERE id > 0 AND (SELECT coalesce(sum(t_pop - t_push), 0) FROM "
         "full.rng WHERE phase = "
         "p.id AND flags & 1 AND t_pop IS NOT NULL) <> (SELECT coalesce(sum(t_pop - t_push), 0) FROM rng "
         "WHERE phase = p.id AND "
         "flags & 1 AND t_pop IS NOT NULL) + (SELECT coalesce(sum(ns), 0) FROM range_fold WHERE phase = p.id "
         "AND device = -1)"},
        {"steps that are not counted",
         "SELECT (SELECT sum(steps) FROM stretch) <> (SELECT count(*) FROM full.step)"},
        {"samples that are not counted",
         "SELECT (SELECT sum(samples) FROM stretch) <> (SELECT count(*) FROM full.ev WHERE op = 40)"},
        {"events of a device and phase that no zone counts",
         "SELECT count(*) FROM (SELECT device, phase, sum(events) AS n FROM zone GROUP BY 1, 2 EXCEPT SELECT "
         "device, phase, "
         "sum(events) FROM full.zone GROUP BY 1, 2)"},
        {"sums with other extremes",
         "SELECT count(*) FROM zone z WHERE stretch IS NOT NULL AND device >= 0 AND (max_allocated, "
         "min_allocated, max_reserved, "
         "min_reserved) <> (SELECT max(" BYTES("framework") " + " BYTES("direct") "), min(" BYTES(
             "framework") " + " BYTES("direct") "), max(" RESERVED "), min(" RESERVED
                                                ") FROM full.ev e WHERE e.device = z.device AND e.phase = "
                                                "z.phase AND (e.op < 30 OR "
                                                "e.op >= 50) AND e.seq BETWEEN z.stretch AND (SELECT "
                                                "last_seq FROM stretch s WHERE s.first_seq = z.stretch))"},
        {"greatest values that are no event's",
         "SELECT count(*) FROM zone z WHERE stretch IS NOT NULL AND device >= 0 AND (max_allocated_t, "
         "device, max_allocated, "
         "reserved_at_max) NOT IN (SELECT t_ns, device, allocated_bytes, reserved_bytes FROM full.timeline)"},
        {"peaks that the timeline lacks", "SELECT count(*) FROM peak p WHERE kind = 'allocated' AND device "
                                          ">= 0 AND peak_bytes <> (SELECT max(allocated_bytes) FROM "
                                          "timeline t WHERE t.device = p.device)"},
        {"sums of who held the greatest that are too much",
         "SELECT count(*) FROM zone z WHERE device >= 0 AND max_allocated < (SELECT "
         "coalesce(sum(framework_bytes + direct_bytes), 0) "
         "FROM zone_held h WHERE h.zone = z.first_seq)"},
        {"peaks whose holders do not add up", "SELECT count(*) FROM peak p WHERE kind = 'allocated' AND "
                                              "device >= 0 AND peak_bytes <> (SELECT sum(size_bytes) FROM "
                                              "live_at_peak l WHERE l.device = p.device)"},
        {"figures of what was away that are other ones",
         "SELECT count(*) FROM (SELECT * FROM away EXCEPT SELECT * FROM full.away)"},
        {"what was away that is not known where a sum has its moments",
         "SELECT count(*) FROM zone z CROSS JOIN json_each(json_array(z.max_allocated_t, z.min_allocated_t, "
         "z.max_reserved_t, z.t_last)) m WHERE " THEN("main.away", "t_ns <= m.value") " <> " THEN(
             "full.away", "t_ns <= m.value")},
        {"what was away at a peak that is not known",
         "SELECT count(*) FROM peak z WHERE " THEN("main.away", "seq <= z.seq") " <> " THEN("full.away",
                                                                                            "seq <= z.seq")},
        {"the most that was away that is not known",
         "SELECT (SELECT ifnull(max(away_bytes), 0) FROM away) <> (SELECT ifnull(max(away_bytes), 0) FROM "
         "full.away)"},
        {"blocks that were away that are other ones",
         "SELECT count(*) FROM (SELECT * FROM away_block EXCEPT SELECT * FROM full.away_block)"},
        {"blocks that were away, which are not known where most was, at a peak, at an out-of-memory or at "
         "the "
         "end",
         "SELECT count(*) FROM (SELECT seq FROM peak UNION SELECT seq FROM oom UNION SELECT max(seq) FROM "
         "full.ev UNION SELECT seq FROM (SELECT seq, max(away_bytes) FROM full.away GROUP BY device)) z "
         "WHERE " BLOCKS("main") " <> " BLOCKS("full")},
        {"leaks that are others", "SELECT count(*) FROM (SELECT * FROM leak EXCEPT SELECT * FROM full.leak)"},
        {"leaks that are missing",
         "SELECT count(*) FROM (SELECT * FROM full.leak EXCEPT SELECT * FROM leak)"},
        {"allocations with another end", "SELECT count(*) FROM (SELECT alloc_seq, free_seq, size_bytes FROM "
                                         "allocation EXCEPT SELECT alloc_seq, free_seq, "
                                         "size_bytes FROM full.allocation)"},
        {"what lived at an out-of-memory that does not add up",
         "SELECT count(*) FROM oom o WHERE framework_bytes + direct_bytes <> (SELECT "
         "coalesce(sum(size_bytes), 0) FROM live_at_oom l "
         "WHERE l.oom_seq = o.seq)"},
        {"events for which there was no room", "SELECT sum(unwritten) FROM stretch"},
    };
    sound(thin);
    assert_true(ask(thin, "SELECT count(*) FROM folded") > 0);
    equal(thin, full, totals);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (ask2(thin, full, none[i].sql))
            fail_msg("%s: %s (%lld)", thin, none[i].what, (long long)ask2(thin, full, none[i].sql));
}

#ifdef __SANITIZE_ADDRESS__ /* test_resume and test_recover have killed writers under it */
#define KILLS false
#else
#define KILLS true
#endif

/* Without a limit, with one, and killed and recovered with it: some jobs in the middle, others near the end.
 * (test_resume kills recordings without a limit.) */
static void check(const char *name, step_fn *step, int steps)
{
    struct job full, thin, killed;
    char names[3][32];
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%s%d", name, i);
    run(&full, names[0], 0, step, steps, steps);
    job_close(&full);
    run(&thin, names[1], LIMIT, step, steps, steps);
    job_close(&thin);
    below(&thin);
    holds(thin.db, full.db);
    if (!KILLS)
        return;
    run_killed(&killed, names[2], step, steps, strlen(name) % 2 ? steps / 2 : steps - steps / 8);
    equal(thin.db, killed.db, all);
}

/* ---- jobs ---- */

static void sample(struct job *job, int device, uint64_t used)
{
    stream_emit(&job->s, (struct vs_event){.op = VS_OP_SAMPLE,
                                           .size = used,
                                           .arg0 = VS_SAMPLE_NVML_PROCESS,
                                           .arg1 = 1000 + used / 7,
                                           .address = used / 3});
}

static void training(struct job *job, int i)
{
    stream_step(&job->s);
    sample(job, 0, (uint64_t)(1000 + i * 37 % 101) << 20);
}

TEST(one_device)
{
    check("one", training, 60);
}

/* The second device's steps are the first one's: it tells none of its own. */
static void both(struct job *job, int i)
{
    training(job, i);
    second.range = job->s.range;
    for (int k = 0; k < 200 + i % 7; k++)
        stream_alloc(&second);
    while (second.depth > 300)
        stream_free(&second);
}

TEST(two_devices)
{
    check("two", both, 50);
}

/* A range of its own around all of a step, another in each phase, and one that is open for ten steps. */
static void nested(struct job *job, int i)
{
    struct stream *s = &job->s;
    static uint32_t longest;
    if (i % 10 == 0) {
        longest = ++s->range;
        stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                                         .range = longest,
                                         .address = inner_name,
                                         .arg1 = VS_SOURCE_NVTX | VS_RANGE_CROSS_THREAD});
    }
    uint32_t outer = ++s->range;
    stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                                     .range = outer,
                                     .address = outer_name,
                                     .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
    for (int k = 0; k < 20; k++) {
        uint32_t inner = ++s->range;
        stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                                         .range = inner,
                                         .arg0 = outer,
                                         .address = k % 2 ? inner_name : s->name[k % 4],
                                         .arg1 = VS_SOURCE_MARKER | (k % 2 ? 0 : VS_RANGE_NAMES_PHASE)});
        s->open = inner;
        for (int n = 0; n < 20; n++)
            stream_alloc(s);
        for (int n = 0; n < 20 - (i == 20); n++)
            stream_free(s);
        s->open = 0;
        stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_POP, .range = inner});
    }
    stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_POP, .range = outer});
    if (i % 10 == 9)
        stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_POP, .range = longest});
    stream_emit(s, (struct vs_event){.op = VS_OP_STEP});
}

TEST(nested_phases)
{
    check("nested", nested, 80);
}

static void out_of_memory(struct job *job, uint64_t size)
{
    stream_emit(&job->s,
                (struct vs_event){
                    .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .size = size, .arg1 = 10, .status = 2});
    stream_emit(&job->s, (struct vs_event){.op = VS_OP_BLOCK_OOM,
                                           .size = size - 5,
                                           .arg0 = job->s.allocated,
                                           .arg1 = job->s.reserved});
}

static void with_ooms(struct job *job, int i)
{
    training(job, i);
    if (i == 30 || i == 31 || i == 69)
        out_of_memory(job, i == 31 ? 9ull << 30 : 1ull << 30);
}

TEST(oom_in_the_middle_and_at_the_end)
{
    char db[128];
    check("oom", with_ooms, 70);
    snprintf(db, sizeof db, "%s/oom1.db", dir);
    assert_int_equal(ask(db, "SELECT count(*) FROM oom"), 3);
    assert_int_equal(ask(db, "SELECT count(*) FROM event WHERE op = 'oom'"), 3); /* in full around them */
    assert_int_equal(ask(db, "SELECT count(*) FROM folded f JOIN oom o ON o.seq BETWEEN f.stretch AND "
                             "f.stretch + f.events - 1"),
                     0);
}

/* All that a driver has to offer, some of it open at any moment. */
static void surface(struct job *job, int i)
{
    job->s.surface = true;
    training(job, i);
}

TEST(whole_surface)
{
    char db[128];
    check("surface", surface, 50);
    snprintf(db, sizeof db, "%s/surface0.db", dir);
    assert_int_equal(ask(db, "SELECT count(*) FROM mismatch"), 0);
    assert_true(ask(db, "SELECT count(*) FROM event WHERE op='context_freed'") > 40);
    /* what the views pair by hand is what the ledger counted */
    assert_int_equal(ask(db, "SELECT sum(size_bytes) FROM live_at_peak"),
                     ask(db, "SELECT peak_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(ask(db,
                         "SELECT sum(size_bytes) FROM allocation WHERE free_seq IS NULL AND NOT managed AND "
                         "space IN ('none','device','pool','array','graph','arena')"),
                     ask(db, "SELECT end_bytes FROM peak WHERE kind='allocated'"));
    assert_int_equal(
        ask(db, "SELECT sum(size_bytes) FROM allocation WHERE free_seq IS NULL AND space='imported'"), 7000);
    assert_int_equal(ask(db, "SELECT count(*) FROM event WHERE op='context_create' AND size_bytes IS NULL"),
                     25);
    assert_int_equal(ask(db, "SELECT min(size_bytes) FROM event WHERE op='limit'"), -4096);
}

static void driver_alone(struct job *job, int i)
{
    struct stream *s = &job->s;
    for (uint64_t k = 0; k < 700; k++) {
        uint64_t n = (uint64_t)i * 700 + k, address = (1 + n % 4099) << 22;
        if (n >= 4099 || n % 5 == 3)
            stream_emit(s, (struct vs_event){.op = VS_OP_FREE, .space = VS_SPACE_DEVICE, .address = address});
        stream_emit(s, (struct vs_event){.op = VS_OP_ALLOC,
                                         .space = n % 3 ? VS_SPACE_DEVICE : VS_SPACE_PINNED,
                                         .address = address,
                                         .size = 512 + n % 1000 * 100});
    }
}

TEST(only_driver_events)
{
    check("driver", driver_alone, 50);
}

static void ranges_alone(struct job *job, int i)
{
    for (int k = 0; k < 100; k++) {
        char name[32];
        job->s.name[3] = vs_journal_string(
            job->j, name, (size_t)snprintf(name, sizeof name, "call %d", k % 4 ? k % 50 : i * 100 + k));
        stream_push(&job->s, k % 5 ? 3 : 0);
        stream_pop(&job->s);
    }
}

TEST(only_ranges)
{
    check("ranges", ranges_alone, 100);
}

/* Driver events, each in a range that names a phase; some of what they allocate lives until its address is
 * handed out again. */
static void flood(struct job *job, int i)
{
    struct stream *s = &job->s;
    for (uint64_t k = 0; k < 1000; k++) {
        uint64_t n = (uint64_t)i * 1000 + k + 1, address = (n % 64 + 1) << 20;
        stream_push(s, (int)(n % 4));
        stream_emit(s, (struct vs_event){
                           .op = VS_OP_ALLOC, .space = VS_SPACE_POOL, .address = address, .size = n * 512});
        if (n % 3)
            stream_emit(s, (struct vs_event){.op = VS_OP_FREE, .address = address});
        stream_pop(s);
    }
}

TEST(driver_events_and_ranges)
{
    check("flood", flood, 20);
}

static void untold(struct job *job, int i)
{
    struct stream *s = &job->s;
    while (s->depth < 1000 + i % 13)
        stream_alloc(s);
    for (int k = 0; k < 400; k++) {
        stream_alloc(s);
        stream_free(s);
    }
    while (s->depth > 900)
        stream_free(s);
    sample(job, 0, (uint64_t)(500 + i % 17) << 20);
}

TEST(no_steps)
{
    char db[128];
    check("untold", untold, 60);
    snprintf(db, sizeof db, "%s/untold1.db", dir);
    assert_int_equal(ask(db, "SELECT count(*) FROM folded WHERE stretch = 1"), 0); /* the first are in full */
    assert_true(ask(db, "SELECT max(t_ns) > (SELECT 0.98 * max(t) FROM ev) FROM sample"));
}

/* What stays in full, as long as there is room. */
TEST(first_steps_the_peaks_and_the_last_are_in_full)
{
    struct job thin;
    run(&thin, "full", LIMIT, training, 300, 300);
    job_close(&thin);
    assert_int_equal(ask(thin.db, "SELECT count(*) FROM folded WHERE first_step <= 3"), 0);
    assert_int_equal(
        ask(thin.db, "SELECT count(*) FROM folded f JOIN peak p ON p.kind IN ('allocated', 'reserved') AND "
                     "p.device = 0 AND p.seq BETWEEN f.stretch AND f.stretch + f.events - 1"),
        0);
    assert_true(ask(thin.db, "SELECT max(last_step) FROM folded") < 297);
    assert_int_equal(ask(thin.db, "SELECT count(*) FROM folded WHERE stretches & (stretches - 1)"),
                     0); /* 1, 2, 4, ... */
    assert_true(ask(thin.db, "SELECT max(stretches) FROM folded") >= 16);
}

/* Nothing can be folded: each event is an allocation that lives. */
static void growing(struct job *job, int i)
{
    for (uint64_t k = 0; k < 1000; k++)
        stream_emit(&job->s, (struct vs_event){.op = VS_OP_ALLOC,
                                               .space = VS_SPACE_DEVICE,
                                               .address = ((uint64_t)i * 1000 + k + 1) << 20,
                                               .size = 4096});
    stream_emit(&job->s, (struct vs_event){.op = VS_OP_STEP});
}

TEST(more_lives_than_fits)
{
    struct job full, thin;
    run(&full, "live0", 0, growing, 100, 100);
    job_close(&full);
    run(&thin, "live1", LIMIT, growing, 100, 100);
    job_close(&thin);
    below(&thin);
    equal(thin.db, full.db, totals);
    assert_int_equal(ask(thin.db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"),
                     1);
    assert_true(ask(thin.db, "SELECT sum(unwritten) FROM stretch") > 0);
    assert_int_equal(ask(thin.db, "SELECT sum(last_seq - first_seq + 1) FROM stretch"), 100100);
    assert_int_equal(ask(thin.db, "SELECT sum(steps) FROM stretch"), 100);
}

TEST(killed_before_the_first_commit_is_recovered_from_nothing)
{
    struct job whole, killed;
    run(&whole, "none0", 0, training, 3, 0);
    job_close(&whole);
    die("none1", 0, training, 3, 0);
    job_paths(&killed, "none1");
    unlink(killed.db);
    job_recover(&killed, "none1");
    equal(whole.db, killed.db, all);
    assert_int_equal(ask(killed.db, "SELECT count(*) FROM process WHERE host='here'"), 1);
}

int main(void)
{
    vs_vfs_alone(); /* as the drain's thread */
    return run_all_tests(make_dir, drop_dir);
}
