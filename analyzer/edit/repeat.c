/*
 * repeat.c - several forwards and backwards for one step of the optimizer.
 *
 *      recorded   | inputs forward backward | optimizer |
 *      N batches  | inputs forward backward | inputs forward backward | ... | optimizer |
 *
 * Not repeated are the setup before the program's first forward, and an evaluation before a step's forward.
 * The gradients of the first batch live on; those of the others are added to them and freed.  From the third
 * on nothing changes any more, so no more than three are replayed.
 */
#include <stdlib.h>
#include <string.h>

#include "apply.h"

#define REPLAYED 3

struct region {                    /* of one step: events [from, to) are what is repeated */
    size_t from, forward, to, end; /* end: behind the step's last event */
    bool setup;                    /* the program's first step */
    int passes;                    /* that the recording has: forwards that follow a backward, and one */
};

/* Where the batch of the step from event I on was made: a step may count as begun with its forward. */
static size_t find_inputs(const struct program *p, size_t i)
{
    while (i > 0 && !p->events[i - 1].phase)
        i--;
    return i;
}

/* The step that begins with event I; its end in *NEXT. */
static struct region find_region(const struct program *p, size_t i, size_t *next)
{
    const struct edit_facts *f = p->facts;
    struct region r = {.from = find_inputs(p, i), .forward = SIZE_MAX, .setup = i == 0};
    bool back = false;
    for (; i < p->event_count && p->events[i].what != MOMENT_STEP; i++) {
        uint16_t phase = p->events[i].phase;
        if (program_is_forward(f, phase)) {
            r.passes += r.forward == SIZE_MAX || back;
            r.forward = r.forward == SIZE_MAX ? i : r.forward;
            back = false;
        } else if (phase && phase == f->backward && r.forward != SIZE_MAX) {
            r.to = i + 1;
            back = true;
        } else if (phase && (phase == f->optimizer || phase == f->evaluation) && r.forward == SIZE_MAX) {
            r.from = i + 1;
        }
    }
    *next = r.end = i < p->event_count ? i + 1 : i;
    return r;
}

struct copying {
    struct build *b;
    const struct region *region;
    uint32_t *copy; /* of blocks born in the region, by number less that of the first */
    uint32_t first, count;
    uint32_t *left; /* alive behind a copy, which the next one frees */
    size_t left_count;
    uint32_t *gradients; /* of the node that runs */
    size_t gradient_count;
    uint32_t stack;
};

static void free_gradients(struct copying *c, uint16_t phase)
{
    for (size_t i = 0; i < c->gradient_count; i++)
        build_died(c->b, c->gradients[i], phase);
    c->gradient_count = 0;
}

static void free_left(struct copying *c, uint16_t phase)
{
    for (size_t i = 0; i < c->left_count; i++)
        build_died(c->b, c->left[i], phase);
    c->left_count = 0;
}

static void copy_event(struct copying *c, size_t i)
{
    const struct program *p = c->b->from;
    const struct trace_moment *e = &p->events[i];
    if (e->what != MOMENT_BORN && e->what != MOMENT_DIED)
        return;
    const struct edit_block *was = &p->blocks[e->block];
    bool gradient = was->kind == KIND_GRADIENT && e->phase == p->facts->backward;
    if (c->gradient_count && e->what == MOMENT_BORN && was->stack != c->stack)
        free_gradients(c, p->facts->backward);
    if (was->born < c->region->from)
        return; /* it was freed the first time */
    if (c->region->setup && was->died < c->region->forward)
        return;
    if (was->kind == KIND_PARAMETER || was->kind == KIND_STATE || was->kind == KIND_BUFFER)
        return;
    if (was->kind == KIND_OTHER && (was->died == BLOCK_NEVER || was->died >= c->region->end))
        return; /* a workspace, which is there by now, or what a variable holds until the next batch */
    uint32_t *copy = &c->copy[e->block - c->first];
    if (e->what == MOMENT_DIED) {
        build_died(c->b, *copy, e->phase);
        return;
    }
    *copy = build_born(c->b, was, was->size, e->phase, gradient ? KIND_BACKWARD : was->kind);
    if (gradient && *copy != BLOCK_NEVER) {
        *PUSH(c->gradients, c->gradient_count) = *copy;
        c->stack = was->stack;
    }
}

/* What the copy that was just made leaves alive; the next one frees it. */
static void note_left(struct copying *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->copy[i] != BLOCK_NEVER && c->b->to.blocks[c->copy[i]].died == BLOCK_NEVER)
            *PUSH(c->left, c->left_count) = c->copy[i];
}

static void repeat(struct build *b, const struct region *region, int64_t times)
{
    const struct program *p = b->from;
    struct copying c = {.b = b, .region = region, .first = BLOCK_NEVER};
    uint32_t last = 0;
    for (size_t i = region->from; i < region->to; i++)
        if (p->events[i].what == MOMENT_BORN) {
            c.first = c.first == BLOCK_NEVER ? p->events[i].block : c.first;
            last = p->events[i].block + 1;
        }
    if (c.first == BLOCK_NEVER)
        return;
    c.count = last - c.first;
    c.copy = xrealloc(NULL, c.count * sizeof *c.copy);
    for (int64_t k = 1; k < times; k++) {
        memset(c.copy, 0xff, c.count * sizeof *c.copy);
        for (size_t i = region->from; i < region->to; i++) {
            if (i == region->forward)
                free_left(&c, p->events[i].phase);
            copy_event(&c, i);
        }
        free_gradients(&c, p->facts->backward);
        note_left(&c);
    }
    free_left(&c, 0);
    free(c.copy);
    free(c.left);
    free(c.gradients);
}

struct program apply_accumulate(const struct program *from, const struct edit *e, struct edit_result *r,
                                bool high)
{
    (void)high;
    struct build b;
    size_t next;
    if (!needs_steps(from, r) || !needs_roles(from, r))
        return (struct program){0};
    if (!from->facts->steps)
        return refuse(r, "the recording has no whole step: record one to its end");
    for (size_t i = 0; i < from->event_count; i = next) {
        struct region region = find_region(from, i, &next);
        if (region.passes > 1)
            return refuse(r, "the recording has steps of %d forwards and backwards already", region.passes);
    }
    build_begin(&b, from);
    for (size_t i = 0; i < from->event_count; i = next) {
        struct region region = find_region(from, i, &next);
        for (; i < next; i++) {
            build_copy(&b, i);
            if (region.forward != SIZE_MAX && i + 1 == region.to)
                repeat(&b, &region, e->n < REPLAYED ? e->n : REPLAYED);
        }
    }
    r->moves = true;
    r->assumes = xstrdup("each of the batches is as large as the recorded one");
    return build_end(&b);
}
