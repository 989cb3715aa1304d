/*
 * optimizer.c - edits of the optimizer's step: temporaries and states.
 *
 * PyTorch's foreach implementation of Adam makes sqrt(second moment) of every parameter, and frees the list
 * at the end.  The other one, foreach=False, makes two of one parameter at a time, and still has the last one
 * of the parameter before:
 *
 *      foreach   |s0 s1 s2 ... |           for-loop   |s0 d0| -s0 |s1 d1| -s1 -d0 |s2 d2| ...
 *
 * Of another optimizer it is not known what each takes: at the least nothing, at the most three.
 */
#include <stdlib.h>

#include "apply.h"

#define SCALE_BLOCK 256  /* elements of a state in 8 bits that share a scale */
#define EIGHT_LEAST 4096 /* elements; states of less stay as they are */

/* ---- temporaries ---- */

struct loop {
    struct build *b;
    bool adam, high;
    uint32_t before; /* of the parameter before */
};

static void update_one(struct loop *l, const struct edit_block *like, uint16_t phase)
{
    uint64_t size = like->size;
    if (!l->adam && !l->high)
        return;
    uint32_t root = build_born(l->b, like, size, phase, KIND_UPDATE);
    uint32_t more = l->adam ? BLOCK_NEVER : build_born(l->b, like, size, phase, KIND_UPDATE);
    uint32_t quotient = build_born(l->b, like, size, phase, KIND_UPDATE);
    build_died(l->b, root, phase);
    build_died(l->b, more, phase);
    build_died(l->b, l->before, phase);
    l->before = quotient;
}

/* Whether event I begins another step of an optimizer than the one that event BEFORE is of. */
static bool ends_update(const struct program *p, size_t i)
{
    return p->events[i].what == MOMENT_STEP || p->events[i].phase != p->facts->optimizer;
}

static bool is_update(const struct program *p, size_t i)
{
    const struct trace_moment *e = &p->events[i];
    return (e->what == MOMENT_BORN || e->what == MOMENT_DIED) &&
           program_kind(&p->blocks[e->block]) == KIND_UPDATE;
}

/* What the foreach implementation makes in the step that begins with event I, one parameter after the other.
 * A request that was refused ends it, beside what the parameter before it left.
 */
static void update_by_loop(struct build *b, size_t i, bool high)
{
    const struct program *p = b->from;
    struct loop l = {.b = b, .high = high, .before = BLOCK_NEVER};
    uint16_t phase = p->events[i].phase;
    for (; i < p->event_count && !ends_update(p, i); i++)
        if (p->events[i].what == MOMENT_BORN && is_update(p, i)) {
            const struct edit_block *like = &p->blocks[p->events[i].block];
            if (like->kind == KIND_REQUEST) {
                build_copy(b, i);
                return;
            }
            l.adam = program_stack(p, like)->adam;
            update_one(&l, like, phase);
        }
    build_died(b, l.before, phase);
}

struct program apply_foreach(const struct program *from, const struct edit *e, struct edit_result *r,
                             bool high)
{
    (void)e;
    struct build b;
    bool any = false, in = false;
    if (!needs_steps(from, r))
        return (struct program){0};
    for (size_t i = 0; i < from->block_count && !any; i++)
        any = program_kind(&from->blocks[i]) == KIND_UPDATE && program_stack(from, &from->blocks[i])->foreach;
    if (!any)
        return refuse_nothing(r, "no foreach implementation of an optimizer made temporaries");
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i++) {
        in = in && !ends_update(from, i);
        if (!is_update(from, i) || ends_update(from, i)) {
            build_copy(&b, i);
            continue;
        }
        if (!in)
            update_by_loop(&b, i, high);
        in = true;
    }
    return build_end(&b);
}

/* FROM without temporaries of the optimizer. */
static struct program without_updates(const struct program *from)
{
    struct build b;
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i++)
        if (!is_update(from, i))
            build_copy(&b, i);
    return build_end(&b);
}

static bool has_kind(const struct program *p, enum edit_kind kind)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (program_kind(&p->blocks[i]) == kind)
            return true;
    return false;
}

struct program apply_optimizer(const struct program *from, const struct edit *e, struct edit_result *r,
                               bool high)
{
    (void)e;
    (void)high;
    if (!needs_steps(from, r))
        return (struct program){0};
    if (!has_kind(from, KIND_UPDATE))
        return refuse_nothing(r, "the optimizer makes no temporaries");
    return without_updates(from);
}

/* ---- states ---- */

static uint64_t scales(uint64_t elements)
{
    return (elements + SCALE_BLOCK - 1) / SCALE_BLOCK * 4;
}

/* Of an element of a state: of an unknown type it is taken for fp32. */
static uint64_t state_bytes(const struct edit_block *state)
{
    uint64_t bytes = element_bytes(state->type);
    return bytes ? bytes : 4;
}

/* Whether BYTES an element would be less; whole numbers, as counts of steps, stay. */
static bool is_wider(const struct edit_block *state, int64_t bytes)
{
    return element_is_float(state->type) && state_bytes(state) > (uint64_t)bytes;
}

static bool has_wider(const struct program *p, int64_t bytes)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (program_kind(&p->blocks[i]) == KIND_STATE && is_wider(&p->blocks[i], bytes))
            return true;
    return false;
}

static bool all_typed(const struct program *p)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (program_kind(&p->blocks[i]) == KIND_STATE && p->blocks[i].type == ELEMENT_UNKNOWN)
            return false;
    return true;
}

static void bear_state(struct build *b, size_t i, int64_t bytes)
{
    const struct trace_moment *e = &b->from->events[i];
    const struct edit_block *was = &b->from->blocks[e->block];
    uint64_t elements = was->size / state_bytes(was);
    if (bytes == STATES_HOST)
        return;
    if ((bytes == STATES_8BIT && elements < EIGHT_LEAST) || !is_wider(was, bytes)) {
        build_copy(b, i);
        return;
    }
    bool request = was->kind == KIND_REQUEST; /* nothing comes after it */
    if (bytes == STATES_8BIT && request)
        build_born(b, was, scales(elements), e->phase, KIND_STATE);
    uint32_t now = build_born(b, was, elements * (uint64_t)bytes, e->phase, (enum edit_kind)was->kind);
    b->now[e->block] = now;
    if (now != BLOCK_NEVER)
        b->to.blocks[now].type = bytes == STATES_8BIT ? ELEMENT_UINT8 : ELEMENT_BFLOAT16;
    if (bytes == STATES_8BIT && !request)
        build_born(b, was, scales(elements), e->phase, KIND_STATE);
}

struct program apply_states(const struct program *from, const struct edit *e, struct edit_result *r,
                            bool high)
{
    (void)high;
    struct build b;
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    if (!has_kind(from, KIND_STATE))
        return from->facts->imported ? refuse(r, "no states of an optimizer are known: the snapshot does not "
                                                 "show how they came, vramscope run does")
                                     : refuse_nothing(r, "the optimizer keeps no states on the device");
    if (e->n != STATES_HOST && !has_wider(from, e->n))
        return refuse_nothing(r, "no state of the optimizer is of a wider floating-point type");
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *at = &from->events[i];
        if (is_update(from, i))
            continue;
        if (at->what == MOMENT_BORN && program_kind(&from->blocks[at->block]) == KIND_STATE)
            bear_state(&b, i, e->n);
        else
            build_copy(&b, i);
    }
    if (e->n == STATES_HOST)
        r->cost = "gradients and parameters go over the bus at every step";
    else if (e->n == STATES_8BIT)
        r->cost = "states are rounded to 8 bits";
    else
        r->cost = "states are rounded to 16 bits";
    r->assumes =
        xstrdup(e->n == STATES_HOST ? "gradients are copied one at a time, without buffers on the device"
                : all_typed(from)   ? "the step is one kernel without temporaries"
                                    : "states are fp32 now, and the step is one kernel without temporaries");
    return build_end(&b);
}
