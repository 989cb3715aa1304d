/*
 * bench_long.c - a job of days in minutes: does the file stay under its limit, the drain fast, its memory
 * small?
 *
 *      bench_long [million events [max MiB [directory [million living]]]]
 *
 * The stream of bench_drain, against VRAMSCOPE_MAX_BYTES of 64 MiB by default; or, where the last argument
 * says how many, blocks that live on until there are so many, and from then on each new one ends the oldest.
 * One line per tenth of the job: events, the file and its WAL, the drain's speed since the last line, the
 * process's memory.  Exit status 1 where the file passed the limit.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "unit/trace/stream.h"
#include "trace/journal/journal.h"
#include "trace/writer/writer.h"

static struct vs_journal *journal;
static struct vs_writer *writer;
static uint64_t made, drain_ns;

static void emit(void *context, const struct vs_event *e)
{
    made += vs_journal_append(journal, e) != VS_SEQ_NONE;
}

static struct growth {
    uint64_t most, born, died;
} growth;

/* One block more, and beyond GROWTH.MOST one less. */
static void grow(void)
{
    bool full = growth.born - growth.died >= growth.most;
    uint64_t number = full ? growth.died++ : growth.born++;
    struct vs_event e = {.op = full ? VS_OP_BLOCK_FREE : VS_OP_BLOCK_ALLOC,
                         .space = VS_SPACE_DEVICE,
                         .thread = 1,
                         .t_ns = made * 6667, /* 150,000 a second */
                         .address = (UINT64_C(1) << 40) + number % (2 * growth.most) * 512,
                         .size = 512,
                         .arg0 = (growth.born - growth.died) * 512,
                         .arg1 = 0};
    emit(NULL, &e);
}

static void drain(void)
{
    struct timespec from, to;
    long n;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    while ((n = vs_writer_drain(writer, false)) > 0) {
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    drain_ns += (uint64_t)((to.tv_sec - from.tv_sec) * 1000000000ll + to.tv_nsec - from.tv_nsec);
    if (n < 0) {
        fprintf(stderr, "drain: %ld\n", n);
        exit(1);
    }
}

static double mib(const char *path)
{
    struct stat st = {0};
    stat(path, &st);
    return (double)st.st_size / (1 << 20);
}

static double rss_mib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void tell(const char *db, const char *wal, uint64_t events, uint64_t ns)
{
    printf("%6.1f M events  %6.1f MiB  wal %5.1f MiB  %5.2f M events/s  rss %6.1f MiB\n", (double)made / 1e6,
           mib(db), mib(wal), (double)events * 1e3 / (double)(ns ? ns : 1), rss_mib());
}

static void name_phases(struct stream *s)
{
    static const char *const name[] = {"forward", "logits", "backward", "optimizer"};
    for (int i = 0; i < 4; i++)
        s->name[i] = vs_journal_string(journal, name[i], strlen(name[i]));
}

static bool run(uint64_t events, double limit, const char *db)
{
    char wal[4200];
    struct stream *s = malloc(sizeof *s);
    bool kept = s != NULL;
    snprintf(wal, sizeof wal, "%s-wal", db);
    if (!s)
        return false;
    stream_init(s, emit, NULL);
    name_phases(s);
    for (int tenth = 1; tenth <= 10; tenth++) {
        uint64_t before = made, ns = drain_ns;
        while (made < events / 10 * (uint64_t)tenth) {
            for (int i = 0; i < 40 && growth.most == 0; i++)
                stream_step(s);
            for (int i = 0; i < 7500 && growth.most; i++) /* 50 ms of them */
                grow();
            drain();
            kept &= mib(db) <= limit;
        }
        tell(db, wal, made - before, drain_ns - ns);
    }
    free(s);
    return kept;
}

int main(int argc, char **argv)
{
    uint64_t events = (uint64_t)((argc > 1 ? atof(argv[1]) : 300) * 1e6);
    double limit = argc > 2 ? atof(argv[2]) : 64;
    const char *directory = argc > 3 ? argv[3] : "/tmp";
    growth.most = (uint64_t)((argc > 4 ? atof(argv[4]) : 0) * 1e6);
    char db[4096], path[4096], why[256] = "";
    snprintf(db, sizeof db, "%s/bench_long.%d.db", directory, getpid());
    snprintf(path, sizeof path, "%s/bench_long.%d.vsj", directory, getpid());
    struct vs_writer_config c = {
        .path = db, .version = "bench", .pid = getpid(), .max_bytes = (uint64_t)(limit * (1 << 20))};
    if (vs_journal_create(&journal, path, &(struct vs_journal_config){.database = db}) < 0 ||
        vs_writer_open(&writer, &c, journal, why, sizeof why) < 0)
        return fprintf(stderr, "cannot begin: %s\n", why), 2;
    bool kept = run(events, limit, db);
    int rc = vs_writer_close(writer, true);
    kept &= mib(db) <= limit;
    printf("%s: %.1f MiB of %.0f at the end\n", kept && rc == 0 ? "kept" : "NOT KEPT", mib(db), limit);
    if (!getenv("KEEP"))
        unlink(db);
    unlink(path);
    return kept && rc == 0 ? 0 : 1;
}
