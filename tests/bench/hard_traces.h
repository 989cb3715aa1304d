/*
 * hard_traces.h - requests that are hard on an allocator, made up, for bench_arena_replay.
 *
 *     random     sizes from 512 bytes to 1 GiB, all powers of two equally likely, freed in any order
 *     growing    64 arrays that grow as a cache of keys and values does: a longer copy, then the old goes
 *     phases     many steps that need little, then some that need much, and so on
 *     halves     half of 8 GiB behind a block of an odd size, every second one freed, then larger ones
 *     turns      a stream's blocks end, and as much is asked for without a stream, in turns
 *     cross      a training loop on several streams, where another stream ends an eighth of the blocks
 *     mixed      one where an eighth of the blocks names no stream
 */
#ifndef TESTS_BENCH_HARD_TRACES_H
#define TESTS_BENCH_HARD_TRACES_H

#include "training_trace.h"

static inline uint64_t hard_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static inline struct trace random_trace(uint32_t streams, uint32_t events, uint64_t live)
{
    struct trace t = {0};
    uint64_t state = 1, bytes = 0;
    uint32_t *block = calloc(events, sizeof *block), blocks = 0;
    uint64_t *size = calloc(events, sizeof *size);
    while (t.count < events) {
        uint64_t next = (512ull << hard_random(&state) % 21) + hard_random(&state) % 4096;
        while (bytes + next > live) {
            uint32_t i = (uint32_t)(hard_random(&state) % blocks);
            trace_free(&t, block[i]);
            bytes -= size[block[i]];
            block[i] = block[--blocks];
        }
        block[blocks] = trace_alloc(&t, (int)(hard_random(&state) % streams), next);
        size[block[blocks++]] = next;
        bytes += next;
    }
    free(block);
    free(size);
    return t;
}

#define GROWING 64 /* arrays */

static inline struct trace growing_trace(uint32_t streams, uint32_t steps, uint64_t row)
{
    struct trace t = {0};
    uint32_t id[GROWING];
    for (uint32_t step = 1; step <= steps; step++)
        for (uint32_t i = 0; i < GROWING; i++) {
            uint32_t scratch = trace_alloc(&t, (int)(i % streams), step * 512);
            uint32_t longer = trace_alloc(&t, (int)(i % streams), step * row);
            if (step > 1)
                trace_free(&t, id[i]);
            trace_free(&t, scratch);
            id[i] = longer;
        }
    return t;
}

/* A step: 32 blocks, freed in another order. */
static inline void phase_step(struct trace *t, uint64_t bytes, uint64_t *state)
{
    uint32_t id[32];
    for (uint32_t i = 0; i < 32; i++)
        id[i] = trace_alloc(t, 0, bytes / 32 + hard_random(state) % (bytes / 16));
    for (uint32_t i = 0; i < 32; i++)
        trace_free(t, id[i * 5 % 32]);
}

static inline struct trace phases_trace(uint32_t rounds, uint32_t little_steps, uint64_t little,
                                        uint64_t much)
{
    struct trace t = {0};
    uint64_t state = 1;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < 4; i++)
            phase_step(&t, much, &state);
        for (uint32_t i = 0; i < little_steps; i++)
            phase_step(&t, little, &state);
    }
    return t;
}

static inline struct trace halves_trace(void)
{
    struct trace t = {0};
    uint32_t id[120];
    trace_alloc(&t, 0, (100 << 20) - 512);
    for (uint32_t i = 0; i < 120; i++)
        id[i] = trace_alloc(&t, 0, 34 << 20);
    for (uint32_t i = 0; i < 120; i += 2)
        trace_free(&t, id[i]);
    for (uint32_t i = 0; i < 80; i++)
        trace_alloc(&t, 0, 90 << 20);
    return t;
}

static inline struct trace turns_trace(int any)
{
    struct trace t = {0};
    uint32_t id[32];
    for (uint32_t turn = 0; turn < 16; turn++) {
        for (uint32_t i = 0; i < 32; i++)
            id[i] = trace_alloc(&t, turn % 2 ? any : 0, (64 << 20) + (uint64_t)(i + turn) * (2 << 20));
        for (uint32_t i = 0; i < 32; i++)
            trace_free(&t, id[i]);
    }
    return t;
}

/* EVERY-th block of a loop is ended by the next of its streams, or (ANY, a stream's number) is for none. */
static inline struct trace strange_trace(const struct training *m, uint32_t every, int any)
{
    struct trace t = training_trace(m);
    int *stream = calloc(t.ids, sizeof *stream);
    for (uint32_t i = 0; i < t.count; i++) {
        struct trace_event *e = &t.event[i];
        bool strange = e->id % every == 0;
        if (e->stream >= 0 && strange && any)
            e->stream = any;
        if (e->stream >= 0)
            stream[e->id] = e->stream;
        else if (strange && !any)
            e->freed_on = 1 + (stream[e->id] + 1) % (int)m->streams;
    }
    free(stream);
    return t;
}

#endif
