/*
 * bench_drain.c - how fast events become rows, ledger included, on one core, and what a row costs on disk.
 *
 *     bench_drain [events [directory [accesses]]]
 *
 * A synthetic training job (tests/unit/trace/stream.h) fills the ring in bursts; only the writer's time
 * counts. Targets: 1.5 M events/s, 60 bytes an event; with "accesses", where each block has a row of the
 * access ledger, 1.2 M and 70.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "unit/trace/stream.h"
#include "trace/access.h"
#include "trace/journal/journal.h"
#include "trace/writer/writer.h"

static struct vs_journal *journal;
static uint64_t made, writer_ns, writer_cpu_ns;
static struct vs_writer *writer;

static uint64_t clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- launches, as shim/access puts them into the ring ---- */

static bool launches;

static void launch(const struct vs_event *e)
{
    static uint64_t word[3];
    static uint32_t n;
    uint32_t kind = n / 3 % 16;
    struct vs_event like = {.t_ns = e->t_ns + 1500,
                            .stack = 1 + kind % 4,
                            .range = 1 + kind / 4,
                            .op = VS_OP_USE,
                            .space = (uint8_t)(2u << kind / 4),
                            .device = VS_USE_WORDS,
                            .status = VS_ACCESS_KERNEL};
    word[n++ % 3] = e->address | VS_USE_SURE;
    vs_journal_append_uses(journal, &like, word, 3);
}

static void emit(void *context, const struct vs_event *e)
{
    if (vs_journal_append(journal, e) == VS_SEQ_NONE)
        return;
    made++;
    if (launches && e->op == VS_OP_BLOCK_ALLOC)
        launch(e);
}

static void drain(void)
{
    uint64_t wall = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
    long n;
    while ((n = vs_writer_drain(writer, false)) > 0) {
    }
    if (n < 0)
        fprintf(stderr, "drain: %ld\n", n);
    writer_ns += clock_of(CLOCK_MONOTONIC) - wall;
    writer_cpu_ns += clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

static void close_writer(void)
{
    uint64_t wall = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
    int rc = vs_writer_close(writer, true);
    if (rc < 0)
        fprintf(stderr, "close: %d\n", rc);
    writer_ns += clock_of(CLOCK_MONOTONIC) - wall;
    writer_cpu_ns += clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
}

int main(int argc, char **argv)
{
    uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000000;
    const char *directory = argc > 2 ? argv[2] : "/tmp";
    char db[4096], path[4096], why[256] = "";
    snprintf(db, sizeof db, "%s/bench_drain.%d.db", directory, getpid());
    snprintf(path, sizeof path, "%s/bench_drain.%d.vsj", directory, getpid());
    uint32_t rows = argc > 3 && strcmp(argv[3], "accesses") == 0 ? 1 << 19 : 0;
    launches = rows != 0;
    struct vs_journal_config config = {.database = db, .start_ns = 0, .accesses = rows};
    if (vs_journal_create(&journal, path, &config) < 0)
        return fprintf(stderr, "%s: cannot create the journal\n", path), 2;
    vs_writer_alone(); /* as in the drain's thread */
    if (vs_writer_open(&writer, &(struct vs_database){.path = db, .version = "bench", .pid = getpid()},
                       journal, why, sizeof why) < 0)
        return fprintf(stderr, "%s\n", why), 2;
    struct stream *s = malloc(sizeof *s);
    stream_init(s, emit, NULL);
    for (int i = 0; i < 4; i++)
        s->name[i] =
            vs_journal_string(journal, (const char *[]){"forward", "logits", "backward", "optimizer"}[i],
                              (size_t[]){7, 6, 8, 9}[i]);
    while (made < events) {
        for (int i = 0; i < 40; i++)
            stream_step(s);
        drain();
    }
    close_writer();
    struct stat st = {0};
    stat(db, &st);
    printf("%.2f M events/s (processor time; %.2f by the clock), %.1f bytes/event, %" PRIu64 " events\n",
           (double)made * 1e3 / (double)writer_cpu_ns, (double)made * 1e3 / (double)writer_ns,
           (double)st.st_size / (double)made, made);
    if (!getenv("KEEP"))
        unlink(db);
    unlink(path);
    return 0;
}
