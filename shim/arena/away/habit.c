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

struct vs_ranking *vs_habit_going(const struct vs_served *s, uint64_t now, uint64_t oldest)
{
    struct vs_ranking *going = vs_ranking_begin();
    VS_WATCHED_EACH(w)
    if (w->habit >= ENOUGH && w->s == s && !w->parked && !w->stored && !w->went && w->work < oldest &&
        now - w->forecast.last > longest(w) / BEHIND) {
        bool known;
        uint64_t next = vs_forecast_next(&w->forecast, now, &known);
        if (known && next > longest(w) / 2)
            vs_ranking_add(going, (struct vs_ranked){~next, 0, w});
    }
    return going;
}

struct vs_ranking *vs_habit_coming(const struct vs_served *s, uint64_t now, uint64_t room)
{
    struct vs_ranking *coming = vs_ranking_begin();
    VS_WATCHED_EACH(w)
    if (w->parked && !w->freed && !w->undone && w->s == s && w->size <= room) {
        bool known;
        uint64_t next = vs_forecast_next(&w->forecast, now, &known);
        if (known && (w->ahead == 0 || next <= longest(w) / 2))
            vs_ranking_add(coming, (struct vs_ranked){next, 0, w});
    }
    return coming;
}
