/*
 * spill.c - see spill.h.
 *
 * What may come back early is what lay idle all the time through the last requests.  In forward that is next
 * to nothing, in backward it grows.  The program's calls say when that is looked at, no counter that runs on
 * from one round of a loop to the next.  So about the same blocks go and come in each round, and the arena
 * needs fewer new mappings.
 */
#include "spill.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/options.h"
#include "gate.h"
#include "habit.h"
#include "host.h"
#include "park_copy.h"
#include "store.h"

#define RECENT   32u /* requests */
#define PAUSE    4u  /* requests behind a look in which nothing came, and one more for so many blocks: */
#define BLOCKS   256u
#define HEADROOM 64u /* this part of the device is left to small blocks and the driver */
#define MOST     (1ull << 30)
#define CHUNK    1024u        /* this part of it is a chunk at the most */
#define COARSE   (4ull << 20) /* the driver maps so much in less time than the link takes to move it */
#define AT_ONCE  1024u        /* this part of the device goes at least */
#define LAST     UINT_MAX

bool vs_spill_on(void)
{
    static _Atomic int known; /* 1 no, 2 yes; each thread would find the same */
    uint64_t bytes = UINT64_MAX;
    int how = atomic_load_explicit(&known, memory_order_relaxed);
    if (how != 0)
        return how == 2;
    bool on = *vs_options.spill != 0 && strcmp(vs_options.spill, "off") != 0;
    if (on && strcmp(vs_options.spill, "on") != 0)
        on = vs_option_bytes(vs_options.spill, &bytes) && bytes != 0;
    if (on)
        vs_store_limit(bytes);
    atomic_store_explicit(&known, on ? 2 : 1, memory_order_relaxed);
    return on;
}

/* ---- out ---- */

static struct window {
    uint64_t idle[RECENT]; /* at the last requests */
    uint32_t requests, looks;
    uint32_t pause; /* requests */
    /* Idle, the least: since blocks of this kind go ahead of need, and while those of the other one went. One
     * that is away went in one of the two times. */
    uint64_t spare, spare_before;
    bool kind;
} windows[VS_SERVED_DEVICES];
static uint64_t looked; /* the oldest work that a thread looked at when some were to go last */

static void say_first(uint64_t bytes, uint64_t need)
{
    static bool said;
    char went[32], lacked[32];
    vs_host_amount(went, (double)bytes);
    vs_host_amount(lacked, (double)need);
    if (!said)
        vs_log("spill: the device is full and lacks %s: blocks of %s went to the host (%.1f s to lock its "
               "memory), and so on from here; vramscope report has the account",
               lacked, went, (double)vs_store_ns() / 1e9);
    said = true;
}

static void say_cannot(void)
{
    static bool said;
    if (!said)
        vs_log("spill: nothing can go to the host: the driver is older than CUDA 12.5, or the arena has no "
               "queue left for the copies");
    said = true;
}

static void note_idle(struct window *v, uint64_t bytes)
{
    v->idle[v->requests++ % RECENT] = bytes;
}

/* Blocks of S go until BYTES more lie idle, a little more at once than has to be.  False: none went. */
static bool send(struct vs_served *s, struct vs_arena *arena, uint64_t bytes, uint64_t now)
{
    uint64_t before = vs_arena_idle(arena), lies = before;
    bool can = vs_park_copies(s, arena);
    if (!can)
        say_cannot();
    looked = vs_gate_looking();
    if (looked == 0 || !can || !vs_park_fence(s))
        return false;
    uint64_t want = before + (bytes > s->total / AT_ONCE ? bytes : s->total / AT_ONCE);
    vs_forecast_begin(s, looked, now);
    for (struct vs_watched *w; lies < want && (w = vs_forecast_choose(want - lies)) != NULL;) {
        if (!vs_park_out(w))
            continue;
        vs_habit_went(w, 0);
        w->undone = w->early;
        w->early = false;
        lies = vs_arena_idle(arena);
    }
    note_idle(&windows[s - vs_served], 0);
    if (lies > before)
        say_first(lies - before, bytes);
    return lies > before;
}

/* Whether some that went ahead and are of this KIND are not back. */
static bool any_ahead(const struct vs_served *s, uint8_t kind)
{
    VS_WATCHED_EACH(w)
    if (w->ahead == kind && w->parked && w->s == s)
        return true;
    return false;
}

static uint8_t ahead(const struct window *v, bool other)
{
    return v->kind != other ? 2 : 1;
}

/* What has gone in one round after another goes at the beginning of this one. */
static void send_ahead(struct vs_served *s, struct vs_arena *arena, uint64_t now)
{
    struct window *v = &windows[s - vs_served];
    struct vs_ranking *going = vs_habit_going(s, now, vs_gate_looking());
    if (going->count == 0 || !vs_park_copies(s, arena) || !vs_park_fence(s))
        return;
    if (!any_ahead(s, ahead(v, true))) {
        v->spare_before = any_ahead(s, ahead(v, false)) ? v->spare : UINT64_MAX;
        v->kind = !v->kind;
        v->spare = UINT64_MAX;
    }
    for (struct vs_watched *w; (w = vs_ranking_take(going)) != NULL;)
        if (vs_park_out(w))
            vs_habit_went(w, ahead(v, false));
}

/* The headroom is not the arena's.  Memory is needed by what comes back as well as by requests. */
void vs_spill_came_back(struct vs_watched *w)
{
    struct window *v = &windows[w->s - vs_served];
    uint64_t least = v->spare < v->spare_before ? v->spare : v->spare_before, lies = vs_arena_idle(w->arena);
    if (least != UINT64_MAX && vs_habit_back(w, least)) { /* the next one was needed so much more */
        v->spare -= v->spare != UINT64_MAX ? w->size : 0;
        v->spare_before -= v->spare_before != UINT64_MAX ? w->size : 0;
    }
    v->spare = lies < v->spare ? lies : v->spare;
}

bool vs_spill_for(const struct vs_watched *w, uint64_t now)
{
    uint64_t taken = vs_arena_taken(w->arena, w->address);
    return w->parked && taken != 0 && taken != UINT64_MAX && send(w->s, w->arena, taken, now);
}

bool vs_spill_before(const struct vs_watched *w, uint64_t now)
{
    uint64_t taken = w->parked ? vs_arena_taken(w->arena, w->address) : 0,
             lies = taken != 0 ? vs_arena_idle(w->arena) : 0;
    return taken > lies && taken != UINT64_MAX && send(w->s, w->arena, taken - lies, now);
}

static uint64_t share(uint64_t total, uint64_t part, uint64_t most)
{
    uint64_t bytes = total / part < most ? total / part : most;
    return vs_spill_on() ? bytes : 0;
}

uint64_t vs_spill_headroom(uint64_t total)
{
    return share(total, HEADROOM, MOST);
}

uint64_t vs_spill_chunk(uint64_t total)
{
    return share(total, CHUNK, COARSE);
}

/* What nobody needs comes back for nothing where nobody is alive in its chunks. */
static bool settle(struct vs_served *s)
{
    bool any = false;
    if (vs_park_freed == 0)
        return false;
    VS_WATCHED_EACH(w)
    if (w->freed && w->s == s && (!w->parked || vs_arena_taken(w->arena, w->address) == 0) &&
        vs_park_in(w) == 0) {
        vs_park_forget(w);
        any = true;
    }
    return any;
}

/* Whether a block could go if it was not for work that other threads look at. */
static bool some_are_looked_at(const struct vs_served *s)
{
    VS_WATCHED_EACH(w)
    if (w->s == s && !w->parked && !w->freed && !w->stored && w->work >= looked)
        return true;
    return false;
}

enum vs_spill_answer vs_spill_refused(struct vs_served *s, struct vs_arena *arena, uint64_t size,
                                      uint64_t now, unsigned *tries)
{
    uint64_t chunk = s->cuda.chunk, need = (size + chunk - 1) & ~(chunk - 1), lies = vs_arena_idle(arena);
    vs_arena_headroom(arena, vs_spill_headroom(s->total));
    if (*tries == LAST)
        return VS_SPILL_NO;
    if (++*tries == 1 && settle(s))
        return VS_SPILL_AGAIN;
    if (send(s, arena, *tries <= 2 && lies < need ? need - lies : need, now))
        return VS_SPILL_AGAIN;
    if (*tries < VS_SPILL_HURRY && (some_are_looked_at(s) || vs_store_gives(s)))
        return VS_SPILL_LATER;
    vs_arena_headroom(arena, 0);
    *tries = LAST;
    return VS_SPILL_AGAIN;
}

/* ---- back before it is needed ---- */

static uint64_t lay_idle(const struct window *v)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < RECENT; i++)
        least = v->idle[i] < least ? v->idle[i] : least;
    return least;
}

/* Blocks come back in ROOM bytes, those that are needed first.  False: none did. */
static bool take_back(struct vs_served *s, uint64_t room, uint64_t now)
{
    bool any = false;
    struct vs_ranking *coming = vs_habit_coming(s, now, room);
    for (struct vs_watched *w; room != 0 && (w = vs_ranking_take(coming)) != NULL;) {
        if (w->size > room)
            continue;
        w->early = vs_arena_taken(w->arena, w->address) == 0 && vs_park_in(w) == 0;
        if (w->early)
            vs_spill_came_back(w);
        room -= w->early ? w->size : 0;
        any = any || w->early;
    }
    return any;
}

static void look(struct vs_served *s, struct window *v, uint64_t now)
{
    uint64_t room = lay_idle(v), left = vs_spill_headroom(s->total);
    room = room > left ? room - left : 0;
    if (room >= VS_WATCHED_LEAST && !take_back(s, room, now))
        v->pause = PAUSE + (uint32_t)(vs_watched_end - vs_watched) / BLOCKS;
    if (vs_park_freed != 0 && v->looks++ % PAUSE == 0 && vs_park_is_idle(s))
        settle(s);
}

void vs_spill_look(struct vs_served *s, struct vs_arena *arena, uint64_t now)
{
    struct window *v = &windows[s - vs_served];
    uint64_t lies = vs_park_parked != 0 ? vs_arena_idle(arena) : 0;
    v->spare = lies < v->spare ? lies : v->spare;
    if (now >= vs_habit_due(s))
        send_ahead(s, arena, now);
    if (vs_park_parked == 0 && vs_park_freed == 0)
        return;
    note_idle(v, vs_arena_idle(arena));
    if (v->pause == 0)
        look(s, v, now);
    else
        v->pause--;
}
