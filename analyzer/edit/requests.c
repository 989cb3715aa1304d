/*
 * requests.c - what the program asked for, where the recording has the size of the block alone.
 *
 * PyTorch's native allocator splits no rest of 1 MiB or less off a large block, and then says that the block
 * is as large as request and rest together.  Another allocator has another rest, so the request is sought.  A
 * program that repeats itself asks for the same at the same place of each step: what it asked for is the
 * least that it got there.
 *
 *      step 2   line 17, third block   12.0 MiB       a whole segment was at hand
 *      step 3   line 17, third block   11.0 MiB       a larger one, which was split
 *
 * Parameters and states are made once.  They are as large as a gradient, or as what the optimizer makes for
 * them, if one of these is 1 MiB smaller at the most.  Where steps differ in their data only those are
 * sought.
 */
#include "requests.h"

#include <stdlib.h>
#include <string.h>

#define REST  (UINT64_C(1) << 20)
#define LARGE (UINT64_C(1) << 20)

struct places {      /* the blocks of a step by their call stack, and there by their order */
    uint32_t *most;  /* by stack: of a step that has the most blocks of it */
    size_t *first;   /* by stack: index into least */
    uint64_t *least; /* of the steps that have as many */
    size_t count;
};

struct seeking {
    struct program *p;
    uint32_t *now;   /* by stack: blocks in this step */
    uint32_t *step;  /* by stack: the step that `now` is of */
    uint32_t *whole; /* of each step and stack that has as many as the most: see mark */
    struct places places;
};

static uint32_t stack_of(const struct program *p, const struct trace_moment *e)
{
    uint32_t stack = p->blocks[e->block].stack;
    return stack < p->facts->stack_count ? stack : 0;
}

/* The order of event E among those of its stack in step STEP, from 0. */
static uint32_t order_of(struct seeking *s, uint32_t stack, uint32_t step)
{
    if (s->step[stack] != step) {
        s->step[stack] = step;
        s->now[stack] = 0;
    }
    return s->now[stack]++;
}

static void forget_orders(struct seeking *s)
{
    memset(s->step, 0xff, s->p->facts->stack_count * sizeof *s->step);
}

static void count_places(struct seeking *s)
{
    uint32_t step = 0;
    forget_orders(s);
    for (size_t i = 0; i < s->p->event_count; i++) {
        const struct trace_moment *e = &s->p->events[i];
        step += e->what == MOMENT_STEP;
        if (e->what != MOMENT_BORN)
            continue;
        uint32_t stack = stack_of(s->p, e), n = order_of(s, stack, step) + 1;
        s->places.most[stack] = n > s->places.most[stack] ? n : s->places.most[stack];
    }
    for (size_t k = 0; k < s->p->facts->stack_count; k++) {
        s->places.first[k] = s->places.count;
        s->places.count += s->places.most[k];
    }
    s->places.least = xrealloc(NULL, (s->places.count + 1) * sizeof *s->places.least);
    memset(s->places.least, 0xff, (s->places.count + 1) * sizeof *s->places.least);
}

/* How many blocks of each stack the step from event I on has, into s->whole, which is all zeros. */
static size_t count_step(struct seeking *s, size_t i)
{
    for (; i < s->p->event_count && s->p->events[i].what != MOMENT_STEP; i++)
        if (s->p->events[i].what == MOMENT_BORN)
            s->whole[stack_of(s->p, &s->p->events[i])]++;
    return i;
}

/* Zeros again: there may be far more stacks than a step has blocks. */
static void forget_step(struct seeking *s, size_t i, size_t end)
{
    for (; i < end; i++)
        if (s->p->events[i].what == MOMENT_BORN)
            s->whole[stack_of(s->p, &s->p->events[i])] = 0;
}

typedef void place_visit(struct seeking *s, struct edit_block *b, uint64_t *least);

/* Every block at a place that all steps with as many blocks of the stack have. */
static void each_place(struct seeking *s, place_visit *visit)
{
    struct program *p = s->p;
    uint32_t step = 0;
    forget_orders(s);
    for (size_t i = 0; i < p->event_count;) {
        size_t from = i, end = count_step(s, i);
        for (; i < end; i++) {
            const struct trace_moment *e = &p->events[i];
            if (e->what != MOMENT_BORN)
                continue;
            uint32_t stack = stack_of(p, e), n = order_of(s, stack, step);
            if (stack && s->whole[stack] == s->places.most[stack])
                visit(s, &p->blocks[e->block], &s->places.least[s->places.first[stack] + n]);
        }
        forget_step(s, from, end);
        i = end + 1;
        step++;
    }
}

static void find_least(struct seeking *s, struct edit_block *b, uint64_t *least)
{
    (void)s;
    *least = b->size < *least ? b->size : *least;
}

static bool is_data(enum edit_kind kind)
{
    return kind == KIND_SAVED || kind == KIND_FORWARD || kind == KIND_BACKWARD || kind == KIND_LOGITS ||
           kind == KIND_OTHER;
}

/* The request is recorded, and is the block's size here. */
static bool is_known(const struct program *p, const struct edit_block *b)
{
    const struct asked *asked = program_asked(p, b);
    return asked->bytes > 0 || asked->sized;
}

static void take_least(struct seeking *s, struct edit_block *b, uint64_t *least)
{
    if (!is_known(s->p, b) && b->size > LARGE && *least < b->size && b->size - *least <= REST &&
        *least > LARGE)
        b->size = *least;
}

static void take_least_if_static(struct seeking *s, struct edit_block *b, uint64_t *least)
{
    if (!is_data((enum edit_kind)b->kind))
        take_least(s, b, least);
}

/* Whether the data of all steps but the first and the last have about the same size. */
static bool steps_are_alike(const struct program *p)
{
    uint64_t bytes = 0, least = UINT64_MAX, most = 0;
    uint32_t step = 0;
    for (size_t i = 0; i < p->event_count; i++) {
        const struct trace_moment *e = &p->events[i];
        if (e->what == MOMENT_BORN && is_data((enum edit_kind)p->blocks[e->block].kind))
            bytes += p->blocks[e->block].size;
        if (e->what != MOMENT_STEP)
            continue;
        if (step++ > 0) {
            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
        }
        bytes = 0;
    }
    return step > 2 && most - least <= most / 50;
}

/* ---- what is made once ---- */

static void shrink_static(struct program *p, const struct sizes *s)
{
    for (size_t i = 0; i < p->block_count && s->n; i++) {
        struct edit_block *b = &p->blocks[i];
        if (is_data((enum edit_kind)b->kind) || b->size <= LARGE || is_known(p, b))
            continue;
        size_t larger = sizes_from(s, b->size + 1);
        if (larger > 0 && b->size - s->at[larger - 1] <= REST)
            b->size = s->at[larger - 1];
    }
}

void requests_estimate(struct program *p)
{
    size_t n = p->facts->stack_count;
    struct seeking s = {.p = p};
    s.now = xrealloc(NULL, n * sizeof *s.now);
    s.step = xrealloc(NULL, n * sizeof *s.step);
    s.whole = xrealloc(NULL, n * sizeof *s.whole);
    s.places.most = xrealloc(NULL, n * sizeof *s.places.most);
    s.places.first = xrealloc(NULL, n * sizeof *s.places.first);
    memset(s.whole, 0, n * sizeof *s.whole);
    memset(s.places.most, 0, n * sizeof *s.places.most);
    count_places(&s);
    each_place(&s, find_least);
    each_place(&s, steps_are_alike(p) ? take_least : take_least_if_static);
    struct sizes likely = program_sizes(p, 1u << KIND_UPDATE | 1u << KIND_GRADIENT, LARGE);
    shrink_static(p, &likely);
    free(likely.at);
    free(s.now);
    free(s.step);
    free(s.whole);
    free(s.places.most);
    free(s.places.first);
    free(s.places.least);
}
