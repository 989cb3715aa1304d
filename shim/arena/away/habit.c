/* habit.c - see habit.h. */
#include "habit.h"

#define ENOUGH 2u  /* long gaps in which it went */
#define BEHIND 16u /* this part of the longest gap has passed since its last use: that one is over */

static uint64_t longest(const struct vs_watched *w)
{
    return vs_forecast_longest(&w->forecast);
}

void vs_habit_went(struct vs_watched *w, uint8_t ahead)
{
    w->went = true;
    w->ahead = ahead;
}

void vs_habit_used(struct vs_watched *w, uint64_t now)
{
    if (now < w->forecast.last || now - w->forecast.last <= longest(w) / 2)
        return;
    w->habit = w->went ? (uint8_t)(w->habit + (w->habit < ENOUGH)) : 0;
    w->went = false;
    w->ahead = 0;
}

bool vs_habit_back(struct vs_watched *w, uint64_t spare)
{
    bool idle = w->ahead != 0 && spare >= w->size;
    if (idle)
        w->habit = 0;
    return idle;
}

static bool goes(const struct vs_watched *w, const struct vs_served *s, uint64_t now, uint64_t oldest,
                 uint32_t tries)
{
    bool may =
        w->habit >= ENOUGH && w->s == s && !w->parked && !w->went && w->work < oldest && w->tries != tries;
    return may && now - w->forecast.last > longest(w) / BEHIND;
}

struct vs_watched *vs_habit_next(const struct vs_served *s, uint64_t now, uint64_t oldest, uint32_t tries)
{
    struct vs_watched *last = NULL;
    uint64_t farthest = 0;
    VS_WATCHED_EACH(w)
    {
        bool known;
        uint64_t next = goes(w, s, now, oldest, tries) ? vs_forecast_next(&w->forecast, now, &known) : 0;
        if (next > farthest && known && next > longest(w) / 2) {
            farthest = next;
            last = w;
        }
    }
    return last;
}

bool vs_habit_lets(const struct vs_watched *w, uint64_t next)
{
    return w->ahead == 0 || next <= longest(w) / 2;
}
