/*
 * gradients.c - edits of when gradients live.
 *
 * Autograd's node that makes a parameter's gradient hands it to the node that accumulates, which runs before
 * any other.  So what happens to a gradient happens before the next block of another node, which has another
 * call stack:
 *
 *      born g (node 7)   born x (node 7)   |here|   born y (node 6)
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define SLACK (UINT64_C(1) << 20)

/* Gradients that were made by the node that runs. */
struct pending {
    uint32_t *block; /* of the new program */
    size_t n;
    uint32_t stack;
};

/* Before event I is dealt with: whether the node that made what is pending is done. */
static bool node_done(const struct program *from, size_t i, const struct pending *p)
{
    const struct trace_moment *e = &from->events[i];
    if (!p->n)
        return false;
    if (e->what == MOMENT_STEP || e->phase != from->facts->backward)
        return true;
    return e->what == MOMENT_BORN && from->blocks[e->block].stack != p->stack;
}

static bool is_kind(const struct program *p, size_t i, enum trace_moment_what what, enum edit_kind kind)
{
    return p->events[i].what == (uint8_t)what && p->blocks[p->events[i].block].kind == (uint8_t)kind;
}

static bool is_gradient_born(const struct program *p, size_t i)
{
    return is_kind(p, i, MOMENT_BORN, KIND_GRADIENT) && p->events[i].phase == p->facts->backward;
}

static void hold(struct build *b, size_t i, struct pending *p)
{
    const struct trace_moment *e = &b->from->events[i];
    build_copy(b, i);
    *PUSH(p->block, p->n) = b->now[e->block];
    p->stack = b->from->blocks[e->block].stack;
}

static bool has_gradients(const struct program *p, struct edit_result *r)
{
    for (size_t i = 0; i < p->event_count; i++)
        if (is_gradient_born(p, i))
            return true;
    refuse_nothing(r, "no gradient outlives backward");
    return false;
}

/* ---- in backward ---- */

struct in_backward {
    uint32_t *states; /* blocks of the old program, sorted by size */
    bool *used;
    size_t state_count;
    bool adam, temporaries, high;
    bool unstepped; /* no update was seen: a request was refused before it */
    bool first;     /* that request was of the first step, so not all states are recorded */
    int wanted;     /* then: states that a parameter has at least */
    uint32_t twin;  /* of the request, where that is a state: while its parameter is updated */
};

static int by_size(const void *a, const void *b, void *context)
{
    const struct program *from = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t p = from->blocks[x].size, q = from->blocks[y].size;
    return p != q ? (p > q) - (p < q) : (x > y) - (x < y);
}

/* Whether the optimizer replaces its states (state = b * state + ...).  It has as many after a step as before
 * it: a state that it makes is no first one, and the one that it replaces goes. */
static bool is_replaced(const struct program *from)
{
    uint64_t born = 0, died = 0;
    for (size_t i = 0; i < from->block_count; i++) {
        const struct edit_block *b = &from->blocks[i];
        if (b->kind != KIND_STATE)
            continue;
        born += from->events[b->born].phase == from->facts->optimizer ? b->size : 0;
        died += b->died != BLOCK_NEVER && from->events[b->died].phase == from->facts->optimizer ? b->size : 0;
    }
    return died && died >= born / 2;
}

/* If a refusal ended the first step, or came before it, states are missing, and backward makes them then: two
 * of each parameter, if they are Adam's; else at the least those that were seen. */
static void want_states(const struct program *from, struct in_backward *in, bool adam)
{
    const struct edit_facts *f = from->facts;
    if (!f->cut || f->steps > 0 || f->imported)
        return;
    in->first = true;
    in->unstepped = !in->temporaries;
    in->wanted = adam || in->high ? 2 : in->state_count > 0;
}

static void find_states(const struct program *from, struct in_backward *in)
{
    bool adam = false;
    for (size_t i = 0; i < from->block_count; i++) {
        const struct edit_block *block = &from->blocks[i];
        enum edit_kind kind = program_kind(block);
        bool made = from->events[block->born].phase == from->facts->optimizer;
        if (kind == KIND_STATE && made)
            *PUSH(in->states, in->state_count) = (uint32_t)i;
        adam = adam || (made && program_stack(from, block)->adam);
        if (kind == KIND_UPDATE) {
            in->temporaries = true;
            in->adam = in->adam || program_stack(from, block)->adam;
        }
    }
    want_states(from, in, adam);
    in->used = xrealloc(NULL, in->state_count + 1);
    memset(in->used, 0, in->state_count + 1);
    if (in->state_count)
        qsort_r(in->states, in->state_count, sizeof *in->states, by_size, (void *)from);
}

/* The states of a parameter as large as BLOCK are made with its first update: two, as Adam has them.  The
 * request that was refused ends the program as it did. */
static void bear_states(struct build *b, struct in_backward *in, const struct edit_block *like,
                        uint16_t phase)
{
    int made = 0;
    uint64_t size = like->size;
    size_t low = 0, high = in->state_count;
    uint64_t least = size > SLACK ? size - SLACK : size;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->from->blocks[in->states[middle]].size < least)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < in->state_count && made < 2; i++) {
        const struct edit_block *state = &b->from->blocks[in->states[i]];
        if (state->size > size + (size > SLACK ? SLACK : 0))
            break;
        if (in->used[i])
            continue;
        in->used[i] = true;
        uint32_t born = build_born(b, state, state->size, phase, KIND_STATE);
        *(state->kind == KIND_REQUEST ? &in->twin : &b->now[in->states[i]]) = born;
        made++;
    }
    for (; made < in->wanted; made++)
        build_born(b, like, size, phase, KIND_STATE);
}

static void update_and_free(struct build *b, uint32_t block, uint16_t phase, struct in_backward *in)
{
    struct edit_block like = b->to.blocks[block];
    in->twin = BLOCK_NEVER;
    bear_states(b, in, &like, phase);
    if ((in->temporaries && (in->adam || in->high)) || (in->unstepped && in->high)) {
        uint32_t root = build_born(b, &like, like.size, phase, KIND_UPDATE);
        uint32_t more = in->adam ? BLOCK_NEVER : build_born(b, &like, like.size, phase, KIND_UPDATE);
        uint32_t quotient = build_born(b, &like, like.size, phase, KIND_UPDATE);
        build_died(b, root, phase);
        build_died(b, more, phase);
        build_died(b, quotient, phase);
    }
    build_died(b, in->twin, phase);
    build_died(b, block, phase);
}

static void flush(struct build *b, struct pending *p, struct in_backward *in)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->block[i] != BLOCK_NEVER)
            update_and_free(b, p->block[i], b->from->facts->backward, in);
    p->n = 0;
}

/* Whether event I is left out: what an optimizer's step behind backward does. */
static bool is_behind(const struct build *b, size_t i)
{
    const struct trace_moment *e = &b->from->events[i];
    if (e->what == MOMENT_STEP || e->what == MOMENT_REFUSED || e->what == MOMENT_PHASE)
        return false;
    enum edit_kind kind = program_kind(&b->from->blocks[e->block]);
    return kind == KIND_UPDATE ||
           (kind == KIND_STATE && e->what == MOMENT_BORN && b->now[e->block] != BLOCK_NEVER);
}

struct program apply_gradients(const struct program *from, const struct edit *e, struct edit_result *r,
                               bool high)
{
    (void)e;
    struct build b;
    struct pending p = {.n = 0};
    struct in_backward in = {.high = high};
    if (!needs_steps(from, r) || !needs_roles(from, r) || !has_gradients(from, r))
        return (struct program){0};
    if (is_replaced(from))
        return refuse(r, "the optimizer makes its states anew at each step: vramscope fit runs the changed "
                         "program");
    find_states(from, &in);
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i++) {
        if (node_done(from, i, &p))
            flush(&b, &p, &in);
        if (is_gradient_born(from, i))
            hold(&b, i, &p);
        else if (!is_behind(&b, i))
            build_copy(&b, i);
    }
    flush(&b, &p, &in);
    r->moves = true;
    r->assumes = xformat("nothing else reads all gradients at once%s",
                         !in.first        ? ""
                         : in.wanted == 2 ? "; the first step makes two states of each parameter, as Adam's"
                                          : "; the first step makes at most two states of each parameter");
    free(p.block);
    free(in.states);
    free(in.used);
    return build_end(&b);
}

/* ---- kept ---- */

/* Stacks of which a kept gradient is; each with how many steps the gradient of a step lives. */
static bool *kept_stacks(const struct program *from, bool *any)
{
    bool *kept = xrealloc(NULL, from->facts->stack_count + 1);
    uint32_t *step = program_steps(from), now = step[from->event_count];
    memset(kept, 0, from->facts->stack_count + 1);
    *any = false;
    for (size_t i = 0; i < from->block_count; i++) {
        const struct edit_block *b = &from->blocks[i];
        uint32_t end = b->died == BLOCK_NEVER ? now : step[b->died];
        if (b->kind == KIND_GRADIENT && end >= step[b->born] + 2 && b->stack < from->facts->stack_count)
            *any = kept[b->stack] = true;
    }
    free(step);
    return kept;
}

/* A block that is added to a kept gradient, and freed: it becomes the gradient. */
static bool is_added(const struct program *p, const struct trace_moment *e, const bool *kept)
{
    const struct edit_block *b = &p->blocks[e->block];
    return b->kind == KIND_BACKWARD && b->stack < p->facts->stack_count && kept[b->stack];
}

static struct program free_gradients(const struct program *from, const bool *kept)
{
    struct build b;
    uint32_t *living = NULL;
    size_t n = 0;
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i++) {
        const struct trace_moment *e = &from->events[i];
        if (e->what == MOMENT_STEP) {
            for (size_t k = 0; k < n; k++)
                build_died(&b, living[k], 0);
            n = 0;
        }
        bool block = e->what == MOMENT_BORN || e->what == MOMENT_DIED;
        bool added = block && is_added(from, e, kept);
        if (added && e->what == MOMENT_DIED)
            continue;
        build_copy(&b, i);
        if (e->what == MOMENT_BORN && (added || is_gradient_born(from, i)))
            *PUSH(living, n) = b.now[e->block];
    }
    free(living);
    return build_end(&b);
}

struct program apply_set_to_none(const struct program *from, const struct edit *e, struct edit_result *r,
                                 bool high)
{
    (void)e;
    (void)high;
    bool any;
    if (!needs_steps(from, r) || !needs_roles(from, r) || !has_gradients(from, r))
        return (struct program){0};
    if (from->facts->steps < 1)
        return refuse(r, "the recording has no whole step: record one to its end");
    bool *kept = kept_stacks(from, &any);
    struct program to =
        any ? free_gradients(from, kept) : refuse_nothing(r, "gradients are freed after each step already");
    free(kept);
    return to;
}
