/*
 * bench_record.c - nanoseconds that vs_record costs the host, without call stacks, on 1 to 64 threads:
 * bench_record [rounds]. Beside it the clock alone, the journal's append alone, and a block's report.
 *
 * Pairs of alloc and free come in bursts that fit the ring, which is emptied outside the measured time.
 * Ranges, stacks and database are stand-ins.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/options.h"
#include "record/block.h"
#include "record/recording.h"
#include "unit/record/standins.h"

#define BURST       128000
#define BURSTS      10
#define ROUNDS_MAX  101
#define THREADS_MAX 64

enum what { CLOCK, EVENT_CLOCK, APPEND, RECORD, BLOCK };

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    enum what what;
    int events;
    uint64_t ns, sink;
};

static struct vs_event scratch[4096];
static uint64_t seqs[4096];

static void empty(struct vs_journal *j)
{
    size_t n;
    while ((n = vs_journal_peek(j, scratch, seqs, 4096, false)) > 0)
        vs_journal_release(j, seqs[n - 1]);
}

static void one(struct worker *w, struct vs_journal *j, int i)
{
    struct vs_event e = {.op = i & 1 ? VS_OP_FREE : VS_OP_ALLOC, .address = (uint64_t)i << 9, .size = 512};
    if (w->what == CLOCK)
        w->sink += vs_clock_ns();
    else if (w->what == EVENT_CLOCK)
        w->sink += vs_event_clock_ns();
    else if (w->what == BLOCK)
        w->sink += vs_record_block(i & 1 ? VS_OP_BLOCK_FREE : VS_OP_BLOCK_ALLOC, VS_SPACE_DEVICE, 0, 1,
                                   e.address, 512, 0, 0, 0) ||
                   vs_record(&e);
    else
        w->sink += w->what == APPEND ? vs_journal_append(j, &e) : vs_record(&e);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct vs_journal *j = vs_record_journal();
    for (int b = 0; b < BURSTS; b++) {
        pthread_barrier_wait(w->barrier);
        uint64_t start = vs_clock_ns();
        for (int i = 0; i < w->events; i++)
            one(w, j, i);
        w->ns += vs_clock_ns() - start;
        pthread_barrier_wait(w->barrier);
    }
    return NULL;
}

/* One round: ns per event, as each thread saw it. */
static double measure(enum what what, int threads)
{
    static struct worker w[THREADS_MAX];
    pthread_barrier_t barrier;
    double ns = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){.barrier = &barrier, .what = what, .events = BURST / threads};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int b = 0; b < BURSTS; b++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        empty(vs_record_journal());
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        ns += (double)w[i].ns / ((double)w[i].events * BURSTS);
    }
    pthread_barrier_destroy(&barrier);
    return ns / threads;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, double *ns, int rounds)
{
    qsort(ns, (size_t)rounds, sizeof *ns, by_value);
    printf("%-28s %7.1f ns   (%.1f to %.1f, %d rounds)\n", name, ns[rounds / 2], ns[0], ns[rounds - 1],
           rounds);
}

static void start_recording(char *directory)
{
    char output[128];
    snprintf(output, sizeof output, "VRAMSCOPE_OUTPUT=%s/run.db", directory);
    char *environment[] = {output, (char *)(uintptr_t) "VRAMSCOPE_STACKS=off",
                           (char *)(uintptr_t) "VRAMSCOPE_SAMPLE_MS=0", NULL};
    vs_options_load(environment);
    vs_output_init();
    vs_recording_prepare();
    writer_error = -EAGAIN; /* the drain thread leaves the ring to us */
    vs_record(&(struct vs_event){.op = VS_OP_ALLOC});
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum what what;
        int threads;
    } rows[] = {{"clock_gettime alone", CLOCK, 1},     {"event clock alone", EVENT_CLOCK, 1},
                {"append, 1 thread", APPEND, 1},       {"vs_record, 1 thread", RECORD, 1},
                {"vs_record, 2 threads", RECORD, 2},   {"vs_record, 8 threads", RECORD, 8},
                {"vs_record, 64 threads", RECORD, 64}, {"block, 1 thread", BLOCK, 1},
                {"block, 2 threads", BLOCK, 2},        {"block, 8 threads", BLOCK, 8}};
    enum { ROWS = sizeof rows / sizeof *rows };
    static double ns[ROWS][ROUNDS_MAX];
    char directory[] = "/tmp/vs-bench-XXXXXX", command[64];
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    if (rounds < 1 || rounds > ROUNDS_MAX || !mkdtemp(directory))
        return 2;
    start_recording(directory);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < ROWS; i++)
            ns[i][r] = measure(rows[i].what, rows[i].threads);
    for (int i = 0; i < ROWS; i++)
        report(rows[i].name, ns[i], rounds);
    unlink(vs_recording->journal_path);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}
