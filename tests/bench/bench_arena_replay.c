/*
 * bench_arena_replay.c - what the arena would have held in a recorded run: reserved at the peak over live at
 * the peak.
 *
 *     bench_arena_replay [passes=N] [lag=EVENTS] [trim=BYTES] [window=FREES] [capacity=BYTES] [defer=1]
 *                        [waits=0] [mappings=CHUNKS] [device=CHUNKS] [without=RULE] TRACE...
 *
 * TRACE: "N ALL", then ALL lines "a ID SIZE STREAM" or "f ID [STREAM]", of which N set up what was live at
 * first (bench_arena_trace.py). STREAM "any": none was asked for, and the device was waited for before the
 * free. Made up: training:N on N streams, lengths:N[:LAYERS[:HIDDEN[:INNER[:VOCABULARY]]]], small:N
 * (training_trace.h); random:N, growing:N, cross:N, mixed:N, turns, halves, phases:STEPS (hard_traces.h).
 *
 * lag: events are reached so many events later, or up to half as much earlier or later. defer: no stream is
 * known, and frees do not wait. waits=0: no stream waits for another. without: a rule of
 * shim/arena/core/rules.h.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arena/core/arena.h"
#include "arena/core/backing.h"
#include "arena/core/rules.h"
#include "hard_traces.h"

uint64_t vs_arena_rules_off;
static struct vs_arena_config config = {.capacity = 192ull << 30};
static uint64_t lag, device; /* events; chunks that the device has, 0 = enough */
static int passes = 1;
static bool defer;

#define STREAMS 64
#define ANY     STREAMS /* its queue is VS_ARENA_ANY */

/* -1: no stream at all */
static int stream_of(const char *word)
{
    int stream = strcmp(word, "any") ? atoi(word) : ANY;
    return stream > ANY ? -1 : stream;
}

static bool read_event(FILE *f, struct trace_event *e)
{
    char line[128], stream[16] = "";
    unsigned long long size = 0;
    if (!fgets(line, sizeof line, f))
        return false;
    if (sscanf(line, "a %u %llu %15s", &e->id, &size, stream) == 3) {
        e->size = size;
        e->stream = stream_of(stream);
        return e->stream >= 0;
    }
    int words = sscanf(line, "f %u %15s", &e->id, stream);
    e->stream = -1;
    e->freed_on = words == 2 ? 1 + stream_of(stream) : 0;
    return words >= 1;
}

/* False: no trace of that name is made up. */
static bool made_up(const char *name, struct trace *t)
{
    uint32_t n = 1;
    struct training m = {.layers = 24, .hidden = 2048, .inner = 5504, .vocabulary = 32000, .batches = 44};
    if (sscanf(name, "training:%u", &n) == 1) {
        m.streams = n;
        *t = training_trace(&m);
    } else if (sscanf(name, "small:%u", &n) == 1) {
        *t = training_trace(&(struct training){n, 200, 6, 512, 1536, 4096, 50, 500});
    } else if (sscanf(name, "lengths:%u:%u:%lu:%lu:%lu", &n, &m.layers, &m.hidden, &m.inner, &m.vocabulary) >=
               1) {
        m.streams = n;
        m.batches = 200;
        m.shortest = 400;
        m.longest = 6000;
        *t = training_trace(&m);
    } else if (sscanf(name, "cross:%u", &n) == 1 || sscanf(name, "mixed:%u", &n) == 1) {
        m.streams = n;
        *t = strange_trace(&m, 8, name[0] == 'm' ? ANY : 0);
    } else if (!strcmp(name, "turns")) {
        *t = turns_trace(ANY);
    } else if (!strcmp(name, "halves")) {
        *t = halves_trace();
    } else if (sscanf(name, "random:%u", &n) == 1) {
        *t = random_trace(n, 20000, 8ull << 30);
    } else if (sscanf(name, "growing:%u", &n) == 1) {
        *t = growing_trace(n, 400, 96 << 10);
    } else if (sscanf(name, "phases:%u", &n) == 1) {
        *t = phases_trace(4, n, 256 << 20, 8ull << 30);
    } else {
        return false;
    }
    return n >= 1 && (n <= STREAMS || name[0] == 'p');
}

static bool read_trace(const char *path, struct trace *t)
{
    if (made_up(path, t))
        return true;
    FILE *f = fopen(path, "r");
    bool good = f && fscanf(f, "%u %u ", &t->first, &t->count) == 2;
    t->event = good ? calloc(t->count + 1, sizeof *t->event) : NULL;
    for (uint32_t i = 0; good && i < t->count; i++) {
        good = read_event(f, &t->event[i]);
        if (t->event[i].id >= t->ids)
            t->ids = t->event[i].id + 1;
    }
    if (f)
        fclose(f);
    return good;
}

struct replay {
    struct vs_arena *arena;
    struct vs_backing_count count;
    uint32_t queue[STREAMS + 1]; /* of a stream */
    uint64_t *address;           /* of an id; 0 = not live */
    uint8_t *stream;
    uint32_t refused; /* requests */
};

static uint32_t queue_of(struct replay *r, int stream)
{
    if (!r->queue[stream] && stream != ANY && !defer)
        if (vs_arena_open_queue(r->arena, (uint64_t)stream, 0, &r->queue[stream]) != 0)
            exit(2);
    return r->queue[stream];
}

static void allocate(struct replay *r, const struct trace_event *e)
{
    if (vs_arena_malloc(r->arena, queue_of(r, e->stream), e->size, &r->address[e->id]) != 0) {
        r->refused++;
        r->address[e->id] = 0;
    }
    r->stream[e->id] = (uint8_t)e->stream;
}

static void release(struct replay *r, uint32_t id, int freed_on)
{
    if (!r->address[id])
        return; /* it was refused */
    int stream = freed_on > 0 ? freed_on - 1 : r->stream[id];
    if (vs_arena_free(r->arena, r->address[id], queue_of(r, stream), defer ? VS_FREE_DEFER : 0) != 0)
        exit(4);
    r->address[id] = 0;
}

static void play(struct replay *r, const struct trace *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        r->count.now++;
        r->count.lag = lag / 2 + (uint64_t)rand() % (lag + 1);
        if (t->event[i].stream >= 0)
            allocate(r, &t->event[i]);
        else
            release(r, t->event[i].id, t->event[i].freed_on);
    }
}

/* What the run left goes; what was there at its beginning comes back. */
static void rewind_to_start(struct replay *r, const struct trace *t)
{
    uint8_t *initial = calloc(t->ids, 1);
    for (uint32_t i = 0; i < t->first; i++)
        initial[t->event[i].id] = 1;
    for (uint32_t id = 0; id < t->ids; id++)
        if (r->address[id] && !initial[id])
            release(r, id, 0);
    for (uint32_t i = 0; i < t->first; i++)
        if (!r->address[t->event[i].id])
            allocate(r, &t->event[i]);
    free(initial);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* a busy machine takes nothing from it */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(const char *path, const struct replay *r, uint64_t calls, uint64_t last_calls,
                uint32_t events, double ns, double last)
{
    struct vs_arena_stats s;
    const char *name = strrchr(path, '/');
    vs_arena_stats(r->arena, &s);
    printf("%-24s live %9.1f MiB R %.4f reserved %llu B created %llu aliased %llu calls/1000 %8.1f last "
           "%6llu hits %.4f views %5llu mappings %.2f x "
           "refused %u released %llu follows %llu settles %llu evicted %llu marks %llu looks %llu ns/event "
           "%.0f last %.0f events %llu all %llu\n",
           name ? name + 1 : path, (double)s.peak_allocated / (1 << 20),
           (double)s.peak_reserved / (double)s.peak_allocated, (unsigned long long)s.peak_reserved,
           (unsigned long long)s.created, (unsigned long long)s.aliased, 1000.0 * (double)calls / events,
           (unsigned long long)last_calls, (double)s.hits / (double)s.mallocs, (unsigned long long)s.aliases,
           (double)(s.peak_mappings << 21) / (double)s.peak_reserved, r->refused,
           (unsigned long long)s.released, (unsigned long long)s.stream_waits,
           (unsigned long long)s.host_waits, (unsigned long long)s.evicted,
           (unsigned long long)r->count.events, (unsigned long long)r->count.looks, ns, last,
           (unsigned long long)r->count.now, (unsigned long long)r->count.calls);
}

static void run(const char *path)
{
    struct trace t = {0};
    struct replay r = {.count = {.lag = lag}};
    if (!read_trace(path, &t)) {
        fprintf(stderr, "%s: no trace: write one with bench_arena_trace.py\n", path);
        exit(1);
    }
    r.count.capacity = device;
    struct vs_backing b = vs_backing_of_counters(&r.count, 2u << 20);
    struct vs_arena_config c = config;
    if (!RULE(SMALL_HEAP))
        c.small = 1;
    c.plain = !RULE(ALIASES);
    c.no_stream_waits = c.no_stream_waits || !RULE(STREAM_WAITS);
    if (vs_arena_create(&r.arena, &b, &c) != 0)
        exit(2);
    r.address = calloc(t.ids, sizeof *r.address);
    r.stream = calloc(t.ids, 1);
    uint32_t third = t.first + (t.count - t.first) / 10 * 3;
    uint64_t begin = now_ns(), calls = 0, before = 0, last_begin = begin;
    play(&r, &t, 0, third);
    before = r.count.calls;
    uint32_t late = t.count - (t.count - t.first) / 4;
    play(&r, &t, third, late);
    uint64_t early = r.count.calls;
    last_begin = now_ns();
    play(&r, &t, late, t.count);
    calls = r.count.calls - before;
    uint64_t end = now_ns(), events = t.count;
    for (int i = 1; i < passes; i++) {
        rewind_to_start(&r, &t);
        before = r.count.calls;
        last_begin = now_ns();
        play(&r, &t, t.first, t.count);
    }
    uint64_t last = r.count.calls - (passes > 1 ? before : early);
    double last_ns = (double)(now_ns() - last_begin) / (t.count - (passes > 1 ? t.first : late));
    say(path, &r, calls, last, t.count - third, (double)(end - begin) / (double)events, last_ns);
    vs_arena_destroy(r.arena);
    free(r.address);
    free(r.stream);
    free(t.event);
}

/* Of rules.h, by name; "list" writes them all. */
static void leave_out(const char *name)
{
    static const struct {
        const char *name, *text;
    } rules[] = {
#define X(name, text) {#name, text},
        VS_ARENA_RULES(X)
#undef X
    };
    bool list = !strcmp(name, "list"), found = list || !*name;
    vs_arena_rules_off = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (list)
            printf("%s\t%s\n", rules[i].name, rules[i].text);
        if (strcmp(name, rules[i].name) != 0)
            continue;
        vs_arena_rules_off = 1ull << i;
        found = true;
    }
    if (!found) {
        fprintf(stderr, "%s: no rule of shim/arena/core/rules.h; without=list shows them\n", name);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        uint64_t n = value ? strtoull(value + 1, NULL, 0) : 0;
        if (!strncmp(argv[i], "passes=", 7))
            passes = (int)n;
        else if (!strncmp(argv[i], "lag=", 4))
            lag = n;
        else if (!strncmp(argv[i], "capacity=", 9))
            config.capacity = n;
        else if (!strncmp(argv[i], "defer=", 6))
            defer = n;
        else if (!strncmp(argv[i], "trim=", 5))
            config.trim_above = n;
        else if (!strncmp(argv[i], "without=", 8))
            leave_out(value + 1);
        else if (!strncmp(argv[i], "waits=", 6))
            config.no_stream_waits = !n;
        else if (!strncmp(argv[i], "mappings=", 9))
            config.max_mappings = n;
        else if (!strncmp(argv[i], "window=", 7))
            config.trim_window = (uint32_t)n;
        else if (!strncmp(argv[i], "device=", 7))
            device = n;
        else
            run(argv[i]);
    }
    return 0;
}
