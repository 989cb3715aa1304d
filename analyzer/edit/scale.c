/*
 * scale.c - more or fewer samples or tokens: sizes of blocks, by what they are for.
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
#include "scale.h"

#define MOST 0x1p50 /* bytes at once; sums of more have no meaning */

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

/* ---- squares of the length ---- */

static void add_extent(struct sizes *s, uint64_t extent)
{
    if (extent > 1)
        *PUSH(s->at, s->n) = extent;
}

static void add_widths(struct scale_outputs *o, const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER)
            for (int k = 0; k < 2; k++)
                add_extent(&o->widths, program_asked(p, &p->blocks[i])->inner[k]);
    sizes_sort(&o->widths);
}

struct scale_outputs scale_unit_outputs(const struct program *p)
{
    struct scale_outputs o = {0};
    size_t n = p->facts->units;
    uint64_t *outputs = xrealloc(NULL, (2 * n + 2) * sizeof *outputs), *last = outputs + n + 1;
    uint32_t *block = xrealloc(NULL, (n + 1) * sizeof *block); /* that was last */
    memset(block, 0xff, (n + 1) * sizeof *block);
    size_t *step = xrealloc(NULL, (n + 1) * sizeof *step), steps = 0; /* that a unit's last one is of */
    memset(outputs, 0, (2 * n + 2) * sizeof *outputs);
    memset(step, 0, (n + 1) * sizeof *step);
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        const struct edit_block *b = e->what == MOMENT_BORN ? &p->blocks[e->block] : NULL;
        uint16_t unit = b ? program_stack(p, b)->unit : EDIT_NO_UNIT;
        steps += e->what == MOMENT_STEP;
        if (unit >= n || b->kind != KIND_SAVED || b->size <= SCALE_SURE)
            continue;
        if (step[unit] != steps) { /* another step */
            if (last[unit] > outputs[unit])
                outputs[unit] = last[unit]; /* of the longest one */
            if (block[unit] != BLOCK_NEVER)
                add_extent(&o.lengths, program_asked(p, &p->blocks[block[unit]])->inner[1]);
        }
        step[unit] = steps;
        last[unit] = b->size;
        block[unit] = e->block;
    }
    for (size_t u = 0; u < n; u++) {
        outputs[u] = last[u] > outputs[u] ? last[u] : outputs[u];
        if (block[u] != BLOCK_NEVER)
            add_extent(&o.lengths, program_asked(p, &p->blocks[block[u]])->inner[1]);
    }
    free(step);
    free(block);
    sizes_sort(&o.lengths);
    add_widths(&o, p);
    o.bytes = outputs;
    return o;
}

void scale_free_outputs(struct scale_outputs *o)
{
    free(o->bytes);
    free(o->lengths.at);
    free(o->widths.at);
    *o = (struct scale_outputs){0};
}

/* Whether the last two extents of B are lengths.  One that parameters have too may be a width. */
static bool has_two_lengths(const struct program *p, const struct edit_block *b,
                            const struct scale_outputs *o)
{
    const uint64_t *inner = program_asked(p, b)->inner;
    for (int k = 0; k < 2; k++)
        if (!sizes_have(&o->lengths, inner[k]) || sizes_have(&o->widths, inner[k]))
            return false;
    return true;
}

bool scale_is_square(const struct program *p, const struct edit_block *b, const struct scale_outputs *o)
{
    const struct edit_stack *s = program_stack(p, b);
    bool made = b->kind == KIND_SAVED || b->kind == KIND_FORWARD || b->kind == KIND_BACKWARD;
    if (made && has_two_lengths(p, b, o))
        return true;
    return made && s->attends && s->unit < p->facts->units && o->bytes[s->unit] &&
           b->size / 7 > o->bytes[s->unit] / 2;
}

bool scale_is_kept(const struct program *p, const struct edit_block *b)
{
    uint16_t phase = p->events[b->born].phase;
    return b->kind == KIND_OTHER && phase && phase != p->facts->optimizer && !program_is_workspace(b->size);
}

struct data {
    double factor;
    bool least; /* what may be fixed is */
    struct sizes sizes;
    struct scale_outputs outputs; /* no bytes: nothing grows with a square */
};

static double data_factor(const struct program *p, const struct edit_block *b, void *context)
{
    const struct data *d = context;
    if (d->outputs.bytes && scale_is_square(p, b, &d->outputs))
        return d->factor * d->factor;
    switch (b->kind) {
    case KIND_LOGITS:
    case KIND_SAVED:
    case KIND_FORWARD:
        return d->least && b->size <= SCALE_SURE ? 1 : d->factor;
    case KIND_BACKWARD:
    case KIND_REQUEST:
        return d->least && (b->size <= SCALE_SURE || sizes_have(&d->sizes, b->size)) ? 1 : d->factor;
    default:
        break;
    }
    /* inputs: they are made before forward, and go within the step */
    bool input = b->kind == KIND_OTHER && b->died != BLOCK_NEVER && p->events[b->born].phase == 0;
    return (input || scale_is_kept(p, b)) && !d->least ? d->factor : 1;
}

static struct program apply_data(const struct program *from, const struct edit *e, struct edit_result *r,
                                 bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    struct data d = {.factor = e->factor,
                     .least = high != (e->factor > 1),
                     .sizes = program_sizes(from, 1u << KIND_PARAMETER | 1u << KIND_GRADIENT, 0)};
    if (e->what == EDIT_SEQUENCE)
        d.outputs = scale_unit_outputs(from);
    struct program to = scale(from, data_factor, &d, r);
    scale_free_outputs(&d.outputs);
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
        words = from->blocks[i].kind == KIND_LOGITS && from->blocks[i].size > SCALE_SURE;
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
