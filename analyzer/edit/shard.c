/*
 * shard.c - ZeRO: states (stage 1), gradients (2) and parameters (3) in shares of N ranks, as PyTorch itself
 * has it.  Other libraries (DeepSpeed) have other buffers; what a communication library takes of the device
 * is not in it.
 *
 * Stage 1 is DDP with ZeroRedundancyOptimizer.  Each parameter's states are one rank's as a whole: the low
 * end has those of the rank with the fewest, the high end those of the one with the most.  DDP keeps a copy
 * of all gradients in buckets.  At the low end gradients are views of them (gradient_as_bucket_view), at the
 * high end blocks beside them, and the first step's one bucket is still there, as NCCL may keep it.
 *
 * Stages 2 and 3 are fully_shard: each unit of the model is sharded by itself, and what is in no unit
 * together.
 *
 *      forward     | rest whole | unit 0 whole | unit 1 whole ...      in stage 2 they stay
 *      backward    | unit 1 whole | unit 0 whole ...
 *
 * What is gathered arrives in flat buffers, gradients are whole until their unit is through, and the next
 * unit is gathered ahead.  At the low end these three take nothing, at the high end four times the largest
 * unit, and in backward twice the rest besides.
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define RANKS_MOST 4096 /* beyond that the largest parameter alone says how uneven the ranks are */
#define AHEAD      4    /* units that are in flight at the high end */

static uint64_t *zeros(size_t n)
{
    return memset(xrealloc(NULL, n * sizeof(uint64_t)), 0, n * sizeof(uint64_t));
}

/* ---- what has a gradient ---- */

/*
 * Parameters are made before any module is called, so nothing says which unit each is of.  Its gradient is
 * made where backward goes through the unit, and is as large.  What has none (it is frozen, or shared with
 * another layer) is in no unit's.
 */
struct groups {
    uint64_t *bytes;    /* by unit, of its gradients; behind them that of the rest */
    size_t units;       /* index of the rest */
    uint64_t all, most; /* of all; of the largest unit */
    struct sizes sizes; /* of the gradients of a step, or of parameters where no gradient is known */
};

static struct groups groups_of(const struct program *p)
{
    struct groups g = {.units = p->facts->units};
    uint64_t *now = zeros(g.units + 1);
    bool first = true;
    g.bytes = zeros(g.units + 1);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_STEP) {
            first = g.sizes.n == 0;
            memset(now, 0, (g.units + 1) * sizeof *now);
        }
        if (e->what != MOMENT_BORN || p->blocks[e->block].kind != KIND_GRADIENT)
            continue;
        const struct edit_block *b = &p->blocks[e->block];
        uint16_t unit = program_stack(p, b)->unit;
        size_t at = unit < g.units ? unit : g.units;
        now[at] += b->size;
        g.bytes[at] = now[at] > g.bytes[at] ? now[at] : g.bytes[at];
        if (first)
            *PUSH(g.sizes.at, g.sizes.n) = b->size;
    }
    free(now);
    for (size_t i = 0; i <= g.units; i++) {
        g.all += g.bytes[i];
        g.most = i < g.units && g.bytes[i] > g.most ? g.bytes[i] : g.most;
    }
    if (!g.sizes.n) {
        g.sizes = program_sizes(p, 1u << KIND_PARAMETER, 0);
        g.all = program_most(p, KIND_PARAMETER);
    }
    return g;
}

static void groups_free(struct groups *g)
{
    free(g->bytes);
    free(g->sizes.at);
}

/* Of all states the part of the rank with the most, or with the fewest: the largest parameter goes to the
 * rank that has the fewest bytes by then, as ZeroRedundancyOptimizer has it. */
static double part_of(struct groups *g, int64_t n, bool most)
{
    size_t ranks = n < RANKS_MOST ? (size_t)n : RANKS_MOST, least = 0, fullest = 0;
    uint64_t *loads = zeros(ranks), all = 0;
    sizes_sort(&g->sizes);
    for (size_t i = g->sizes.n; i-- > 0;) {
        least = 0;
        for (size_t k = 1; k < ranks; k++)
            least = loads[k] < loads[least] ? k : least;
        loads[least] += g->sizes.at[i];
        all += g->sizes.at[i];
    }
    for (size_t k = 0; k < ranks; k++) {
        least = loads[k] < loads[least] ? k : least;
        fullest = loads[k] > loads[fullest] ? k : fullest;
    }
    double part = all ? (double)loads[most ? fullest : least] / (double)all : 1 / (double)n;
    free(loads);
    return part;
}

/* ---- shares ---- */

struct shard {
    struct build b;
    struct groups groups;
    int64_t ranks, stage;
    double part; /* of states */
    bool high;
    uint32_t *whole;                   /* by unit, and of the rest: what is gathered; BLOCK_NEVER: not held */
    uint32_t ahead[AHEAD], reduced[2]; /* blocks in flight; in backward, of the rest's gradients */
    size_t unit;                       /* that forward or backward is in; groups.units: none */
    bool passing, backward;
};

static uint64_t share_of(const struct shard *s, const struct edit_block *b)
{
    uint64_t even = (b->size + (uint64_t)s->ranks - 1) / (uint64_t)s->ranks;
    bool state = b->kind == KIND_STATE || b->kind == KIND_UPDATE;
    if (state)
        return s->stage == 1 ? (uint64_t)((double)b->size * s->part + 0.5) : even;
    if (b->kind == KIND_GRADIENT && s->stage == 1)
        return s->high ? b->size : 0; /* a view of its bucket */
    return b->kind == KIND_GRADIENT || (b->kind == KIND_PARAMETER && s->stage > 1) ? even : b->size;
}

static void copy(struct shard *s, size_t i)
{
    const struct trace_moment *e = &s->b.from->events[i];
    const struct edit_block *was = e->what == MOMENT_BORN ? &s->b.from->blocks[e->block] : NULL;
    uint64_t size = was ? share_of(s, was) : 0;
    if (!was || size == was->size)
        build_copy(&s->b, i);
    else
        s->b.now[e->block] = build_born(&s->b, was, size, e->phase, was->kind);
}

static uint32_t bear(struct shard *s, uint64_t size, uint16_t phase, enum edit_kind kind)
{
    return build_born(&s->b, &(struct edit_block){.stream = 0}, size, phase, kind);
}

static void end(struct shard *s, uint32_t *block, uint16_t phase)
{
    build_died(&s->b, *block, phase);
    *block = BLOCK_NEVER;
}

/* ---- gathering ---- */

static void hold(struct shard *s, size_t unit, uint64_t bytes, uint16_t phase)
{
    if (s->whole[unit] == BLOCK_NEVER)
        s->whole[unit] = bear(s, bytes, phase, KIND_PARAMETER);
}

static void begin_pass(struct shard *s, uint16_t phase)
{
    const struct groups *g = &s->groups;
    uint64_t all = program_most(s->b.from, KIND_PARAMETER), unknown = all > g->all ? all - g->all : 0;
    hold(s, g->units, g->bytes[g->units] + (s->high ? unknown : 0), phase);
    for (size_t i = 0; i < AHEAD && s->high; i++)
        s->ahead[i] = bear(s, g->most, phase, KIND_OTHER);
    s->passing = true;
}

static void begin_backward(struct shard *s, uint16_t phase)
{
    for (size_t i = 0; i < 2 && s->high; i++)
        s->reduced[i] = bear(s, s->groups.bytes[s->groups.units], phase, KIND_BACKWARD);
    s->backward = true;
}

static void end_pass(struct shard *s)
{
    uint16_t phase = s->backward ? s->b.from->facts->backward : 0;
    for (size_t i = 0; i <= s->groups.units; i++)
        end(s, &s->whole[i], phase);
    for (size_t i = 0; i < AHEAD; i++)
        end(s, &s->ahead[i], phase);
    for (size_t i = 0; i < 2; i++)
        end(s, &s->reduced[i], phase);
    s->unit = s->groups.units;
    s->passing = s->backward = false;
}

static void enter(struct shard *s, uint16_t unit, uint16_t phase)
{
    if (unit == s->unit || unit >= s->groups.units)
        return;
    if (s->unit < s->groups.units && (s->stage == 3 || s->backward))
        end(s, &s->whole[s->unit], phase);
    s->unit = unit;
    hold(s, unit, s->groups.bytes[unit], phase);
}

static void follow(struct shard *s, const struct trace_moment *e)
{
    const struct edit_facts *f = s->b.from->facts;
    bool back = e->phase && e->phase == f->backward, forward = program_is_forward(f, e->phase);
    bool block = e->what == MOMENT_BORN || e->what == MOMENT_DIED || e->what == MOMENT_PHASE;
    if (s->passing && (e->what == MOMENT_STEP || (s->backward && block && !back)))
        end_pass(s);
    if (e->what != MOMENT_BORN || (!forward && !back) || (back && !s->passing))
        return;
    if (!s->passing)
        begin_pass(s, e->phase);
    if (back && !s->backward)
        begin_backward(s, e->phase);
    enter(s, program_stack(s->b.from, &s->b.from->blocks[e->block])->unit, e->phase);
}

/* ---- the edit ---- */

static struct program share(const struct program *from, struct shard *s)
{
    build_begin(&s->b, from);
    s->whole = xrealloc(NULL, (s->groups.units + 1) * sizeof *s->whole);
    memset(s->whole, 0xff, (s->groups.units + 1) * sizeof *s->whole);
    memset(s->ahead, 0xff, sizeof s->ahead);
    memset(s->reduced, 0xff, sizeof s->reduced);
    s->unit = s->groups.units;
    for (int i = 0; i < 1 + s->high && s->stage == 1 && from->event_count; i++)
        bear(s, s->groups.all, 0, KIND_OTHER); /* buckets */
    for (size_t i = 0; i < from->event_count; i++) {
        if (s->stage > 1)
            follow(s, &from->events[i]);
        copy(s, i);
    }
    free(s->whole);
    groups_free(&s->groups);
    return build_end(&s->b);
}

struct program apply_zero(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    if (!program_most(from, KIND_STATE))
        return refuse(r, "no states of an optimizer are known: record at least one whole step");
    if (from->facts->ranks > 1) /* of which buckets, shares and gathers may be in it already */
        return refuse(r, "it is of one of %lld ranks already: record the program on one GPU",
                      (long long)from->facts->ranks);
    if (e->stage > 1 && from->facts->imported)
        return refuse(r, "it has no layers, by which weights are gathered: a snapshot does not name them, "
                         "vramscope run does");
    const char *how = e->stage == 2 ? "fully_shard (what it gathered is kept over forward)"
                      : e->stage == 3
                          ? "fully_shard"
                          : "DDP with ZeroRedundancyOptimizer, of the rank with the fewest states "
                            "(low end) or the most";
    r->assumes = xformat("%lld ranks with the recorded batch each; PyTorch's %s; NCCL's own memory is not in "
                         "it; exactly: vramscope fit",
                         (long long)e->n, how);
    struct shard s = {.groups = groups_of(from), .ranks = e->n, .stage = e->stage, .high = high, .part = 1};
    if (e->stage == 1)
        s.part = part_of(&s.groups, e->n, high);
    return share(from, &s);
}
