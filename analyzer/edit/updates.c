/*
 * updates.c - see updates.h.
 *
 * Within a step one call stack makes as many blocks of a size for each parameter of that size.  The
 * parameters' blocks come one after the other, whether the optimizer goes through its parameters or through
 * lists of all:
 *
 *      one by one   a1 b1 -a1 a2 b2 -a2     stack a made a1 a2, stack b b1 b2:
 *      in lists     a1 a2 b1 b2 -a1 -a2     a1 b1 -a1 are the first parameter's, a2 b2 -a2 the second's
 *
 * A block's death is its parameter's, in later steps, too.  States that were there before the
 * first recorded step are dealt in the order in which they are freed.
 */
#include "updates.h"

#include <stdlib.h>
#include <string.h>

#define SMALL    (UINT64_C(1) << 20) /* what fits no parameter, and is less, stays where it is */
#define NO_TURN  UINT32_MAX
#define NO_STACK UINT32_MAX

/* Blocks of a step that are dealt together: those of one size from one stack.  With NO_STACK they are the
 * states of one size that the step frees and no step made. */
struct share {
    uint64_t size;
    uint32_t stack, event;
};

struct dealing {
    const struct program *p;
    struct updates *out;
    struct sizes gradients; /* the step's */
    struct share *shares;
    size_t share_count;
    uint32_t *turn; /* by block */
};

static bool in_optimizer(const struct program *p, const struct trace_moment *e)
{
    return (e->what == MOMENT_BORN || e->what == MOMENT_DIED) && e->phase == p->facts->optimizer;
}

static bool is_update(const struct edit_block *b)
{
    return b->kind == KIND_STATE || b->kind == KIND_UPDATE;
}

static int by_share(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static int by_turn(const void *a, const void *b)
{
    const struct update_event *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    if (x->turn != y->turn)
        return x->turn < y->turn ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static size_t gradients_of(const struct dealing *d, uint64_t size)
{
    return sizes_from(&d->gradients, size + 1) - sizes_from(&d->gradients, size);
}

/* The shares from FIRST to END, of one size and stack, in turn.  False: not as many for each parameter. */
static bool deal(struct dealing *d, size_t first, size_t end)
{
    size_t parameters = gradients_of(d, d->shares[first].size), n = end - first;
    if (!parameters || n % parameters)
        return d->shares[first].size * n < SMALL;
    for (size_t i = first; i < end; i++)
        d->turn[d->p->events[d->shares[i].event].block] = (uint32_t)((i - first) / (n / parameters));
    return true;
}

static bool deal_all(struct dealing *d)
{
    size_t first = 0;
    if (d->share_count)
        qsort(d->shares, d->share_count, sizeof *d->shares, by_share);
    for (size_t i = 1; i <= d->share_count; i++) {
        if (i < d->share_count && d->shares[i].size == d->shares[first].size &&
            d->shares[i].stack == d->shares[first].stack)
            continue;
        if (!deal(d, first, i))
            return false;
        first = i;
    }
    return d->share_count > 0;
}

/* The step's events from FIRST to END, once its blocks are dealt. */
static void take(struct dealing *d, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const struct trace_moment *e = &d->p->events[i];
        if (!in_optimizer(d->p, e) || d->turn[e->block] == NO_TURN)
            continue;
        *PUSH(d->out->at, d->out->n) = (struct update_event){.size = d->p->blocks[e->block].size,
                                                             .step = d->out->step[i],
                                                             .turn = d->turn[e->block],
                                                             .event = (uint32_t)i};
        d->out->moved[i] = true;
    }
}

static void see(struct dealing *d, size_t i)
{
    const struct trace_moment *e = &d->p->events[i];
    if (e->what != MOMENT_BORN && e->what != MOMENT_DIED)
        return;
    const struct edit_block *b = &d->p->blocks[e->block];
    if (e->what == MOMENT_BORN && b->kind == KIND_GRADIENT && e->phase == d->p->facts->backward)
        *PUSH(d->gradients.at, d->gradients.n) = b->size;
    if (!in_optimizer(d->p, e) || !is_update(b))
        return;
    bool born = e->what == MOMENT_BORN;
    bool own = d->out->step[b->born] == d->out->step[i] && in_optimizer(d->p, &d->p->events[b->born]);
    if (born || (b->kind == KIND_STATE && d->turn[e->block] == NO_TURN && !own))
        *PUSH(d->shares, d->share_count) = (struct share){b->size, born ? b->stack : NO_STACK, (uint32_t)i};
}

static void end_step(struct dealing *d, size_t first, size_t end)
{
    sizes_sort(&d->gradients);
    if (deal_all(d))
        take(d, first, end);
    d->gradients.n = d->share_count = 0;
}

struct updates updates_find(const struct program *p)
{
    struct updates u = {.moved = xrealloc(NULL, p->event_count + 1), .step = program_steps(p)};
    struct dealing d = {.p = p, .out = &u, .turn = xrealloc(NULL, (p->block_count + 1) * sizeof *d.turn)};
    size_t first = 0;
    memset(u.moved, 0, p->event_count + 1);
    memset(d.turn, 0xff, (p->block_count + 1) * sizeof *d.turn);
    for (size_t i = 0; i < p->event_count; i++) {
        see(&d, i);
        if (p->events[i].what == MOMENT_STEP) {
            end_step(&d, first, i);
            first = i + 1;
        }
    }
    if (u.n)
        qsort(u.at, u.n, sizeof *u.at, by_turn);
    free(d.gradients.at);
    free(d.shares);
    free(d.turn);
    return u;
}

void updates_free(struct updates *u)
{
    free(u->at);
    free(u->moved);
    free(u->step);
    *u = (struct updates){.at = NULL};
}

const struct update_event *updates_of(const struct updates *u, size_t event, uint64_t size, uint32_t turn,
                                      size_t *n)
{
    const struct update_event key = {size, u->step[event], turn, 0};
    size_t low = 0, high = u->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_turn(&u->at[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (*n = 0; low + *n < u->n; ++*n) {
        const struct update_event *e = &u->at[low + *n];
        if (e->step != key.step || e->size != size || e->turn != turn)
            break;
    }
    return u->at + low;
}
