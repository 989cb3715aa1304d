/* habit.c - see habit.h. */
#include "habit.h"

#define ENOUGH 2u  /* long gaps in which it went */
#define BEHIND 16u /* this part of the longest gap has passed since its last use: that one is over */
#define STEP   64u /* blocks may go later by this part of it, so that one search finds several */

static uint64_t due[VS_SERVED_DEVICES]; /* no block is searched for before this work */

static uint64_t longest(const struct vs_watched *w)
{
    return vs_forecast_longest(&w->forecast);
}

void vs_habit_went(struct vs_watched *w, uint8_t ahead)
{
    w->went = true;
    w->ahead = ahead;
}

/* Work LAST is W's last use so far. */
static void await(const struct vs_watched *w, uint64_t last)
{
    uint64_t *first = &due[w->s - vs_served], over = last + longest(w) / BEHIND + 1,
             step = longest(w) / STEP + 1;
    over += step - over % step;
    if (w->habit >= ENOUGH && over < *first)
        *first = over;
}

static void note_gap(struct vs_watched *w, uint64_t now)
{
    if (now < w->forecast.last || now - w->forecast.last <= longest(w) / 2)
        return;
    w->habit = w->went ? (uint8_t)(w->habit + (w->habit < ENOUGH)) : 0;
    w->went = false;
    w->ahead = 0;
}

void vs_habit_used(struct vs_watched *w, uint64_t now)
{
    note_gap(w, now);
    await(w, now);
}

uint64_t vs_habit_due(const struct vs_served *s)
{
    return due[s - vs_served];
}

bool vs_habit_back(struct vs_watched *w, uint64_t spare)
{
    bool idle = w->ahead != 0 && spare >= w->size;
    if (idle)
        w->habit = 0;
    return idle;
}

/* Whether W, whose habit it is, goes now; if it is too early for that, it is due later. */
static bool goes(const struct vs_watched *w, uint64_t now, uint64_t oldest, uint64_t *next)
{
    bool known;
    if (w->work >= oldest || now - w->forecast.last <= longest(w) / BEHIND) {
        await(w, w->work >= oldest ? now : w->forecast.last);
        return false;
    }
    *next = vs_forecast_next(&w->forecast, now, &known);
    return known && *next > longest(w) / 2;
}

struct vs_ranking *vs_habit_going(const struct vs_served *s, uint64_t now, uint64_t oldest)
{
    struct vs_ranking *going = vs_ranking_begin();
    uint64_t next;
    due[s - vs_served] = UINT64_MAX;
    VS_WATCHED_EACH(w)
    if (w->habit >= ENOUGH && w->s == s && !w->parked && !w->stored && !w->went &&
        goes(w, now, oldest, &next))
        vs_ranking_add(going, (struct vs_ranked){~next, 0, w});
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
