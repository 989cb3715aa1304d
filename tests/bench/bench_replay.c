/*
 * bench_replay.c - how fast the policies of `whatif` replay, and what each holds over what is alive.
 *
 *     bench_replay [--policy NAME] [--times N] INPUT...
 *     bench_replay --digest INPUT...       what each policy decides, as a number (placement_digest.h)
 *
 * INPUT is a recording, run.db*N (the same N times over), or a mix, mix:EVENTS:ALIVE:STREAMS[:SEED]: random
 * sizes from 256 B to 64 MiB, freed at random once ALIVE are there.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "read/guard.h"
#include "read/tape.h"
#include "replay/replay.h"
#include "unit/replay/placement_digest.h"

struct input {
    struct trace_tape tape;
    struct trace trace;
    bool recorded;
};

static uint64_t seed;

static uint64_t next_random(void)
{
    uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void make_mix(struct trace_tape *tape, uint64_t events, uint64_t alive, uint64_t streams)
{
    struct tape_event *living = xrealloc(NULL, (alive + 1) * sizeof *living);
    size_t n = 0;
    tape->at = xrealloc(NULL, events * sizeof *tape->at);
    for (; tape->n < events; tape->n++) {
        struct tape_event *e = &tape->at[tape->n];
        if (n == alive) {
            size_t i = next_random() % n;
            *e = living[i];
            e->what = TAPE_FREE;
            living[i] = living[--n];
        } else {
            double size = exp2(8 + 18 * (double)(next_random() >> 11) / (double)(UINT64_C(1) << 53));
            *e = (struct tape_event){.size = (uint64_t)size,
                                     .id = tape->ids++,
                                     .stream = (uint16_t)(next_random() % streams),
                                     .what = TAPE_ALLOC};
            living[n++] = *e;
        }
        e->t = (int64_t)tape->n;
    }
    tape->streams = (uint32_t)streams;
    tape->streams_known = true;
    free(living);
}

/* The recorded blocks without what the driver did, TIMES over: each time those that still live are freed. */
static void repeat(struct trace_tape *tape, unsigned times)
{
    struct trace_tape out = *tape;
    struct tape_event *alive = xrealloc(NULL, (tape->ids + 1) * sizeof *alive);
    bool *lives = xrealloc(NULL, tape->ids + 1);
    out.at = xrealloc(NULL, (tape->n + tape->ids) * (size_t)times * sizeof *out.at);
    out.n = out.start = 0;
    for (unsigned k = 0; k < times; k++) {
        memset(lives, 0, tape->ids + 1);
        for (size_t i = 0; i < tape->n; i++) {
            struct tape_event e = tape->at[i];
            if (e.what != TAPE_ALLOC && e.what != TAPE_FREE && e.what != TAPE_REUSABLE)
                continue;
            lives[e.id] = e.what == TAPE_ALLOC;
            alive[e.id] = e;
            e.id += k * tape->ids;
            out.at[out.n++] = e;
        }
        for (uint32_t id = 0; id < tape->ids && k + 1 < times; id++) {
            if (!lives[id])
                continue;
            struct tape_event e = alive[id];
            e.what = TAPE_FREE;
            e.id += k * tape->ids;
            out.at[out.n++] = e;
        }
    }
    out.ids = tape->ids * times;
    free(alive);
    free(lives);
    free(tape->at);
    *tape = out;
}

/* What bench_arena_trace.py and bench_arena_steps.py write: a line "N ALL", then "a ID SIZE STREAM" or "f ID
 * [STREAM]". */
static bool read_text(struct trace_tape *tape, const char *path)
{
    FILE *f = fopen(path, "r");
    struct tape_event *blocks = NULL;
    char line[128];
    unsigned id, stream;
    unsigned long long size;
    if (!f)
        return false;
    bool good = fgets(line, sizeof line, f) != NULL;
    while (good && fgets(line, sizeof line, f)) {
        struct tape_event e = {.t = (int64_t)tape->n};
        if (sscanf(line, "a %u %llu %u", &id, &size, &stream) == 3 && id == tape->ids) {
            e = (struct tape_event){.id = id, .size = size, .stream = (uint16_t)stream, .what = TAPE_ALLOC};
            size_t n = tape->ids++;
            *PUSH(blocks, n) = e;
            tape->streams = stream >= tape->streams ? stream + 1 : tape->streams;
        } else if (sscanf(line, "f %u", &id) == 1 && id < tape->ids) {
            e = blocks[id];
            e.what = TAPE_FREE;
        } else {
            good = false;
        }
        *PUSH(tape->at, tape->n) = e;
    }
    tape->streams_known = true;
    free(blocks);
    fclose(f);
    return good;
}

static bool open_input(struct input *in, const char *name)
{
    uint64_t events, alive, streams, with = 1;
    *in = (struct input){0};
    if (!strncmp(name, "mix:", 4)) {
        if (sscanf(name, "mix:%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNu64, &events, &alive, &streams,
                   &with) < 3 ||
            !events || !alive || !streams)
            return false;
        seed = with;
        make_mix(&in->tape, events, alive, streams);
        return true;
    }
    size_t length = strlen(name);
    if (length > 4 && !strcmp(name + length - 4, ".txt"))
        return read_text(&in->tape, name);
    char *path = xstrdup(name), *star = strrchr(path, '*');
    if (star)
        *star++ = '\0';
    in->recorded = trace_open(&in->trace, path) == 0 && tape_read(&in->trace, 0, INT64_MAX, &in->tape) == 0;
    guard_memory_end(); /* it is by the file, and not by what is made of it */
    if (in->recorded && star && atoi(star) > 0)
        repeat(&in->tape, (unsigned)atoi(star));
    free(path);
    return in->recorded;
}

static void replay(const struct trace_tape *tape, int policy, struct replay_result *r)
{
    struct torch_settings s = torch_defaults();
    s.expandable = policy == 1;
    if (policy < 2)
        replay_torch(tape, &s, false, r);
    else
        replay_arena(tape, 0, r);
}

enum { POLICIES = 3 };
static const char *const names[POLICIES] = {"torch-native", "torch-expandable", "arena"};

/* ---- what was decided ---- */

static struct placement_list list_of(const struct trace_tape *tape)
{
    struct placement_list list = {.ids = tape->ids};
    list.at = xrealloc(NULL, (tape->n + 1) * sizeof *list.at);
    for (size_t i = 0; i < tape->n; i++) {
        const struct tape_event *e = &tape->at[i];
        int stream = e->stream < PLACEMENT_STREAMS ? e->stream : PLACEMENT_ANY;
        if (e->what == TAPE_ALLOC || e->what == TAPE_FREE)
            list.at[list.n++] = (struct placement_event){.size = e->size,
                                                         .id = e->id,
                                                         .stream = e->what == TAPE_ALLOC ? stream : -1,
                                                         .deferred = e->deferred};
    }
    return list;
}

static uint64_t digest_of_result(const struct replay_result *r)
{
    uint64_t digest = 1;
    const uint64_t figures[] = {
        r->reserved,        r->blocks_most, r->events,        r->retries,       r->ran_out,
        (uint64_t)r->out_t, r->out_size,    r->out_live,      r->out_reserved,  r->blocks,
        r->blocks_same,     r->segments,    r->segments_same, r->segments_more, (uint64_t)r->out_at_start};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        digest = placement_mix(digest, figures[i]);
    return digest;
}

static void write_digests(const struct trace_tape *tape)
{
    struct placement_list list = list_of(tape);
    struct replay_result r;
    for (int p = 0; p < POLICIES; p++) {
        replay(tape, p, &r);
        uint64_t digest = digest_of_result(&r);
        if (p == 2)
            digest = placement_mix(digest, placement_of_arena(&list, &(struct placement_setting){0}));
        if (p == 2)
            digest = placement_mix(digest, placement_of_arena(&list, &(struct placement_setting){.lag = 30}));
        printf("  %-16s %016" PRIx64 "\n", names[p], digest);
    }
    free(list.at);
}

/* ---- the whole ---- */

static void write_speeds(const struct trace_tape *tape, const char *only, int times,
                         const struct replay_result *live)
{
    struct replay_result r;
    for (int p = 0; p < POLICIES; p++) {
        double best = 0;
        if (only && strcmp(only, names[p]))
            continue;
        for (int k = 0; k < times; k++) {
            replay(tape, p, &r);
            double speed = (double)r.events / ((double)r.ns / 1e3);
            best = speed > best ? speed : best;
        }
        printf("  %-16s %6.1f M/s  %+.3f %%\n", names[p], best,
               ((double)r.reserved / (double)live->reserved - 1) * 100);
    }
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    int times = 3;
    bool digest = false;
    for (int a = 1; a < argc; a++) {
        struct input in;
        if (!strcmp(argv[a], "--policy") && a + 1 < argc) {
            only = argv[++a];
            continue;
        }
        if (!strcmp(argv[a], "--digest")) {
            digest = true;
            continue;
        }
        if (!strcmp(argv[a], "--times") && a + 1 < argc) {
            times = atoi(argv[++a]);
            continue;
        }
        if (!open_input(&in, argv[a])) {
            fprintf(stderr, "bench_replay: %s is no recording and no mix:EVENTS:ALIVE:STREAMS\n", argv[a]);
            return 2;
        }
        struct replay_result live;
        replay_live(&in.tape, 0, &live);
        printf("%s: %" PRIu64 " events\n", argv[a], live.events);
        if (digest)
            write_digests(&in.tape);
        else
            write_speeds(&in.tape, only, times, &live);
        tape_free(&in.tape);
        if (in.recorded)
            trace_close(&in.trace);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (!digest)
        printf("at most %ld MiB\n", usage.ru_maxrss >> 10);
    return 0;
}
