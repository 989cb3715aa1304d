/*
 * bench_offered.c - a steady offer of events for seconds: what is drained, what is lost, how long the
 * program was held up.
 *
 *     bench_offered [million events a second [seconds [threads]]]        2 10 1 unless given
 *
 * The whole shim below the hooks; call stacks and ranges are stand-ins. The bound of a call's wait is 1 ms
 * (journal.h); calls during which the kernel gave the core to others are counted apart. Status 1 where taken
 * and lost, as the callers were told, are not the rows and the loss rows of the database.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/options.h"
#include "record/recording.h"
#include "trace/journal/journal.h"

#define LIVE        4096
#define THREADS_MAX 64
#define WAIT_NS     990000u
#define BOUND_NS    1050000u /* the wait, and what ends it */

struct producer {
    pthread_t thread;
    uint64_t offered, taken, waits, longest_ns, beyond, preempted, behind_ns;
    long switches;
    int number;
};

static double rate; /* events a ns, of one thread */
static uint64_t start_ns, length_ns;

/* ---- the offer ---- */

static long switches(void)
{
    struct rusage u = {0};
    getrusage(RUSAGE_THREAD, &u);
    return u.ru_nivcsw + u.ru_nvcsw;
}

static void offer(struct producer *p, uint64_t i)
{
    struct vs_event e = {.op = i & 1 ? VS_OP_BLOCK_ALLOC : VS_OP_BLOCK_FREE,
                         .address = ((uint64_t)p->number << 40) + (i / 2 % LIVE << 12),
                         .size = 4096,
                         .space = VS_SPACE_DEVICE};
    if (i < 2 * LIVE)
        e.op = VS_OP_BLOCK_ALLOC, e.address = ((uint64_t)p->number << 40) + (i % LIVE << 12);
    if (i >= LIVE && i < 2 * LIVE)
        e.op = VS_OP_BLOCK_FREE;
    uint64_t before = vs_clock_ns();
    uint64_t seq = vs_record(&e);
    uint64_t took = vs_clock_ns() - before;
    p->offered++;
    p->taken += seq != VS_SEQ_NONE;
    p->waits += took > WAIT_NS;
    if (took <= BOUND_NS) {
        p->longest_ns = took > p->longest_ns ? took : p->longest_ns;
        return;
    }
    long seen = switches();
    if (seen != p->switches)
        p->preempted++;
    else
        p->beyond++;
    p->longest_ns = seen == p->switches && took > p->longest_ns ? took : p->longest_ns;
    p->switches = seen;
}

static void *produce(void *argument)
{
    struct producer *p = argument;
    for (uint64_t now; (now = vs_clock_ns() - start_ns) < length_ns;) {
        uint64_t due = (uint64_t)((double)now * rate);
        if (due > p->offered) {
            uint64_t late = (uint64_t)((double)(due - p->offered) / rate);
            p->behind_ns = late > p->behind_ns ? late : p->behind_ns;
        }
        p->switches = switches();
        for (uint64_t n = 0; p->offered < due && n < 64; n++)
            offer(p, p->offered);
    }
    return NULL;
}

/* ---- all of it ---- */

static void start_recording(const char *directory)
{
    char output[128];
    snprintf(output, sizeof output, "VRAMSCOPE_OUTPUT=%s/run.db", directory);
    char *environment[] = {output, (char *)(uintptr_t) "VRAMSCOPE_STACKS=off",
                           (char *)(uintptr_t) "VRAMSCOPE_MAX_BYTES=64GiB", NULL};
    vs_options_load(environment);
    vs_output_init();
    vs_recording_prepare();
    vs_record(&(struct vs_event){.op = VS_OP_ALLOC, .address = 1, .size = 1});
}

static uint64_t ask(const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    int64_t n = -1;
    if (sqlite3_open_v2(vs_recording->database, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK) {
        n = sqlite3_step(q) == SQLITE_ROW ? sqlite3_column_int64(q, 0) : -1;
        sqlite3_finalize(q);
    }
    sqlite3_close(db);
    return (uint64_t)n;
}

/* Callers, journal and database must agree on what was lost, and the database hold the rest. */
static int adds_up(const struct vs_journal_stats *s, uint64_t taken, uint64_t lost, uint64_t left)
{
    uint64_t rows = ask("SELECT count(*) FROM event WHERE op IN ('block_alloc', 'block_free')");
    uint64_t told = ask("SELECT coalesce(sum(events), 0) FROM loss");
    bool ok = lost == s->lost + s->late && (left > 0 || (rows == taken && told == lost));
    printf("rows %llu of %llu taken, losses told %llu of %llu: %s\n", (unsigned long long)rows,
           (unsigned long long)taken, (unsigned long long)told, (unsigned long long)lost,
           !ok        ? "WRONG"
           : left > 0 ? "the rest is in the journal"
                      : "exact");
    return ok ? 0 : 1;
}

static int report(const struct producer *p, int threads, const struct vs_journal_stats *s)
{
    struct producer sum = {0};
    struct stat st = {0};
    for (int i = 0; i < threads; i++) {
        sum.offered += p[i].offered;
        sum.taken += p[i].taken;
        sum.beyond += p[i].beyond;
        sum.preempted += p[i].preempted;
        sum.waits += p[i].waits;
        sum.longest_ns = p[i].longest_ns > sum.longest_ns ? p[i].longest_ns : sum.longest_ns;
        sum.behind_ns = p[i].behind_ns > sum.behind_ns ? p[i].behind_ns : sum.behind_ns;
    }
    uint64_t lost = sum.offered - sum.taken, left = s->head - s->tail;
    stat(vs_recording->database, &st);
    printf("offered %llu (%.2f M/s), lost %llu (%.2f %%), left in the journal %llu, database %.0f MB\n",
           (unsigned long long)sum.offered, (double)sum.offered * 1e3 / (double)length_ns,
           (unsigned long long)lost, 100.0 * (double)lost / (double)sum.offered, (unsigned long long)left,
           (double)st.st_size / 1e6);
    printf("longest call %.3f ms, %llu calls beyond 1 ms, and %llu in which the machine took the core\n",
           (double)sum.longest_ns / 1e6, (unsigned long long)sum.beyond, (unsigned long long)sum.preempted);
    printf("%llu waits of 1 ms, a thread was at most %.3f ms behind its clock\n",
           (unsigned long long)sum.waits, (double)sum.behind_ns / 1e6);
    return adds_up(s, sum.taken, lost, left);
}

int main(int argc, char **argv)
{
    static struct producer p[THREADS_MAX];
    char directory[] = "/tmp/vs-bench-XXXXXX", command[64];
    double millions = argc > 1 ? atof(argv[1]) : 2;
    int seconds = argc > 2 ? atoi(argv[2]) : 10, threads = argc > 3 ? atoi(argv[3]) : 1;
    if (millions <= 0 || seconds < 1 || threads < 1 || threads > THREADS_MAX || !mkdtemp(directory))
        return 2;
    start_recording(directory);
    struct vs_journal *j = vs_record_journal();
    if (!j)
        return 2;
    rate = millions / 1e3 / threads;
    length_ns = (uint64_t)seconds * 1000000000u;
    start_ns = vs_clock_ns();
    for (int i = 0; i < threads; i++) {
        p[i].number = i + 1;
        pthread_create(&p[i].thread, NULL, produce, &p[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(p[i].thread, NULL);
    uint64_t before = vs_clock_ns();
    vs_drain_finish();
    uint64_t end = vs_clock_ns() - before;
    struct vs_journal_stats s;
    vs_journal_stats(j, &s);
    int wrong = report(p, threads, &s);
    printf("the end took %.0f ms\n", (double)end / 1e6);
    unlink(vs_recording->journal_path);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0 || wrong;
}
