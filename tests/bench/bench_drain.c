/*
 * bench_drain.c - how fast events become rows, ledger included, on one core, and what a row costs on disk.
 *
 *      bench_drain [events [directory [accesses]]]
 *
 * A synthetic training job (tests/unit/trace/stream.h) fills the ring in bursts; only the writer's time
 * counts: its processor time and the clock's, the final checkpoint included.  The first line is the number
 * that the design asks for (1.5 M events/s, 60 bytes an event).  With "accesses" each block has a row of the
 * access ledger, made up, of 25 kinds (1.2 M events/s, 70 bytes).
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

/* ---- rows of the access ledger, as shim/access writes them ---- */

enum { PLACES = 1 << 20 };
static struct {
    uint64_t address;
    uint32_t row;
} * living; /* NULL: without accesses */

static uint64_t place_of(uint64_t address)
{
    uint64_t at = (address >> 9) * 0x9e3779b97f4a7c15u >> 44;
    for (uint64_t seen; (seen = living[at % PLACES].address) != 0 && seen != address;)
        at++;
    return at % PLACES;
}

static uint32_t born(const struct vs_event *e)
{
    uint32_t id = vs_journal_access_take(journal);
    struct vs_access_row *row = vs_journal_access(journal, id);
    if (!row)
        return 0;
    uint32_t next = row->next, kind = (uint32_t)(e->address >> 9) % 100;
    *row = (struct vs_access_row){.address = e->address,
                                  .end = e->address + e->size,
                                  .last_ns = e->t_ns + 900000 + kind * 1000,
                                  .last_name = 1 + kind % 4,
                                  .last_phase = 1 + kind % 3,
                                  .last_step = 7,
                                  .uses = 3 + kind % 5,
                                  .steps = 1,
                                  .kinds = VS_ACCESS_KERNEL,
                                  .phases = (uint8_t)(2u << kind % 4),
                                  .op = VS_OP_BLOCK_ALLOC,
                                  .born_ns = e->t_ns,
                                  .first_ns = e->t_ns + 20000 + kind * 100,
                                  .first_name = 1 + kind / 4 % 4,
                                  .first_phase = 1 + kind / 16 % 4,
                                  .first_step = 7,
                                  .born_step = 7,
                                  .end_step = 7,
                                  .next = next};
    return id;
}

static void emit(void *context, const struct vs_event *e)
{
    struct vs_event event = *e;
    uint64_t at = living ? place_of(e->address) : 0;
    if (living && e->op == VS_OP_BLOCK_ALLOC) {
        living[at].address = e->address;
        living[at].row = born(e);
    } else if (living && e->op == VS_OP_BLOCK_FREE) {
        event.stack = living[at].row;
        living[at].row = 0;
    }
    if (vs_journal_append(journal, &event) != VS_SEQ_NONE)
        made++;
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
    living = rows ? calloc(PLACES, sizeof *living) : NULL;
    struct vs_journal_config config = {.database = db, .start_ns = 0, .accesses = rows};
    if (vs_journal_create(&journal, path, &config) < 0)
        return fprintf(stderr, "%s: cannot create the journal\n", path), 2;
    vs_writer_alone(); /* as in the drain's thread */
    if (vs_writer_open(&writer, &(struct vs_writer_config){.path = db, .version = "bench", .pid = getpid()},
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
