/*
 * surplus.c - what is given back to the device unasked, so that others can have it.
 *
 * A training loop's idle memory swings with every step, and giving back what the next step needs again would
 * cost it far more than it helps anyone.  So what counts is the least that was idle in a window of many
 * frees: nobody needed that.  What of it is above the threshold goes, a part at each look, so that no free
 * takes long.
 *
 * A program may repeat itself more slowly than the window is long.  Then what was given back is created anew;
 * each window in which that happens doubles its length, and so a loop of any length comes to need no call.
 */
#include "internal.h"

#define WINDOW  65536u /* frees */
#define LONGEST (1u << 30)
#define LOOKS   16  /* in a window */
#define AT_ONCE 256 /* chunks at a look */

void vs_surplus_begin(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    s->window = a->config.trim_window ? a->config.trim_window : WINDOW;
    s->left = s->window / LOOKS + 1;
}

static uint64_t beyond(const struct vs_arena *a, uint64_t chunks)
{
    uint64_t keep = a->config.trim_above >> a->shift;
    return chunks > keep ? chunks - keep : 0;
}

static void end_window(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    if (s->regretted && s->window < LONGEST)
        s->window *= 2;
    s->regretted = false;
    s->spare = beyond(a, s->least);
    s->least = a->idle;
    s->looks = 0;
}

static void give_some(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    uint64_t some = s->spare < AT_ONCE || !RULE(AT_ONCE) ? s->spare : AT_ONCE, idle = a->idle;
    for (uint32_t i = 1; i < QUEUES; i++)
        if (a->queue[i].freed > a->queue[i].recorded)
            vs_order_record(a, i); /* so that at the next look what is free now is known to be complete */
    vs_synchronize_poll(a, NIL);
    vs_supply_give_back(a, a->idle > some ? a->idle - some : 0);
    uint64_t given = idle > a->idle ? idle - a->idle : 0;
    s->spare = given ? s->spare - some : 0; /* nothing more can be given back now */
    s->least -= given < s->least ? given : s->least;
    s->given += given;
}

void vs_surplus_look(struct vs_arena *a)
{
    struct surplus *s = &a->surplus;
    uint64_t now = beyond(a, s->least);
    s->left = s->window / LOOKS + 1;
    if (++s->looks >= LOOKS)
        end_window(a);
    else if (s->spare > now)
        s->spare = now; /* some of it is needed by now */
    if (s->spare && a->config.trim_above != UINT64_MAX)
        give_some(a);
}
