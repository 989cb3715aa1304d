/*
 * bench_ranges.c - nanoseconds of a range's push and pop, recorded and where nothing records yet, and of
 * asking which range is current: bench_ranges [rounds]. Pairs come in bursts that fit the ring, which is
 * emptied outside the measured time.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/options.h"
#include "record/recording.h"

#include "unit/record/standins.h"

#include "framework/ranges.h"
#include "vramscope.h"

enum { PAIRS = 20000, BURSTS = 20, ROUNDS_MAX = 101 };
enum what { CLOCK, EVENTS, IDLE, MARKER, NVTX, CURRENT, ROWS };

static const char *const names[ROWS] = {
    "two event clocks", "two plain events",    "marker pair, not recording",
    "marker pair",      "NVTX pair, no phase", "current",
};
static struct vs_event scratch[4096];
static uint64_t seqs[4096], sink;
static struct vs_range_names nvtx;

static void empty(struct vs_journal *j)
{
    size_t n;

    while (j && (n = vs_journal_peek(j, scratch, seqs, 4096, false)) > 0)
        vs_journal_release(j, seqs[n - 1]);
}

static void one(enum what what)
{
    struct vs_event e = {.op = VS_OP_RANGE_POP, .device = VS_DEVICE_UNKNOWN};
    int depth;

    switch (what) {
    case CLOCK:
        sink += vs_event_clock_ns() + vs_event_clock_ns();
        break;
    case EVENTS:
        sink += vs_record(&e) + vs_record(&e);
        break;
    case NVTX:
        vs_range_open(&nvtx, VS_SOURCE_NVTX, &depth);
        vs_range_close(NULL, VS_SOURCE_NVTX);
        break;
    case CURRENT:
        sink += vs_range_current();
        break;
    default:
        vramscope_range_push("forward");
        vramscope_range_pop();
    }
}

static double measure(enum what what)
{
    uint64_t ns = 0;

    for (int b = 0; b < BURSTS; b++) {
        uint64_t start = vs_clock_ns();

        for (int i = 0; i < PAIRS; i++)
            one(what);
        ns += vs_clock_ns() - start;
        empty(vs_record_journal());
    }
    return (double)ns / ((double)PAIRS * BURSTS);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(enum what what, double *ns, int rounds)
{
    qsort(ns, (size_t)rounds, sizeof *ns, by_value);
    printf("%-28s %7.1f ns   (%.1f to %.1f, %d rounds)\n", names[what], ns[rounds / 2], ns[0], ns[rounds - 1],
           rounds);
}

static void prepare(char *directory)
{
    char output[128];

    snprintf(output, sizeof output, "VRAMSCOPE_OUTPUT=%s/run.db", directory);
    char *environment[] = {output, (char *)(uintptr_t) "VRAMSCOPE_SAMPLE_MS=0", NULL};

    vs_options_load(environment);
    vs_output_init();
    vs_recording_prepare();
    vs_ranges_init();
    nvtx = (struct vs_range_names){.name = vs_name_intern("aten::mm", 8), .text = "aten::mm", .length = 8};
    writer_error = -EAGAIN; /* the drain thread leaves the ring to us */
}

int main(int argc, char **argv)
{
    static double ns[ROWS][ROUNDS_MAX];
    char directory[] = "/tmp/vs-bench-XXXXXX", command[64];
    int rounds = argc > 1 ? atoi(argv[1]) : 9;

    if (rounds < 1 || rounds > ROUNDS_MAX || !mkdtemp(directory))
        return 2;
    prepare(directory);
    vs_suppliers.range = vs_range_current; /* here it is measured */
    for (int r = 0; r < rounds; r++)
        ns[IDLE][r] = measure(IDLE);
    vs_record_start();
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < ROWS; i++)
            if (i != IDLE)
                ns[i][r] = measure(i);
    for (int i = 0; i < ROWS; i++)
        report(i, ns[i], rounds);
    unlink(vs_recording->journal_path);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}
