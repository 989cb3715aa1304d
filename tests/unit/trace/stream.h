/*
 * stream.h - a synthetic training job without an end: the events that PyTorch makes, without PyTorch.  The
 * same seed gives the same job.
 *
 * Segments are allocated when the bump of the arena passes them.  Each step opens forward, logits, backward
 * (on a second thread) and optimizer, allocates blocks of changing sizes and frees them in the order of
 * backward.  The framework's own totals are right in every report.
 */
#ifndef TESTS_UNIT_TRACE_STREAM_H
#define TESTS_UNIT_TRACE_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/event.h"

#define STREAM_BASE    0x7f0000000000ull
#define STREAM_SEGMENT (20ull << 20)
#define STREAM_SLOTS   4096

struct stream {
    uint64_t t, random, allocated, reserved, frontier;
    uint64_t address[STREAM_SLOTS], size[STREAM_SLOTS]; /* of blocks alive; a stack */
    uint64_t spare[512][64];                            /* free addresses by size class */
    int spares[512];
    int depth, persistent, activations;
    uint32_t range, step;
    uint32_t name[4]; /* string ids of the four phases */
    int device;
    void (*emit)(void *context, const struct vs_event *e);
    void *context;
    uint32_t open;
    uint16_t thread;
    bool surface; /* each step also uses arrays, imports, bindings, graphs, contexts and modules */
};

static inline uint64_t stream_random(struct stream *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static inline void stream_emit(struct stream *s, struct vs_event e)
{
    e.t_ns = s->t += 1000 + stream_random(s) % 2000;
    e.thread = s->thread;
    e.device = (int8_t)s->device;
    if (e.op != VS_OP_RANGE_PUSH && e.op != VS_OP_RANGE_POP)
        e.range = s->open;
    s->emit(s->context, &e);
}

static inline uint64_t stream_place(struct stream *s, uint64_t size)
{
    int class = (int)(size >> 12) % 512;
    if (s->spares[class])
        return s->spare[class][--s->spares[class]];
    if (s->frontier + size > STREAM_BASE + s->reserved) {
        s->frontier = STREAM_BASE + s->reserved;
        stream_emit(s, (struct vs_event){.op = VS_OP_ALLOC,
                                         .space = VS_SPACE_DEVICE,
                                         .address = s->frontier,
                                         .size = STREAM_SEGMENT});
        s->reserved += STREAM_SEGMENT;
    }
    uint64_t address = s->frontier;
    s->frontier += size;
    return address;
}

static inline void stream_alloc(struct stream *s)
{
    uint64_t size = (1 + stream_random(s) % 500) << 12; /* the class is the size: a spare always fits */
    uint64_t address = stream_place(s, size);
    s->allocated += size;
    s->address[s->depth] = address;
    s->size[s->depth++] = size;
    stream_emit(s, (struct vs_event){.op = VS_OP_BLOCK_ALLOC,
                                     .address = address,
                                     .size = size,
                                     .arg0 = s->allocated,
                                     .arg1 = s->reserved});
}

static inline void stream_free(struct stream *s)
{
    uint64_t address = s->address[--s->depth], size = s->size[s->depth];
    int class = (int)(size >> 12) % 512;
    s->allocated -= size;
    if (s->spares[class] < 64)
        s->spare[class][s->spares[class]++] = address;
    stream_emit(s, (struct vs_event){.op = VS_OP_BLOCK_FREE,
                                     .address = address,
                                     .size = size,
                                     .arg0 = s->allocated,
                                     .arg1 = s->reserved});
}

static inline void stream_push(struct stream *s, int phase)
{
    s->open = ++s->range;
    stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_PUSH,
                                     .range = s->range,
                                     .address = s->name[phase],
                                     .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE});
}

static inline void stream_pop(struct stream *s)
{
    stream_emit(s, (struct vs_event){.op = VS_OP_RANGE_POP, .range = s->open});
    s->open = 0;
}

static inline void stream_init(struct stream *s, void (*emit)(void *, const struct vs_event *), void *context)
{
    memset(s, 0, sizeof *s);
    s->random = 88172645463325252ull;
    s->t = 1000000;
    s->frontier = STREAM_BASE;
    s->emit = emit;
    s->context = context;
    s->persistent = 1000;
    s->activations = 250;
    s->thread = 1;
}

static inline void stream_own(struct stream *s, uint8_t space, uint64_t address, uint64_t size)
{
    stream_emit(s, (struct vs_event){.op = VS_OP_ALLOC,
                                     .space = space,
                                     .address = address + s->step * 0x100000ull,
                                     .size = size,
                                     .context = (uint8_t)(1 + s->step % 3)});
}

static inline void stream_reserve(struct stream *s, uint8_t space, uint64_t size)
{
    stream_emit(s, (struct vs_event){.op = VS_OP_POOL_RESERVED,
                                     .space = space,
                                     .address = space == VS_SPACE_GRAPH ? VS_GRAPH_POOL(s->device) : 0x88000,
                                     .size = size});
}

/* As the hooks do it: after a primary context's end they ask what pools and graphs still hold. */
static inline void stream_context_end(struct stream *s, uint64_t end, bool primary)
{
    stream_emit(s, (struct vs_event){.op = VS_OP_CONTEXT_DESTROY,
                                     .address = 0x100 + end,
                                     .context = (uint8_t)(1 + end),
                                     .arg0 = primary ? VS_CONTEXT_PRIMARY : VS_CONTEXT_CREATED});
    if (!primary)
        return;
    stream_reserve(s, VS_SPACE_POOL, 0);
    stream_reserve(s, VS_SPACE_GRAPH, 0);
}

/* The arena holds more, gives a block in each step, and every third step takes a sample; of every few steps a
 * part of it is away in some. */
static inline void stream_arena(struct stream *s, uint64_t n)
{
    stream_emit(s, (struct vs_event){.op = VS_OP_ARENA_RESERVED,
                                     .space = VS_SPACE_ARENA,
                                     .size = (n + 1) << 21,
                                     .address = n % 7 < 3 ? 0 : (n * 5 % 11) << 21});
    stream_own(s, VS_SPACE_ARENA, 0x70000000000, 100000);
    for (uint64_t k = 0; k < 4; k++) /* one may be freed while it is away, one comes back, one goes twice */
        stream_emit(
            s, (struct vs_event){.op = VS_OP_BLOCK_AWAY,
                                 .space = VS_SPACE_ARENA,
                                 .address = k == 3 && n % 5 ? 0 : 0x70000000000 + (n - k % 2) * 0x100000ull,
                                 .size = k == 3            ? n % 4 * 512
                                         : k == 1 && n % 2 ? 0
                                                           : 60000 + 1000 * k,
                                 .arg0 = 1 + n % 3});
    for (uint32_t part = 0; n % 3 == 2 && part < VS_FIGURE_PARTS; part++) {
        uint32_t open = s->open;
        s->open = (uint32_t)n;
        stream_emit(s, (struct vs_event){.op = VS_OP_ARENA_FIGURES,
                                         .space = VS_SPACE_ARENA,
                                         .stack = part,
                                         .address = 4 * part,
                                         .size = 100 * n,
                                         .arg0 = n,
                                         .arg1 = part});
        s->open = open;
    }
}

/* What one step's context owns ends with it two steps later; the import is opened twice and closed once. */
static inline void stream_surface(struct stream *s)
{
    uint64_t n = s->step, end = (n - 2) % 3;
    if (n >= 2)
        stream_context_end(s, end, n % 4 == 3);
    stream_emit(s, (struct vs_event){.op = VS_OP_CONTEXT_CREATE,
                                     .address = 0x100 + n % 3,
                                     .context = (uint8_t)(1 + n % 3),
                                     .size = n % 2 ? VS_BYTES_UNKNOWN : 5000,
                                     .arg0 = VS_CONTEXT_CREATED});
    stream_emit(s, (struct vs_event){.op = VS_OP_MODULE_LOAD,
                                     .address = 0x700 + n,
                                     .context = (uint8_t)(1 + n % 3),
                                     .size = VS_BYTES_UNKNOWN,
                                     .arg0 = 1234});
    stream_own(s, VS_SPACE_DEVICE, 0x10000000000, 4096);
    stream_own(s, VS_SPACE_ARRAY, 0x20000000000, 1000);
    stream_own(s, VS_SPACE_PINNED, 0x30000000000, 3000);
    stream_own(s, VS_SPACE_POOL, 0x40000000000, 512);
    stream_own(s, VS_SPACE_GRAPH, 0x50000000000, 600);
    stream_reserve(s, VS_SPACE_POOL, 20000);
    stream_reserve(s, VS_SPACE_GRAPH, 10000 * (n + 1));
    stream_arena(s, n);
    for (int i = 0; i < 3; i++)
        stream_emit(s, (struct vs_event){.op = i < 2 ? VS_OP_ALLOC : VS_OP_FREE,
                                         .space = VS_SPACE_IMPORTED,
                                         .address = 0x60000000000,
                                         .size = i < 2 ? 7000 : 0});
    stream_emit(s, (struct vs_event){.op = VS_OP_PHYS_CREATE,
                                     .space = VS_SPACE_DEVICE,
                                     .address = 0x10 + n,
                                     .size = 2 << 20,
                                     .arg0 = 1ull << 32});
    stream_emit(s, (struct vs_event){.op = VS_OP_BIND, .address = 0x900, .arg0 = 0x10 + n, .arg1 = n});
    stream_emit(s, (struct vs_event){.op = VS_OP_PHYS_RELEASE, .address = 0x10 + n});
    if (n >= 3)
        stream_emit(s, (struct vs_event){.op = VS_OP_UNBIND, .address = 0x900, .arg1 = n - 3});
    stream_emit(s, (struct vs_event){.op = VS_OP_LIMIT, .arg0 = n, .size = (uint64_t)-4096});
    stream_emit(s, (struct vs_event){.op = VS_OP_GRAPH_NODE, .address = 0x1000, .size = 512, .arg0 = 0x9a0});
}

/* One training step: about 5 * activations + 10 events. */
static inline void stream_step(struct stream *s)
{
    while (s->depth < s->persistent)
        stream_alloc(s);
    if (s->surface)
        stream_surface(s);
    stream_push(s, 0);
    int more = (int)(stream_random(s) % 20);
    for (int i = 0; i < s->activations + more; i++) {
        stream_alloc(s);
        if (i % 5 == 4)
            stream_free(s);
    }
    stream_pop(s);
    stream_push(s, 1);
    for (int i = 0; i < 10; i++)
        stream_alloc(s);
    stream_pop(s);
    stream_push(s, 2);
    s->thread = 2;
    while (s->depth > s->persistent) {
        stream_alloc(s);
        stream_free(s);
        stream_free(s);
    }
    s->thread = 1;
    stream_pop(s);
    stream_push(s, 3);
    for (int i = 0; i < 10; i++) {
        stream_alloc(s);
        stream_free(s);
    }
    stream_pop(s);
    s->step++;
    stream_emit(s, (struct vs_event){.op = VS_OP_STEP});
}

#endif
