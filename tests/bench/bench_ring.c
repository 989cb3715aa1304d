/*
 * bench_ring.c - what an event costs where many threads record at once: 1, 2, 8 and 64 of them on one ring.
 *
 *      bench_ring [rounds]
 *
 * Every thread records pairs of alloc and free as fast as it can, in bursts that fit the ring together; a
 * consumer empties it between bursts, outside the measured time.  Per number of threads: the wall time of an
 * event as its thread sees it, the processor time of an event (without the time that a thread waits for a
 * core: with more threads than cores the first one says little), and what all of them make together.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/options.h"
#include "record/output.h"
#include "record/recording.h"
#include "unit/record/standins.h"

#define BURST       128000
#define BURSTS      10
#define ROUNDS_MAX  51
#define THREADS_MAX 64

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    int events;
    bool append; /* the journal alone */
    uint64_t wall_ns, cpu_ns;
    uint64_t begun[BURSTS], ended[BURSTS];
};

struct figures {
    double wall, cpu, millions;
};

static struct vs_event scratch[4096];
static uint64_t seqs[4096];

static void empty(struct vs_journal *j)
{
    size_t n;
    while ((n = vs_journal_peek(j, scratch, seqs, 4096, false)) > 0)
        vs_journal_release(j, seqs[n - 1]);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct vs_journal *j = vs_record_journal();
    for (int b = 0; b < BURSTS; b++) {
        pthread_barrier_wait(w->barrier);
        uint64_t wall = vs_clock_ns(), cpu = cpu_ns();
        for (int i = 0; i < w->events; i++) {
            struct vs_event e = {
                .op = i & 1 ? VS_OP_FREE : VS_OP_ALLOC, .address = (uint64_t)i << 9, .size = 512};
            if (w->append)
                vs_journal_append(j, &e);
            else
                vs_record(&e);
        }
        w->cpu_ns += cpu_ns() - cpu;
        w->begun[b] = wall;
        w->ended[b] = vs_clock_ns();
        w->wall_ns += w->ended[b] - wall;
        pthread_barrier_wait(w->barrier);
    }
    return NULL;
}

/* From the first one's begin to the last one's end, over all bursts. */
static uint64_t together_ns(const struct worker *w, int threads)
{
    uint64_t sum = 0;
    for (int b = 0; b < BURSTS; b++) {
        uint64_t first = UINT64_MAX, last = 0;
        for (int i = 0; i < threads; i++) {
            first = w[i].begun[b] < first ? w[i].begun[b] : first;
            last = w[i].ended[b] > last ? w[i].ended[b] : last;
        }
        sum += last - first;
    }
    return sum;
}

static struct figures measure(int threads, bool append)
{
    static struct worker w[THREADS_MAX];
    struct figures f = {0};
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        w[i] = (struct worker){.barrier = &barrier, .append = append, .events = BURST / threads};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int b = 0; b < BURSTS; b++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        empty(vs_record_journal());
    }
    double events = (double)(BURST / threads) * BURSTS;
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        f.wall += (double)w[i].wall_ns / events / threads;
        f.cpu += (double)w[i].cpu_ns / events / threads;
    }
    f.millions = events * threads * 1e3 / (double)together_ns(w, threads);
    pthread_barrier_destroy(&barrier);
    return f;
}

static int by_wall(const void *a, const void *b)
{
    double x = ((const struct figures *)a)->wall, y = ((const struct figures *)b)->wall;
    return (x > y) - (x < y);
}

static void start_recording(const char *directory)
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
    static const int counts[] = {1, 2, 8, 64};
    static struct figures f[2][4][ROUNDS_MAX];
    char directory[] = "/tmp/vs-bench-XXXXXX", command[64];
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    if (rounds < 1 || rounds > ROUNDS_MAX || !mkdtemp(directory))
        return 2;
    start_recording(directory);
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < 4; c++)
            for (int append = 0; append < 2; append++)
                f[append][c][r] = measure(counts[c], append);
    printf("%-26s %9s %18s %9s %12s\n", "median of rounds", "wall ns", "(min to max)", "cpu ns",
           "M events/s");
    for (int append = 0; append < 2; append++)
        for (int c = 0; c < 4; c++) {
            struct figures *at = f[append][c];
            qsort(at, (size_t)rounds, sizeof *at, by_wall);
            printf("%-13s %2d threads    %9.1f (%7.1f to %7.1f) %9.1f %12.2f\n",
                   append ? "append," : "vs_record,", counts[c], at[rounds / 2].wall, at[0].wall,
                   at[rounds - 1].wall, at[rounds / 2].cpu, at[rounds / 2].millions);
        }
    unlink(vs_recording->journal_path);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}
