/*
 * scale.c - more or fewer samples or tokens: sizes of blocks, by what they are for.
 *
 * What a step makes for its data grows with the data; parameters, gradients and states do not.  Of some
 * blocks a recording does not say which they are: one that backward makes as large as a parameter may be a
 * part of a gradient, one that outlives its step an output that is kept, or a table.  At the low end such a
 * block stays and at the high end it grows (where data shrink, the other way round).
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

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

static void add_widths(struct sizes *widths, const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER)
            for (int k = 0; k < 2; k++)
                add_extent(widths, program_asked(p, &p->blocks[i])->inner[k]);
    sizes_sort(widths);
}

/* What a pass saves is N x length x width; tokens of all samples in one row are N x width, and have no
 * length.
 */
static void add_lengths(struct scale_outputs *o, const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++) {
        const struct edit_block *b = &p->blocks[i];
        const struct asked *a = program_asked(p, b);
        if (b->kind == KIND_SAVED && a->rank == 3 && sizes_have(&o->widths, a->inner[0]) &&
            !sizes_have(&o->lengths, a->inner[1])) {
            add_extent(&o->lengths, a->inner[1]);
            sizes_sort(&o->lengths);
        }
    }
}

static bool is_made_by_a_pass(const struct edit_block *b)
{
    return b->kind == KIND_SAVED || b->kind == KIND_FORWARD || b->kind == KIND_BACKWARD;
}

/* Attention's squares are far larger than what its layer gives, unless heads are few or tokens. */
static bool is_large_square(const struct program *p, const struct edit_block *b,
                            const struct scale_outputs *o)
{
    const struct edit_stack *s = program_stack(p, b);
    return is_made_by_a_pass(b) && s->attends && s->unit < p->facts->units && o->bytes[s->unit] &&
           b->size / 7 > o->bytes[s->unit] / 2;
}

struct scale_outputs scale_unit_outputs(const struct program *p)
{
    struct scale_outputs o = {0};
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
        if (unit >= n || b->kind != KIND_SAVED || b->size <= SCALE_SURE)
            continue;
        if (step[unit] != steps && last[unit] > outputs[unit])
            outputs[unit] = last[unit]; /* of the longest step */
        step[unit] = steps;
        last[unit] = b->size;
    }
    for (size_t u = 0; u < n; u++)
        outputs[u] = last[u] > outputs[u] ? last[u] : outputs[u];
    free(step);
    add_widths(&o.widths, p);
    add_lengths(&o, p);
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

bool scale_may_be_square(const struct program *p, const struct edit_block *b, const struct scale_outputs *o)
{
    const struct asked *a = program_asked(p, b);
    bool lengths = sizes_have(&o->lengths, a->inner[0]) && sizes_have(&o->lengths, a->inner[1]);
    return lengths || (is_large_square(p, b, o) && (!a->shape || !sizes_have(&o->widths, a->inner[0])));
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
    struct sizes shapes; /* of parameters: what has one in forward may be a copy of it, as autocast makes */
    struct scale_outputs outputs; /* no bytes: nothing grows with a square */
};

static void add_shapes(struct sizes *shapes, const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].kind == KIND_PARAMETER && program_asked(p, &p->blocks[i])->shape)
            *PUSH(shapes->at, shapes->n) = program_asked(p, &p->blocks[i])->shape;
    sizes_sort(shapes);
}

/* Of cuDNN's: raw bytes, or what a recurrent layer's call takes. */
static bool is_librarys(const struct program *p, const struct edit_block *b)
{
    bool call = b->kind == KIND_FORWARD || b->kind == KIND_BACKWARD;
    return program_asked(p, b)->raw || (b->type == ELEMENT_UINT8 && call);
}

static double data_factor(const struct program *p, const struct edit_block *b, void *context)
{
    const struct data *d = context;
    if (d->least && is_librarys(p, b))
        return 1; /* its own bytes may follow from the weights alone, and another kernel may be taken */
    if (program_kind(b) == KIND_STATE || program_kind(b) == KIND_UPDATE)
        return 1;
    bool square = !d->least && d->outputs.bytes && scale_may_be_square(p, b, &d->outputs);
    double grows = square ? d->factor * d->factor : d->factor;
    switch (b->kind) {
    case KIND_LOGITS:
    case KIND_SAVED:
    case KIND_FORWARD:
        return d->least && (b->size <= SCALE_SURE || sizes_have(&d->shapes, program_asked(p, b)->shape))
                   ? 1
                   : grows;
    case KIND_BACKWARD:
    case KIND_REQUEST:
        return d->least && (b->size <= SCALE_SURE || sizes_have(&d->sizes, b->size)) ? 1 : grows;
    default:
        break;
    }
    /* inputs: they are made before forward, and go within the step */
    bool input = b->kind == KIND_OTHER && b->died != BLOCK_NEVER && p->events[b->born].phase == 0;
    return d->least || (!input && !scale_is_kept(p, b)) ? 1 : grows;
}

static struct program apply_data(const struct program *from, const struct edit *e, struct edit_result *r,
                                 bool high)
{
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    struct data d = {.factor = e->factor,
                     .least = high != (e->factor > 1),
                     .sizes = program_sizes(from, 1u << KIND_PARAMETER | 1u << KIND_GRADIENT, 0)};
    add_shapes(&d.shapes, from);
    if (e->what == EDIT_SEQUENCE)
        d.outputs = scale_unit_outputs(from);
    struct program to = scale(from, data_factor, &d, r);
    scale_free_outputs(&d.outputs);
    free(d.sizes.at);
    free(d.shapes.at);
    return to;
}

struct program apply_batch(const struct program *from, const struct edit *e, struct edit_result *r, bool high)
{
    struct program to = apply_data(from, e, r, high);
    if (!r->why)
        r->assumes = xstrdup("kernels stay the same, and their workspaces grow alike, or do not");
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
        r->assumes = xstrdup(
            "kernels stay the same; what attention makes that is larger than queries, keys and "
            "values grows with the length (low end) or its square (high end); exactly: vramscope fit");
    r->cost = e->factor < 1 ? "fewer tokens a sample" : "a longer step, of more tokens";
    return to;
}
