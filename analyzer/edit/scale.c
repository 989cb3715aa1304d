/*
 * scale.c - more or fewer samples, tokens, bytes of an element: sizes of blocks, by what they are for.
 *
 * What a step makes for its data grows with the data; parameters, gradients and states do not.  From one
 * recording it is not known of every block which it is: one that backward makes as large as a parameter may
 * be a part of a gradient, and one that outlives its step an output that is kept or a table.  At the low end
 * it stays and at the high end it grows (where data shrink, the other way round).  Several recordings of
 * different sizes say more.
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"
#include "widths.h"

#define SLACK 25     /* of what is saved for backward: by how much the other type's kernels may need more */
#define MOST  0x1p50 /* bytes at once; sums of more have no meaning */
#define SURE  (UINT64_C(64) << 10) /* a block that is smaller may be of any kind */

/* ---- parameters' sizes ---- */

struct sizes {
    uint64_t *at;
    size_t n;
};

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static struct sizes static_sizes(const struct program *p)
{
    struct sizes s = {0};
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER || p->blocks[i].kind == KIND_GRADIENT)
            *PUSH(s.at, s.n) = p->blocks[i].size;
    if (s.n)
        qsort(s.at, s.n, sizeof *s.at, by_size);
    return s;
}

static bool has(const struct sizes *s, uint64_t size)
{
    return s->n && bsearch(&size, s->at, s->n, sizeof *s->at, by_size);
}

/* ---- scaling ---- */

typedef double factor_of(const struct program *p, const struct edit_block *b, void *context);

static struct program scale(const struct program *from, factor_of *factor, void *context,
                            struct edit_result *r)
{
    struct build b;
    double lives = 0;
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *e = &from->events[i];
        if (e->what == MOMENT_BORN) {
            const struct edit_block *was = &from->blocks[e->block];
            double size = (double)was->size * factor(from, was, context);
            lives += size;
            if (lives > MOST)
                break;
            uint64_t bytes = size < 1 ? 1 : (uint64_t)(size + 0.5);
            b.now[e->block] = build_born(&b, was, bytes, e->phase, was->kind);
        } else {
            if (e->what == MOMENT_DIED)
                lives -= (double)from->blocks[e->block].size * factor(from, &from->blocks[e->block], context);
            build_copy(&b, i);
        }
    }
    struct program to = build_end(&b);
    if (lives <= MOST)
        return to;
    program_free(&to);
    return refuse(r, "more than 1 PiB would be allocated at once");
}

/* What a unit of the model gives to the next one, N x H: the last that it saves in forward.  Attention that
 * is not fused makes blocks of the length's square, which are larger. */
static uint64_t *unit_outputs(const struct program *p)
{
    size_t n = p->facts->units;
    uint64_t *outputs = xrealloc(NULL, (2 * n + 2) * sizeof *outputs), *last = outputs + n + 1;
    size_t *step = xrealloc(NULL, (n + 1) * sizeof *step), steps = 0; /* that a unit's last one is of */
    memset(outputs, 0, (2 * n + 2) * sizeof *outputs);
    memset(step, 0, (n + 1) * sizeof *step);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        const struct edit_block *b = e->what == MOMENT_BORN ? &p->blocks[e->block] : NULL;
        uint16_t unit = b ? program_stack(p, b)->unit : EDIT_NO_UNIT;
        steps += e->what == MOMENT_STEP;
        if (unit >= n || b->kind != KIND_SAVED || b->size <= SURE)
            continue;
        if (step[unit] != steps && last[unit] > outputs[unit])
            outputs[unit] = last[unit]; /* of the longest step */
        step[unit] = steps;
        last[unit] = b->size;
    }
    for (size_t u = 0; u < n; u++)
        outputs[u] = last[u] > outputs[u] ? last[u] : outputs[u];
    free(step);
    return outputs;
}

static bool is_square(const struct program *p, const struct edit_block *b, const uint64_t *outputs)
{
    const struct edit_stack *s = program_stack(p, b);
    bool made = b->kind == KIND_SAVED || b->kind == KIND_FORWARD || b->kind == KIND_BACKWARD;
    return made && s->attends && s->unit < p->facts->units && outputs[s->unit] &&
           b->size / 7 > outputs[s->unit] / 2;
}

/* Made by a pass and not gone with it: caches, outputs of which the last ones are kept. */
static bool is_kept(const struct program *p, const struct edit_block *b)
{
    uint16_t phase = p->events[b->born].phase;
    return b->kind == KIND_OTHER && phase && phase != p->facts->optimizer && !program_is_workspace(b->size);
}

struct data {
    double factor;
    bool least; /* what may be fixed is */
    struct sizes sizes;
    uint64_t *outputs; /* of units; NULL: nothing grows with a square */
};

static double data_factor(const struct program *p, const struct edit_block *b, void *context)
{
    const struct data *d = context;
    if (d->outputs && is_square(p, b, d->outputs))
        return d->factor * d->factor;
    switch (b->kind) {
    case KIND_LOGITS:
    case KIND_SAVED:
    case KIND_FORWARD:
        return d->least && b->size <= SURE ? 1 : d->factor;
    case KIND_BACKWARD:
    case KIND_REQUEST:
        return d->least && (b->size <= SURE || has(&d->sizes, b->size)) ? 1 : d->factor;
    default:
        break;
    }
    /* inputs: they are made before forward, and go within the step */
    bool input = b->kind == KIND_OTHER && b->died != BLOCK_NEVER && p->events[b->born].phase == 0;
    return (input || is_kept(p, b)) && !d->least ? d->factor : 1;
}

static struct program apply_data(const struct program *from, const struct edit *e, struct edit_result *r,
                                 bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    struct data d = {.factor = e->factor, .least = high != (e->factor > 1), .sizes = static_sizes(from)};
    if (e->what == EDIT_SEQUENCE)
        d.outputs = unit_outputs(from);
    struct program to = scale(from, data_factor, &d, r);
    free(d.outputs);
    free(d.sizes.at);
    return to;
}

struct program apply_batch(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    struct program to = apply_data(from, e, r, high);
    if (!r->why)
        r->assumes = xstrdup("kernels stay the same, and their workspaces grow alike");
    r->cost = e->factor < 1 ? "fewer samples a step" : "a longer step, of more samples";
    return to;
}

struct program apply_sequence(const struct program *from, const struct edit *e, struct edit_result *r,
                              bool high)
{
    bool words = false;
    for (size_t i = 0; i < from->block_count && !words; i++)
        words = from->blocks[i].kind == KIND_LOGITS && from->blocks[i].size > SURE;
    if (!words)
        return refuse(r, "nothing was made in a phase 'logits': the data are not known to be sequences");
    struct program to = apply_data(from, e, r, high);
    if (!r->why)
        r->assumes =
            xstrdup("kernels stay the same; what attention makes that is larger than queries, keys and "
                    "values grows with the square");
    r->cost = e->factor < 1 ? "fewer tokens a sample" : "a longer step, of more tokens";
    return to;
}

/* ---- types ---- */

struct halving {
    bool high;
    uint64_t *outputs; /* of units */
    uint16_t head;     /* the output layer */
    uint32_t logits;   /* what it made last, and a copy in fp32 of that: blocks of the new program */
    uint32_t copy;
};

/* What is known to be computed in fp32 stays as large.  Of what is in no unit of the model it is not known.
 */
static double half_factor(const struct program *p, const struct edit_block *b, const struct halving *h)
{
    const struct edit_stack *s = program_stack(p, b);
    if (!h->high && is_square(p, b, h->outputs)) /* in 16 bits attention may be fused */
        return 0;
    switch (b->kind) {
    case KIND_PARAMETER:
    case KIND_GRADIENT:
    case KIND_STATE:
    case KIND_UPDATE:
        return 0.5;
    case KIND_SAVED:
    case KIND_FORWARD:
    case KIND_BACKWARD: /* a loss is known to do so; a norm keeps more or less of it */
        if (s->upcast && (h->high || s->unit == EDIT_NO_UNIT))
            return 1;
        if (!h->high && b->kind == KIND_SAVED)
            return 0.5 - 0.5 / SLACK;
        return h->high && b->kind != KIND_SAVED && s->unit == EDIT_NO_UNIT ? 1 : 0.5;
    case KIND_LOGITS:
        return s->layer != h->head && (s->upcast || h->high) ? 1 : 0.5;
    default: /* of what is kept it is not known whether it is of numbers */
        return !h->high && is_kept(p, b) ? 0.5 : 1;
    }
}

static uint16_t find_head(const struct program *p)
{
    const struct edit_block *largest = NULL;
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_LOGITS && (!largest || p->blocks[i].size > largest->size))
            largest = &p->blocks[i];
    return largest ? program_stack(p, largest)->layer : 0;
}

/* The copy of the logits that a loss in fp32 takes: it goes with them. */
static void follow_copy(struct build *b, size_t i, struct halving *h, bool upcast)
{
    const struct trace_moment *e = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[e->block];
    if (e->what == MOMENT_DIED && b->now[e->block] == h->logits && h->logits != BLOCK_NEVER) {
        build_died(b, h->copy, e->phase);
        h->logits = h->copy = BLOCK_NEVER;
    }
    bool heads = was->kind == KIND_LOGITS && program_stack(b->from, was)->layer == h->head;
    if (e->what != MOMENT_BORN || !heads || was->size < SURE)
        return;
    uint32_t logits = build_born(b, was, was->size / 2, e->phase, was->kind);
    b->now[e->block] = logits;
    if (upcast && h->copy == BLOCK_NEVER) {
        h->logits = logits;
        h->copy = build_born(b, was, was->size, e->phase, was->kind);
    }
}

static bool loss_upcasts(const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_LOGITS && program_stack(p, &p->blocks[i])->upcast)
            return true;
    return false;
}

struct program apply_types(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    (void)e;
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    enum widths widths = widths_of(from);
    if (widths == WIDTHS_AUTOCAST)
        return refuse(r, "element types are not known: forward makes blocks of half the size of most "
                         "parameters, as autocast's copies in 16 bits are");
    if (widths == WIDTHS_HALF)
        return refuse(r, "element types are not known: norms, or the loss, make blocks of twice the size of "
                         "others, as copies in fp32 of 16 bits are");
    struct halving h = {high, unit_outputs(from), find_head(from), BLOCK_NEVER, BLOCK_NEVER};
    bool upcast = loss_upcasts(from) || high;
    struct edit_block like = {.stream = 0};
    struct build b;
    build_begin(&b, from);
    if (high && from->event_count) /* workspaces */
        build_born(&b, &like, program_most(from, KIND_SAVED) / SLACK, 0, KIND_OTHER);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        bool block = at->what == MOMENT_BORN || at->what == MOMENT_DIED;
        if (block)
            follow_copy(&b, i, &h, upcast);
        const struct edit_block *was = block ? &from->blocks[at->block] : NULL;
        if (block && at->what == MOMENT_BORN) {
            if (b.now[at->block] == BLOCK_NEVER)
                b.now[at->block] =
                    build_born(&b, was, (uint64_t)((double)was->size * half_factor(from, was, &h) + 0.5),
                               at->phase, was->kind);
        } else {
            build_copy(&b, i);
        }
    }
    free(h.outputs);
    r->assumes = xstrdup("everything is fp32 now, which no recording says");
    return build_end(&b);
}
