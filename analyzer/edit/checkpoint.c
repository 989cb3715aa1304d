/*
 * checkpoint.c - activation checkpointing: units of the model that keep their input alone in forward, and are
 * computed again when backward comes to them.
 *
 *      forward    | unit 0 |  unit 1  |        what it would have saved is freed at the unit's end
 *      backward   | unit 1 again | backward of unit 1 | unit 0 again | ...
 *
 * What becomes of a unit's output:
 *
 *  - Later units save it: it dies in backward before the unit's own backward begins, and is not made again.
 *  - Nobody saves it, as one that a U-Net scales up: it is a temporary that lives on behind the unit, and is
 * not made again.  The next unit's checkpoint may keep it, as it does where weights are frozen.  No recording
 * says so; at the high end it is kept.
 *  - The unit saves it itself, as one that ends with a ReLU in place: it is the first block that backward
 * frees. It stays up to the unit's backward, and is made again.
 *
 * The second forward is the recorded one, block by block.  No recording says how long a block lives in the
 * first forward that is not saved any more: to the end of the unit (the high end), or until the next call has
 * made something of it.  A call is what one call stack makes; the largest block of them is what it gives.  A
 * node of backward frees what the first forward saved when the node ends, and what was made again as soon as
 * it has used it (at the high end that, too, when it ends).
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define SMALL (UINT64_C(64) << 10) /* no unit's output */

/* ---- units that a path names ---- */

struct pathed {
    uint16_t *units; /* by layer, in the order of their first forward; EDIT_NO_UNIT: none */
    uint16_t n;
};

/* The modules with PATH ("Net.layers.*", see unit_names_match), in the place of those that are found by
 * themselves. */
static struct pathed pathed_units(const struct program *p, const char *path)
{
    const struct edit_facts *f = p->facts;
    struct pathed u;
    size_t *lengths = xrealloc(NULL, (f->layer_count + 1) * sizeof *lengths);
    for (size_t i = 0; i < f->layer_count; i++)
        lengths[i] = unit_names_match(f->layer_names[i], path);
    u.units = stacks_units(p, lengths, &u.n);
    free(lengths);
    return u;
}

static void pathed_free(struct pathed *u)
{
    free(u->units);
    *u = (struct pathed){0};
}

/* ---- passes ---- */

struct pass {        /* of a unit in one forward, and the backward that belongs to it */
    size_t from, to; /* events: the first birth, behind the last one */
    size_t backward; /* where its backward begins; SIZE_MAX: not seen */
    uint32_t
        output; /* the block that is saved by the unit itself, and its output; BLOCK_NEVER: another one is */
    uint32_t gives; /* the temporary that it gives; BLOCK_NEVER: none */
    uint32_t kept;  /* the new program's block that stands for it up to backward; BLOCK_NEVER: none */
};

struct checkpointing {
    struct build b;
    const struct pathed *pathed; /* NULL: the units that are found by themselves */
    int64_t every;
    struct pass *passes; /* by unit, of the forward that was last */
    uint16_t *units;     /* that it or its backward came to: all others' passes are empty */
    size_t unit_count;
    uint32_t *pending; /* blocks that are freed at the end of their unit's forward, of the old program */
    size_t pending_count;
    size_t older;   /* so many of them are of calls before the last one */
    uint16_t unit;  /* that forward is in */
    uint32_t stack; /* by which the last block was made */
    bool any, late;
};

static uint16_t unit_of_block(const struct checkpointing *c, const struct edit_block *b)
{
    const struct edit_stack *s = program_stack(c->b.from, b);
    if (!c->pathed)
        return s->unit;
    return s->layer < c->b.from->facts->layer_count ? c->pathed->units[s->layer] : EDIT_NO_UNIT;
}

static uint16_t unit_of(const struct checkpointing *c, size_t i)
{
    const struct program *p = c->b.from;
    return p->events[i].what == MOMENT_BORN ? unit_of_block(c, &p->blocks[p->events[i].block]) : EDIT_NO_UNIT;
}

static bool chosen(const struct checkpointing *c, uint16_t unit)
{
    return unit != EDIT_NO_UNIT && unit % c->every == 0;
}

/* Whether a block that UNIT makes in forward is saved by it, and made again. */
static bool is_inner(const struct checkpointing *c, const struct edit_block *b, uint16_t unit)
{
    const struct pass *pass = &c->passes[unit];
    if (pass->backward == SIZE_MAX) /* cut off by a refusal before backward came */
        return b->kind == KIND_SAVED && b->died == BLOCK_NEVER;
    return b->kind == KIND_SAVED && b->died != BLOCK_NEVER && b->died >= pass->backward;
}

/* The temporary that the unit gives: what it made and does not save is there when the next block outside of
 * it is made, the largest.  BLOCK_NEVER: there is none. */
static uint32_t given_temporary(const struct checkpointing *c, uint16_t unit, const struct pass *pass)
{
    const struct program *p = c->b.from;
    size_t next = pass->to;
    while (next < p->event_count && p->events[next].what != MOMENT_BORN &&
           p->events[next].what != MOMENT_STEP)
        next++;
    uint32_t most = BLOCK_NEVER;
    for (size_t i = pass->from; i < pass->to; i++) {
        const struct edit_block *b = &p->blocks[p->events[i].block];
        if (unit_of(c, i) == unit && b->kind == KIND_FORWARD && b->size >= SMALL && b->died > next &&
            (most == BLOCK_NEVER || b->size > p->blocks[most].size))
            most = p->events[i].block;
    }
    return most;
}

static void find_output(struct checkpointing *c, uint16_t unit)
{
    const struct program *p = c->b.from;
    struct pass *pass = &c->passes[unit];
    pass->gives = given_temporary(c, unit, pass);
    for (size_t i = pass->from; i < pass->to; i++) {
        const struct edit_block *b = &p->blocks[p->events[i].block];
        if (unit_of(c, i) != unit || b->kind != KIND_SAVED || b->size < SMALL)
            continue;
        if (!is_inner(c, b, unit)) {
            pass->output = BLOCK_NEVER;
            return;
        }
        if (pass->backward == SIZE_MAX || pass->output == BLOCK_NEVER ||
            b->died < p->blocks[pass->output].died) /* of a cut off one: the last that was made */
            pass->output = p->events[i].block;
    }
    if (pass->output != BLOCK_NEVER && pass->gives != BLOCK_NEVER)
        pass->output = BLOCK_NEVER;
}

static struct pass *pass_of(struct checkpointing *c, uint16_t unit)
{
    struct pass *pass = &c->passes[unit];
    if (pass->from == SIZE_MAX && pass->backward == SIZE_MAX)
        c->units[c->unit_count++] = unit;
    return pass;
}

static void forget_passes(struct checkpointing *c)
{
    for (size_t i = 0; i < c->unit_count; i++)
        c->passes[c->units[i]] = (struct pass){SIZE_MAX, 0, SIZE_MAX, BLOCK_NEVER, BLOCK_NEVER, BLOCK_NEVER};
    c->unit_count = 0;
}

/* The passes of the forward that begins with event I, and where backward comes to each. */
static void find_passes(struct checkpointing *c, size_t i)
{
    const struct program *p = c->b.from;
    const struct edit_facts *f = p->facts;
    forget_passes(c);
    for (; i < p->event_count && p->events[i].phase != f->backward && p->events[i].what != MOMENT_STEP; i++) {
        uint16_t unit = unit_of(c, i);
        if (unit == EDIT_NO_UNIT || !program_is_forward(f, p->events[i].phase))
            continue;
        struct pass *pass = pass_of(c, unit);
        pass->from = pass->from == SIZE_MAX ? i : pass->from;
        pass->to = i + 1;
    }
    for (; i < p->event_count && p->events[i].phase == f->backward; i++) {
        uint16_t unit = unit_of(c, i);
        if (unit != EDIT_NO_UNIT && c->passes[unit].backward == SIZE_MAX)
            pass_of(c, unit)->backward = i;
    }
    for (size_t u = 0; u < c->unit_count; u++)
        find_output(c, c->units[u]);
}

/* The first N of what is pending. */
static void end_some(struct checkpointing *c, uint16_t phase, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t *now = &c->b.now[c->pending[i]];
        build_died(&c->b, *now, phase);
        *now = BLOCK_NEVER; /* until it is made again */
    }
    c->pending_count -= n;
    c->older = 0;
    memmove(c->pending, c->pending + n, c->pending_count * sizeof *c->pending);
}

/* At the high end what the unit gives, and nothing saves, stays up to its backward. */
static void keep_given(struct checkpointing *c, uint16_t phase)
{
    struct pass *pass = c->late && chosen(c, c->unit) ? &c->passes[c->unit] : NULL;
    if (!pass || pass->gives == BLOCK_NEVER || pass->backward == SIZE_MAX || pass->kept != BLOCK_NEVER)
        return;
    const struct edit_block *like = &c->b.from->blocks[pass->gives];
    if (c->b.now[pass->gives] != BLOCK_NEVER)
        pass->kept = build_born(&c->b, like, like->size, phase, KIND_SAVED);
}

static void end_unit(struct checkpointing *c, uint16_t phase)
{
    if (c->pending_count)
        end_some(c, phase, c->pending_count);
}

/* Behind the last block that the unit saves: PyTorch stops the second forward at what it saves last, which
 * may be a parameter that later calls have. */
static size_t end_of_again(const struct checkpointing *c, uint16_t unit)
{
    const struct pass *pass = &c->passes[unit];
    size_t end = pass->to;
    while (!c->late && end > pass->from &&
           (unit_of(c, end - 1) != unit ||
            !is_inner(c, &c->b.from->blocks[c->b.from->events[end - 1].block], unit)))
        end--;
    return end;
}

/* The unit's forward once more, where backward comes to it. */
static void again(struct checkpointing *c, uint16_t unit)
{
    const struct program *p = c->b.from;
    const struct pass *pass = &c->passes[unit];
    uint16_t phase = p->facts->backward;
    size_t end = end_of_again(c, unit);
    if (pass->kept != BLOCK_NEVER)
        build_died(&c->b, pass->kept, phase);
    if (pass->output != BLOCK_NEVER)
        build_died(&c->b, c->b.now[pass->output], phase);
    for (size_t i = pass->from; i < end; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what != MOMENT_BORN && e->what != MOMENT_DIED)
            continue;
        const struct edit_block *b = &p->blocks[e->block];
        bool in = b->born >= pass->from && unit_of_block(c, b) == unit;
        bool inner = in && is_inner(c, b, unit), passing = in && b->kind == KIND_FORWARD;
        if (e->what == MOMENT_BORN && (inner || passing))
            c->b.now[e->block] = build_born(&c->b, b, b->size, phase, KIND_SAVED);
        else if (e->what == MOMENT_DIED && passing)
            build_died(&c->b, c->b.now[e->block], phase);
    }
    /* temporaries that were freed behind it */
    for (size_t i = pass->from; i < end; i++)
        if (p->events[i].what == MOMENT_BORN && unit_of(c, i) == unit &&
            p->blocks[p->events[i].block].kind == KIND_FORWARD)
            build_died(&c->b, c->b.now[p->events[i].block], phase);
}

/* Another call begins: what the calls before the last one made has been used, and of the last one's all but
 * what it gives. */
static void end_calls(struct checkpointing *c, uint16_t phase)
{
    const struct edit_block *blocks = c->b.from->blocks;
    uint32_t *last = c->pending + c->older;
    size_t n = c->pending_count - c->older, most = 0;
    if (!n) /* it made nothing that is saved */
        return;
    for (size_t i = 1; i < n; i++)
        most = blocks[last[i]].size > blocks[last[most]].size ? i : most;
    uint32_t gives = last[most];
    last[most] = last[n - 1];
    last[n - 1] = gives;
    end_some(c, phase, c->pending_count - 1);
    c->older = 1;
}

static void forward_event(struct checkpointing *c, size_t i)
{
    const struct program *p = c->b.from;
    const struct trace_moment *e = &p->events[i];
    uint16_t unit = unit_of(c, i);
    if (e->what == MOMENT_BORN) {
        uint32_t stack = p->blocks[e->block].stack;
        if (unit != c->unit) {
            end_unit(c, e->phase);
            keep_given(c, e->phase);
        } else if (stack != c->stack && !c->late)
            end_calls(c, e->phase);
        c->unit = unit;
        c->stack = stack;
    }
    build_copy(&c->b, i);
    if (chosen(c, unit) && is_inner(c, &p->blocks[e->block], unit)) {
        if (e->block != c->passes[unit].output)
            *PUSH(c->pending, c->pending_count) = e->block;
        c->any = true;
    }
}

/* Whether a block is there as it was made again. */
static bool is_again(const struct checkpointing *c, const struct edit_block *b, size_t i)
{
    uint16_t unit = unit_of_block(c, b);
    return chosen(c, unit) && b->born < i && c->passes[unit].backward <= i && is_inner(c, b, unit);
}

/* Behind the first block of a node of backward: of what the node frees at its end that was made again nothing
 * needs to live longer.  Convolutions and recurrent layers are one call, to which all of it is given. */
static void end_early(struct checkpointing *c, size_t i)
{
    const struct program *p = c->b.from;
    const struct edit_block *first = &p->blocks[p->events[i].block];
    const struct edit_stack *s = program_stack(p, first);
    for (size_t k = i + 1; k < p->event_count && p->events[k].phase == p->facts->backward; k++) {
        const struct trace_moment *e = &p->events[k];
        if (s->convolves || s->recurrent ||
            (e->what == MOMENT_BORN && p->blocks[e->block].stack != first->stack))
            break;
        if (e->what == MOMENT_DIED && is_again(c, &p->blocks[e->block], i))
            build_died(&c->b, c->b.now[e->block], e->phase);
    }
}

static void backward_event(struct checkpointing *c, size_t i)
{
    const struct program *p = c->b.from;
    const struct trace_moment *e = &p->events[i];
    uint16_t unit = unit_of(c, i);
    if (chosen(c, unit) && c->passes[unit].backward == i && c->passes[unit].from != SIZE_MAX)
        again(c, unit);
    build_copy(&c->b, i);
    if (e->what != MOMENT_BORN)
        return;
    uint32_t node = p->blocks[e->block].stack;
    if (node != c->stack && !c->late)
        end_early(c, i);
    c->stack = node;
}

static bool begins_forward(const struct program *p, size_t i)
{
    const struct edit_facts *f = p->facts;
    return program_is_forward(f, p->events[i].phase) &&
           (i == 0 || !program_is_forward(f, p->events[i - 1].phase));
}

static struct program recompute(struct checkpointing *c, const struct program *from, uint16_t units)
{
    const struct edit_facts *f = from->facts;
    c->passes = xrealloc(NULL, units * sizeof *c->passes);
    c->units = xrealloc(NULL, units * sizeof *c->units);
    for (uint16_t u = 0; u < units; u++)
        c->units[c->unit_count++] = u; /* of the passes none is made yet */
    build_begin(&c->b, from);
    bool in = false;
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        bool forward = program_is_forward(f, at->phase) && at->what != MOMENT_STEP;
        if (!in && begins_forward(from, i)) {
            find_passes(c, i);
            in = true;
        }
        if (in && (at->what == MOMENT_STEP || (at->phase && at->phase == f->backward)))
            in = false;
        if (!forward && c->pending_count)
            end_unit(c, f->forward);
        if (forward)
            forward_event(c, i);
        else if (at->phase && at->phase == f->backward)
            backward_event(c, i);
        else
            build_copy(&c->b, i);
    }
    free(c->passes);
    free(c->units);
    free(c->pending);
    return build_end(&c->b);
}

static char *assumed(const struct edit *e, int units, const char *name)
{
    char *of = e->n == 1
                   ? xstrdup("each")
                   : xformat("in the order of their forward, one of %lld from the first on", (long long)e->n);
    char *text = xformat("of the %d layer%s %s %s is computed again up to the last block that it saves",
                         units, units == 1 ? "" : "s", name, of);
    free(of);
    return text;
}

struct program apply_checkpoint(const struct program *from, const struct edit *e, struct edit_result *r,
                                bool high)
{
    struct pathed pathed = {0};
    r->moves = true;
    if (!needs_steps(from, r) || (!e->path && !needs_layers(from, r)))
        return (struct program){0};
    if (e->path)
        pathed = pathed_units(from, e->path);
    if (e->path && !pathed.n) {
        pathed_free(&pathed);
        return refuse(r, "no module of the recording has the path %s: vramscope peak --by=layer shows them",
                      e->path);
    }
    uint16_t units = e->path ? pathed.n : from->facts->units;
    const char *name = e->path ? e->path : from->facts->units_name;
    struct checkpointing c = {
        .every = e->n, .unit = EDIT_NO_UNIT, .late = high, .pathed = e->path ? &pathed : NULL};
    struct program to = recompute(&c, from, units);
    pathed_free(&pathed);
    if (c.any) {
        r->assumes = assumed(e, units, name);
        return to;
    }
    program_free(&to);
    return refuse_nothing(r, "no unit of %s saves anything for backward", name);
}
