/*
 * training_trace.h - what a training loop asks of an allocator, made up: a decoder in micro-batches of
 * changing length, each on the next stream in turn; with several streams three are under way at once.
 *
 * Lengths begin anew after 11 micro-batches, or, where `longest` is given, come by chance and need never
 * come again.
 */
#ifndef TESTS_BENCH_TRAINING_TRACE_H
#define TESTS_BENCH_TRAINING_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct trace_event {
    uint64_t size;
    uint32_t id;
    int stream;   /* -1: free */
    int freed_on; /* of a free: 1 + the stream that it was told for, 0 = its block's */
};

struct trace {
    struct trace_event *event;
    uint32_t first, count, ids; /* `first` events set up what was there before the loop */
    uint32_t room;
};

struct training {
    uint32_t streams, batches, layers;
    uint64_t hidden, inner, vocabulary;
    uint32_t shortest, longest; /* tokens of a micro-batch; 0: from the list */
};

static inline uint32_t trace_event_add(struct trace *t, int stream, uint64_t size, uint32_t id)
{
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 1024;
        t->event = realloc(t->event, t->room * sizeof *t->event);
    }
    t->event[t->count++] = (struct trace_event){.size = size, .id = id, .stream = stream};
    return id;
}

static inline uint32_t trace_alloc(struct trace *t, int stream, uint64_t size)
{
    return trace_event_add(t, stream, size, t->ids++);
}

static inline void trace_free(struct trace *t, uint32_t id)
{
    trace_event_add(t, -1, 0, id);
}

#define TRACE_SAVED 12 /* tensors that a layer's forward pass leaves for its backward */

/* N bytes that live for the two next calls of it. */
struct trace_scratch {
    uint32_t id[2];
    uint32_t n;
};

static inline void trace_scratch_use(struct trace *t, struct trace_scratch *s, int stream, uint64_t bytes)
{
    if (s->n >= 2)
        trace_free(t, s->id[s->n % 2]);
    s->id[s->n++ % 2] = trace_alloc(t, stream, bytes);
}

static inline void trace_scratch_end(struct trace *t, struct trace_scratch *s)
{
    for (uint32_t i = s->n < 2 ? 0 : s->n - 2; i < s->n; i++)
        trace_free(t, s->id[i % 2]);
    s->n = 0;
}

static inline void trace_forward(struct trace *t, const struct training *m, int stream, uint64_t tokens,
                                 uint32_t saved[TRACE_SAVED])
{
    uint64_t row = tokens * m->hidden * 2, wide = tokens * m->inner * 2, n = 0;
    struct trace_scratch s = {{0, 0}, 0};
    const uint64_t bytes[TRACE_SAVED] = {row,        tokens * 4, row, row,  row,  row,
                                         tokens * 4, row,        row, wide, wide, wide};
    for (; n < TRACE_SAVED; n++) {
        if (n % 3 == 2)
            trace_scratch_use(t, &s, stream, n < 6 ? row : wide);
        saved[n] = trace_alloc(t, stream, bytes[n]);
    }
    trace_scratch_end(t, &s);
}

static inline void trace_backward(struct trace *t, const struct training *m, int stream, uint64_t tokens,
                                  const uint32_t saved[TRACE_SAVED])
{
    struct trace_scratch grad = {{0, 0}, 0}, weight = {{0, 0}, 0};
    for (int n = TRACE_SAVED; n-- > 0;) {
        trace_scratch_use(t, &grad, stream, tokens * (n > 8 ? m->inner : m->hidden) * 2);
        if (n % 2)
            trace_scratch_use(t, &weight, stream, m->hidden * (n > 8 ? m->inner : m->hidden) * 2);
        trace_free(t, saved[n]);
    }
    trace_scratch_end(t, &grad);
    trace_scratch_end(t, &weight);
}

/* The calls of one micro-batch; ids begin at T's. */
static inline void trace_batch(struct trace *t, const struct training *m, int stream, uint64_t tokens)
{
    uint32_t(*saved)[TRACE_SAVED] = calloc(m->layers, sizeof *saved), logits[3];
    uint32_t input = trace_alloc(t, stream, tokens * 8),
             embedded = trace_alloc(t, stream, tokens * m->hidden * 2);
    for (uint32_t l = 0; l < m->layers; l++)
        trace_forward(t, m, stream, tokens, saved[l]);
    for (int i = 0; i < 3; i++)
        logits[i] = trace_alloc(t, stream, tokens * m->vocabulary * (i ? 4 : 2));
    for (int i = 0; i < 3; i++)
        trace_free(t, logits[i]);
    for (uint32_t l = m->layers; l-- > 0;)
        trace_backward(t, m, stream, tokens, saved[l]);
    trace_free(t, embedded);
    trace_free(t, input);
    free(saved);
}

static inline uint64_t trace_tokens(const struct training *m, uint32_t batch)
{
    static const uint64_t tokens[] = {2048, 1111, 640, 1536, 2048, 333, 1801, 1024, 2000, 512, 1297};
    uint64_t random = (batch + 1) * 0x9e3779b97f4a7c15ull;
    random = (random ^ random >> 29) * 0xbf58476d1ce4e5b9ull;
    if (m->longest)
        return m->shortest + (random >> 32) % (m->longest - m->shortest + 1);
    return tokens[batch % (sizeof tokens / sizeof *tokens)];
}

static inline void trace_weights(struct trace *t, const struct training *m)
{
    for (uint32_t l = 0; l < 2 * m->layers; l++) { /* and gradients */
        for (int i = 0; i < 4; i++)
            trace_alloc(t, 0, m->hidden * m->hidden * 2);
        for (int i = 0; i < 3; i++)
            trace_alloc(t, 0, m->hidden * m->inner * 2);
        trace_alloc(t, 0, m->hidden * 2);
    }
    trace_alloc(t, 0, m->vocabulary * m->hidden * 2);
    t->first = t->count;
}

#define TRACE_AT_ONCE 3

/* Micro-batches in turn, three at a time: some calls of one, some of the next. */
static inline void trace_interleave(struct trace *t, const struct trace *batch, uint32_t batches)
{
    uint32_t under_way[TRACE_AT_ONCE], at[TRACE_AT_ONCE], next = 0, left = batches, turn = 0;
    for (int i = 0; i < TRACE_AT_ONCE; i++) {
        under_way[i] = next++;
        at[i] = 0;
    }
    for (; left; turn++) {
        uint32_t i = turn % TRACE_AT_ONCE, b = under_way[i];
        for (uint32_t n = 0; b < batches && n < 1 + turn * 7 % 13 && at[i] < batch[b].count; n++, at[i]++) {
            const struct trace_event *e = &batch[b].event[at[i]];
            trace_event_add(t, e->stream, e->size, e->id);
        }
        if (b < batches && at[i] == batch[b].count) {
            left--;
            under_way[i] = next++;
            at[i] = 0;
        }
    }
}

static inline struct trace training_trace(const struct training *m)
{
    struct trace t = {0}, *batch = calloc(m->batches, sizeof *batch);
    trace_weights(&t, m);
    for (uint32_t b = 0; b < m->batches; b++) {
        batch[b].ids = t.ids;
        trace_batch(&batch[b], m, (int)(b % m->streams), trace_tokens(m, b));
        t.ids = batch[b].ids;
    }
    for (uint32_t b = 0; m->streams == 1 && b < m->batches; b++)
        for (uint32_t i = 0; i < batch[b].count; i++)
            trace_event_add(&t, batch[b].event[i].stream, batch[b].event[i].size, batch[b].event[i].id);
    if (m->streams > 1)
        trace_interleave(&t, batch, m->batches);
    for (uint32_t b = 0; b < m->batches; b++)
        free(batch[b].event);
    free(batch);
    return t;
}

#endif
