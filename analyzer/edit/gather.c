/*
 * gather.c - ZeRO's stages 2 and 3 as PyTorch's fully_shard does them, where each unit of the model is
 * sharded by itself and what is in no unit together.
 *
 *      forward     | rest whole | unit 0 whole | unit 1 whole ...
 *      backward    | unit 1 gathered again, the next one ahead | its gradients reduced to shares | unit 0 ...
 *
 * In stage 3 the end of a unit's forward frees what was gathered for it.
 *
 * What is gathered arrives in one flat buffer and is copied out of it into parameters; the buffer is freed
 * when the next one was copied out.  Gradients are made whole, copied into a flat buffer when their unit is
 * through, and of that the rank's share is left; that buffer is freed after the next one.  Flat buffers are
 * those of two streams of their own, one for each direction.  That is what recordings of PyTorch 2.11 on two
 * GPUs show.
 *
 * HIGH: a unit more is gathered ahead in forward.
 */
#include <stdlib.h>
#include <string.h>

#include "groups.h"
#include "shard.h"

struct whole { /* a group's parameters, gathered */
    uint32_t *blocks;
    bool held;
};

struct pending { /* a gradient that is not reduced yet */
    uint32_t was, now;
    size_t group;
};

struct gathering {
    struct build b;
    const struct shard *shard;
    struct groups groups;
    struct whole *whole; /* by group */
    uint32_t flat;       /* the buffer that came last */
    size_t flat_of;
    struct pending *pending;
    size_t pending_count;
    uint32_t reduced;          /* the buffer of the gradients that were reduced last */
    size_t unit;               /* that forward or backward is in; groups.n: none */
    struct edit_block in, out; /* like which flat buffers are made */
    bool passing, backward;
};

/* ---- gathering ---- */

static void hold(struct gathering *g, size_t group, uint16_t phase)
{
    struct whole *w = &g->whole[group];
    const struct group *of = &g->groups.at[group];
    struct edit_block like = {.stream = 0};
    if (w->held)
        return;
    for (size_t i = 0; i < of->n; i++)
        w->blocks[i] = build_born(&g->b, &like, of->sizes[i], phase, KIND_PARAMETER);
    w->held = true;
}

static void let_go(struct gathering *g, size_t group, uint16_t phase)
{
    struct whole *w = &g->whole[group];
    for (size_t i = 0; w->held && i < g->groups.at[group].n; i++)
        build_died(&g->b, w->blocks[i], phase);
    w->held = false;
}

static void free_flat(struct gathering *g, uint16_t phase)
{
    build_died(&g->b, g->flat, phase);
    g->flat = BLOCK_NEVER;
    g->flat_of = g->groups.n;
}

/* In backward: the buffer of the group that comes next. */
static void gather_ahead(struct gathering *g, size_t group, uint16_t phase)
{
    if (g->whole[group].held)
        return;
    g->flat = build_born(&g->b, &g->in, g->groups.at[group].bytes, phase, KIND_OTHER);
    g->flat_of = group;
}

/* Behind its copy the buffer stays up to the next one's. */
static void gather(struct gathering *g, size_t group, uint16_t phase)
{
    if (g->whole[group].held)
        return;
    if (g->flat_of == group) {
        hold(g, group, phase);
        return;
    }
    uint32_t before = g->flat;
    g->flat = build_born(&g->b, &g->in, g->groups.at[group].bytes, phase, KIND_OTHER);
    g->flat_of = group;
    hold(g, group, phase);
    build_died(&g->b, before, phase);
}

/* ---- reducing ---- */

static void make_gradient(struct gathering *g, size_t i)
{
    const struct trace_moment *e = &g->b.from->events[i];
    const struct edit_block *was = &g->b.from->blocks[e->block];
    uint16_t unit = program_stack(g->b.from, was)->unit;
    struct pending *p = PUSH(g->pending, g->pending_count);
    *p = (struct pending){.was = e->block, .group = unit < g->groups.n - 1 ? unit : g->groups.n - 1};
    p->now = build_born(&g->b, was, was->size, e->phase, KIND_BACKWARD);
}

static void reduce(struct gathering *g, size_t group, uint16_t phase)
{
    uint64_t bytes = 0;
    size_t left = 0;
    for (size_t i = 0; i < g->pending_count; i++)
        bytes += g->pending[i].group == group ? g->b.from->blocks[g->pending[i].was].size : 0;
    if (!bytes)
        return;
    uint32_t flat = build_born(&g->b, &g->out, bytes, phase, KIND_BACKWARD);
    for (size_t i = 0; i < g->pending_count; i++) {
        const struct pending p = g->pending[i];
        if (p.group != group) {
            g->pending[left++] = p;
            continue;
        }
        const struct edit_block *was = &g->b.from->blocks[p.was];
        build_died(&g->b, p.now, phase);
        g->b.now[p.was] = build_born(&g->b, was, shard_of(g->shard, was->size), phase, KIND_GRADIENT);
    }
    g->pending_count = left;
    build_died(&g->b, g->reduced, phase);
    g->reduced = flat;
}

/* The death of a gradient that was not reduced; false: it was, or is none. */
static bool forget_gradient(struct gathering *g, size_t i)
{
    const struct trace_moment *e = &g->b.from->events[i];
    if (g->b.now[e->block] != BLOCK_NEVER)
        return false;
    for (size_t k = g->pending_count; k-- > 0;)
        if (g->pending[k].was == e->block) {
            build_died(&g->b, g->pending[k].now, e->phase);
            g->pending[k] = g->pending[--g->pending_count];
            return true;
        }
    return false;
}

/* ---- a pass ---- */

static void finish(struct gathering *g)
{
    uint16_t phase = g->backward ? g->b.from->facts->backward : 0;
    for (size_t group = 0; group < g->groups.n; group++)
        reduce(g, group, phase);
    for (size_t group = 0; group < g->groups.n; group++)
        let_go(g, group, phase);
    build_died(&g->b, g->reduced, phase);
    g->reduced = BLOCK_NEVER;
    free_flat(g, phase);
    g->unit = g->groups.n;
    g->passing = g->backward = false;
}

static void leave(struct gathering *g, uint16_t phase)
{
    if (g->unit == g->groups.n)
        return;
    reduce(g, g->unit, phase);
    if (g->shard->stage == 3 || g->backward)
        let_go(g, g->unit, phase);
    g->unit = g->groups.n;
}

static void go_forward(struct gathering *g, const struct edit_stack *s, uint16_t phase)
{
    size_t units = g->groups.n - 1;
    if (g->backward)
        finish(g);
    if (!g->passing)
        gather(g, units, phase);
    g->passing = true;
    if (!s->layer || s->unit == g->unit || (s->unit >= units && g->unit == g->groups.n))
        return;
    leave(g, phase);
    if (s->unit >= units)
        return;
    g->unit = s->unit;
    gather(g, g->unit, phase);
    if (g->shard->high && g->unit + 1 < units)
        gather(g, g->unit + 1, phase);
}

static void go_backward(struct gathering *g, const struct edit_stack *s, uint16_t phase)
{
    size_t units = g->groups.n - 1;
    if (!g->passing)
        return;
    if (!g->backward) {
        leave(g, phase);
        g->backward = true;
        free_flat(g, phase);
        if (units)
            gather_ahead(g, units - 1, phase);
    }
    if (!s->layer || s->unit >= units || s->unit == g->unit)
        return;
    leave(g, phase);
    g->unit = s->unit;
    gather(g, g->unit, phase);
    free_flat(g, phase);
    if (g->unit > 0)
        gather_ahead(g, g->unit - 1, phase);
}

static void step_in(struct gathering *g, size_t i)
{
    const struct trace_moment *e = &g->b.from->events[i];
    const struct edit_facts *f = g->b.from->facts;
    bool block = e->what == MOMENT_BORN || e->what == MOMENT_DIED || e->what == MOMENT_PHASE;
    if (e->what == MOMENT_STEP || (g->backward && block && e->phase != f->backward))
        finish(g);
    if (e->what != MOMENT_BORN)
        return;
    const struct edit_stack *s = program_stack(g->b.from, &g->b.from->blocks[e->block]);
    if (program_is_forward(f, e->phase))
        go_forward(g, s, e->phase);
    else if (e->phase && e->phase == f->backward)
        go_backward(g, s, e->phase);
}

static void begin(struct gathering *g, const struct program *from)
{
    uint16_t streams = 0;
    for (size_t i = 0; i < from->block_count; i++)
        streams = from->blocks[i].stream > streams ? from->blocks[i].stream : streams;
    g->in.stream = streams < UINT16_MAX - 2 ? (uint16_t)(streams + 1) : streams;
    g->out.stream = streams < UINT16_MAX - 2 ? (uint16_t)(streams + 2) : streams;
    g->whole = xrealloc(NULL, g->groups.n * sizeof *g->whole);
    for (size_t i = 0; i < g->groups.n; i++)
        g->whole[i] =
            (struct whole){.blocks = xrealloc(NULL, (g->groups.at[i].n + 1) * sizeof *g->whole->blocks)};
    g->flat = g->reduced = BLOCK_NEVER;
    g->flat_of = g->unit = g->groups.n;
    build_begin(&g->b, from);
}

struct program shard_gathered(const struct program *from, const struct shard *shard)
{
    struct gathering g = {.shard = shard, .groups = groups_of(from, shard->high)};
    begin(&g, from);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *e = &from->events[i];
        step_in(&g, i);
        if (e->what == MOMENT_BORN && from->blocks[e->block].kind == KIND_GRADIENT && g.backward)
            make_gradient(&g, i);
        else if (e->what != MOMENT_DIED || !forget_gradient(&g, i))
            shard_copy(&g.b, shard, i);
    }
    for (size_t i = 0; i < g.groups.n; i++)
        free(g.whole[i].blocks);
    free(g.whole);
    free(g.pending);
    groups_free(&g.groups);
    return build_end(&g.b);
}
