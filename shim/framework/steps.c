/*
 * steps.c - finds where one training step ends and the next begins.
 *
 * A step ends where a forward begins, if the optimizer that is predicted to come next has stepped in it
 * already; at the latest it ends at an optimizer's second step.  So with one optimizer each iteration is a
 * step, and a GAN's two optimizers make one step together.  The work before that forward (setting gradients
 * to None, a scheduler) is still part of the step.
 *
 * Optimizers are known by their addresses.  The table never grows: where it is full it is begun anew, which
 * is a wrong prediction.
 */
#include <string.h>

#include "phases.h"

enum { OPTIMIZERS = 4096, MOST_OPTIMIZERS = OPTIMIZERS / 4 * 3 };

struct optimizer {
    uintptr_t id;        /* 0: this place was never used */
    uintptr_t following; /* the one that stepped after it the last time; 0: none did */
    uint32_t made;       /* not 0: the order in which it was made, and it has not stepped yet */
    uint32_t stepped;    /* in the step of this number (steps.number) */
};

static struct optimizer optimizers[OPTIMIZERS];
static struct {
    uintptr_t last;  /* that stepped; 0: none did */
    uint32_t places; /* that were used */
    uint32_t number; /* of the present step, less one */
    uint32_t here;   /* optimizers' steps in it */
    uint32_t count;  /* optimizers' steps so far */
    uint32_t made;   /* optimizers so far */
} steps_now;

static struct optimizer *place_of_optimizer(uintptr_t id)
{
    uint64_t at = (id >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (optimizers[at % OPTIMIZERS].id && optimizers[at % OPTIMIZERS].id != id)
        at++;
    return &optimizers[at % OPTIMIZERS];
}

static struct optimizer *optimizer_of(uintptr_t id)
{
    struct optimizer *o = place_of_optimizer(id);
    if (o->id)
        return o;
    if (steps_now.places == MOST_OPTIMIZERS) {
        memset(optimizers, 0, sizeof optimizers);
        steps_now.places = 0;
        o = place_of_optimizer(id);
    }
    steps_now.places++;
    o->id = id;
    return o;
}

static bool has_stepped(uintptr_t id)
{
    const struct optimizer *o = place_of_optimizer(id);
    return o->id && o->stepped == steps_now.number + 1;
}

/* The oldest optimizer that has not stepped yet; 0: all have. */
static uintptr_t oldest_made(void)
{
    const struct optimizer *oldest = NULL;
    for (const struct optimizer *o = optimizers; o < optimizers + OPTIMIZERS; o++)
        if (o->made && (!oldest || o->made < oldest->made))
            oldest = o;
    return oldest ? oldest->id : 0;
}

void vs_steps_made(uintptr_t optimizer)
{
    struct optimizer *o = optimizer_of(optimizer);
    if (!o->made)
        o->made = ++steps_now.made;
}

void vs_steps_gone(uintptr_t optimizer)
{
    place_of_optimizer(optimizer)->made = 0;
}

void vs_steps_stepped(uintptr_t optimizer)
{
    struct optimizer *o = optimizer_of(optimizer);
    if (steps_now.last)
        optimizer_of(steps_now.last)->following = optimizer;
    o = place_of_optimizer(optimizer);
    o->made = 0;
    o->stepped = steps_now.number + 1;
    steps_now.last = optimizer;
    steps_now.here++;
    steps_now.count++;
}

/* The forward comes before the optimizer's second step, so the next optimizer is predicted: the one that
 * followed the present one last time, and at first the oldest that has not stepped yet.  If that is wrong the
 * step ends at the second step itself, or one step too many ends; the next one is right. */
bool vs_steps_end_at_forward(void)
{
    if (!steps_now.here)
        return false;
    uintptr_t next = place_of_optimizer(steps_now.last)->following;
    if (!next)
        next = oldest_made();
    return has_stepped(next ? next : steps_now.last);
}

bool vs_steps_end_at_optimizer(uintptr_t optimizer)
{
    return steps_now.here && has_stepped(optimizer);
}

bool vs_steps_due(void)
{
    return steps_now.here > 0;
}

void vs_steps_forget(void)
{
    steps_now.number++;
    steps_now.here = 0;
}

uint32_t vs_steps_count(void)
{
    return steps_now.count;
}
