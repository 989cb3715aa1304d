/*
 * park_plan.c - see park_plan.h.
 *
 * What pays: the device is done with the states for so many milliseconds (events say how many), and the link
 * takes so many bytes there and back in them (one copy says how many).  The largest blocks are parked first,
 * up to that.  Mappings that are made anew lengthen the first gaps, and where memory is fullest at a gap's
 * end nothing comes back before it.  So once mappings have settled the waits of the optimizer are held
 * against the gaps, and where they are too long less is parked.
 *
 * What may come back: a gap is like the last one, counted in requests for memory.  From each of its points on
 * the most that will live is known from the last gap; as much as that is below the gap's peak may come back.
 */
#define _GNU_SOURCE
#include "park_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "account.h"
#include "calls.h"
#include "core/fork.h"
#include "core/log.h"
#include "core/options.h"
#include "foreseen.h"
#include "host.h"
#include "move.h"
#include "park_copy.h"
#include "park_gap.h"
#include "trace/access.h"
#include "trace/roles.h"

#define EVERY   64u   /* requests between two looks */
#define POINTS  8192u /* of a gap; behind them nothing comes back before it must */
#define ROUNDS  2u    /* that a block must have been used in the same phases, before it is parked */
#define OFTEN   3u    /* times that work brings all back of which nobody knows what it uses */
#define GIVE_UP 6u    /* rounds, until it is said that nothing is parked */
#define STEADY  0.9f  /* of the shortest gap so far: the next one is no shorter, and the warm-up is over */
#define WARM_UP 8u    /* gaps, in which each may be shorter than the last */
#define CALM    8u    /* calls of the driver by the arena in a gap, at the most: mappings have settled */
#define SETTLES 10u   /* gaps after a decision, from which on they count as settled whatever is called */
#define JUDGED  5u    /* settled gaps by which it is judged whether parking pays */
#define PAYS    1.15f /* times the gap before; a longer one is said */
#define WORTH   16u   /* this part of what could be parked, at least: mappings change for less, too */
#define WAITS   0.08f /* of a gap, for what was parked, at the most: copies slow the gap itself, too */
#define AIM     0.03f /* of it, where less is parked because it was more */
#define USABLE  0.9   /* of the gap: the rest is for what the copies wait for */
#define TRY     (64ull << 20)
#define SLACK   128u /* one part of so many of the peak stays free of what comes back */

struct vs_plan vs_plan;
static bool decided;

/* ---- time ---- */

static struct vs_served *timed;
static float shortest = -1; /* ms of device time, of the gaps before the decision; below 0: unknown */
static uint32_t measured;   /* so many */
static bool steady;         /* the last of them was no shorter */
static uint32_t gaps;       /* since the decision, or the last change of it */
static struct {
    uint32_t count;
    float shortest, longest, all; /* ms */
    float longest_wait, waits;
    uint64_t away; /* bytes that the optimizer had to wait for, at the most */
} judged;          /* of these gaps, once mappings have settled */

/* That of some block which could be parked by its role. */
static struct vs_served *any_device(void)
{
    VS_WATCHED_EACH(w)
    if (w->told)
        return w->s;
    return NULL;
}

static void start_time(CUstream stream)
{
    timed = timed == NULL || !decided ? any_device() : timed;
    if (timed != NULL && (!decided || (vs_plan.on && judged.count < JUDGED)))
        vs_gap_begins(timed, stream, vs_plan.on);
}

static void note_before(const struct vs_gap *g)
{
    steady = shortest >= 0 && g->ms >= STEADY * shortest;
    measured++;
    shortest = shortest < 0 || g->ms < shortest ? g->ms : shortest;
}

static void note_later(const struct vs_gap *g)
{
    judged.shortest = judged.count == 0 || g->ms < judged.shortest ? g->ms : judged.shortest;
    judged.longest = g->ms > judged.longest ? g->ms : judged.longest;
    judged.all += g->ms;
    judged.longest_wait = g->wait_ms > judged.longest_wait ? g->wait_ms : judged.longest_wait;
    judged.waits += g->wait_ms;
    judged.away = g->away > judged.away ? g->away : judged.away;
    judged.count++;
}

/* True: enough is known to judge. */
static bool read_time(void)
{
    struct vs_gap g;
    bool known = vs_gap_read(&g), counts = known && g.parking && (g.calls <= CALM || gaps >= SETTLES);
    if (known && !decided)
        note_before(&g);
    if (counts)
        note_later(&g);
    return counts && vs_plan.on && judged.count == JUDGED;
}

/* ---- memory by the point of a gap ---- */

struct curve {
    uint32_t points;
    uint64_t live[POINTS]; /* the most since the last point; of the last gap: from then on */
};
static struct curve *curves;      /* two: of this gap and the last */
static unsigned now;              /* which of them is this one's */
static _Atomic uint32_t requests; /* of this gap */
static _Atomic bool in_gap;
static uint64_t returned;

static void begin_curve(void)
{
    if (curves == NULL && (curves = vs_map(2 * sizeof *curves)) == NULL)
        return;
    struct curve *last = &curves[now];
    for (uint32_t i = last->points; i-- > 1;)
        if (last->live[i - 1] < last->live[i])
            last->live[i - 1] = last->live[i];
    now = !now;
    curves[now].points = 0;
    returned = 0;
    atomic_store_explicit(&requests, 0, memory_order_relaxed);
}

bool vs_plan_looks(void)
{
    /* relaxed: a count */
    return atomic_load_explicit(&in_gap, memory_order_relaxed) &&
           atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed) % EVERY == 0;
}

uint64_t vs_plan_room(struct vs_served *s, struct vs_arena *arena)
{
    struct vs_arena_stats stats;
    if (curves == NULL || s != timed || curves[now].points == POINTS)
        return 0;
    vs_arena_stats(arena, &stats);
    uint32_t at = curves[now].points++;
    const struct curve *last = &curves[!now];
    curves[now].live[at] = at != 0 ? stats.high_allocated : stats.allocated; /* not the optimizer's */
    vs_arena_high_from_now(arena, VS_HIGH_ALLOCATED);
    if (!vs_plan.on || at >= last->points)
        return 0;
    uint64_t peak = last->live[0] - last->live[0] / SLACK, later = last->live[at] + returned;
    return peak > later ? peak - later : 0;
}

/* ---- what is parked ---- */

static uint64_t idle; /* bytes that could be parked, by the decision */
static double rate;   /* of the link, bytes in a second */

/* "optimizer-state,gradient" */
bool vs_plan_wants(unsigned role)
{
    char word[32];
    snprintf(word, sizeof word, "%s", vs_role_word(role));
    for (char *c = word; *c != 0; c++)
        *c = *c == ' ' ? '-' : *c;
    const char *at = strstr(vs_options.park, word);
    return at != NULL && (at == vs_options.park || at[-1] == ',') &&
           (at[strlen(word)] == ',' || at[strlen(word)] == 0);
}

static int by_size(const void *a, const void *b)
{
    const struct vs_watched *const *x = a, *const *y = b;
    return ((*x)->size < (*y)->size) - ((*x)->size > (*y)->size);
}

static bool may_park(const struct vs_watched *w)
{
    bool alone = w->rounds >= ROUNDS && w->before == VS_ACCESS_IN_OPTIMIZER;
    return w->told && !w->stored && (alone || vs_foreseen(w)) && vs_park_copies(w->s, w->arena);
}

static bool is_planned(const struct vs_watched *w)
{
    return w->planned;
}

struct list {
    struct vs_watched **block; /* the largest first; NULL: there is no memory for it */
    uint32_t count;
    uint64_t bytes;
    size_t room;
};

static struct list list_those(bool (*that)(const struct vs_watched *))
{
    struct list l = {.room = (size_t)(vs_watched_end - vs_watched + 1) * sizeof *l.block};
    l.block = vs_map(l.room);
    VS_WATCHED_EACH(w)
    if (l.block != NULL && that(w)) {
        l.block[l.count++] = w;
        l.bytes += w->size;
    }
    if (l.block != NULL)
        qsort(l.block, l.count, sizeof *l.block, by_size);
    return l;
}

static void end_list(const struct list *l)
{
    if (l->block != NULL)
        munmap(l->block, l->room);
}

/* The first blocks of L that FITS bytes have room for, and no others. */
static uint64_t choose(const struct list *l, uint64_t fits)
{
    uint64_t bytes = 0;
    memset(vs_plan.bytes, 0, sizeof vs_plan.bytes);
    for (uint32_t i = 0; i < l->count; i++) {
        struct vs_watched *w = l->block[i];
        w->planned = w->size <= fits - bytes;
        bytes += w->planned ? w->size : 0;
        vs_plan.bytes[w->s - vs_served] += w->planned ? w->size : 0;
    }
    return bytes;
}

static bool have_store(void)
{
    char room[256];
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        const char *why =
            vs_plan.bytes[i] != 0 ? vs_park_room(&vs_served[i], vs_plan.bytes[i], room, sizeof room) : NULL;
        if (why != NULL)
            vs_account_none("%s", why);
        if (why != NULL)
            return false;
    }
    return true;
}

static void say(uint64_t planned)
{
    char lies[32], goes[32], link[32];
    vs_host_amount(lies, (double)idle);
    vs_host_amount(goes, (double)planned);
    vs_host_amount(link, rate);
    vs_log("park: the optimizer leaves %s idle for %.0f ms of a step; the link takes %s/s: %s are parked%s",
           lies, (double)shortest, link, goes,
           planned < idle ? ", as much as it carries there and back in that time" : "");
    vs_account_plan(idle, planned, (double)shortest, rate);
}

/* Bytes in a second; 0 or less: nothing can be parked, and it is said why. */
static double link_rate(const struct vs_watched *w)
{
    char room[256];
    const char *why = vs_park_room(w->s, TRY, room, sizeof room);
    double link = why == NULL ? vs_park_rate(w, TRY) : 0;
    if (link <= 0)
        vs_account_none("%s", why != NULL ? why : "the driver does not say how fast the link is");
    return link;
}

void vs_plan_trim(const struct vs_plan *plan)
{
    struct vs_arena_stats stats;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = plan->bytes[i] != 0 ? vs_served_arena(&vs_served[i]) : NULL;
        if (arena == NULL)
            continue;
        vs_arena_stats(arena, &stats);
        vs_arena_trim(arena, stats.idle > plan->bytes[i] ? stats.idle - plan->bytes[i] : 0);
    }
}

/* The context of the first block is current. */
static void decide(const struct list *l)
{
    rate = link_rate(l->block[0]);
    idle = l->bytes;
    uint64_t planned = choose(l, (uint64_t)(rate * shortest / 1e3 * USABLE / 2));
    decided = true;
    gaps = 0;
    if (rate <= 0)
        return;
    vs_plan.on = have_store();
    if (vs_plan.on)
        say(planned);
    vs_plan.on = vs_plan.on && planned != 0;
    vs_plan.trims = vs_plan.on;
}

static void plan(void)
{
    struct list l = list_those(may_park);
    struct vs_away_thread t;
    if (l.bytes != 0 && shortest > 0 &&
        vs_away_enter(&t, l.block[0]->s, l.block[0]->s->cuda.context) == CUDA_SUCCESS) {
        decide(&l);
        vs_away_leave(&t);
    }
    end_list(&l);
}

/* ---- whether it pays ---- */

/* As choose, but nothing where that is too little to pay.  Some devices may have no room for those that would
 * not go any more: then all that L has goes on. */
static uint64_t choose_fewer(const struct list *l, uint64_t fits)
{
    uint64_t before[VS_SERVED_DEVICES], bytes;
    bool room = true;
    memcpy(before, vs_plan.bytes, sizeof before);
    bytes = choose(l, fits);
    bytes = bytes < idle / WORTH ? choose(l, 0) : bytes;
    for (int i = 0; i < VS_SERVED_DEVICES && room; i++)
        room = before[i] == vs_plan.bytes[i] || before[i] - vs_plan.bytes[i] <= vs_move_room(&vs_served[i]);
    return room ? bytes : choose(l, UINT64_MAX);
}

/* BYTES of BEFORE are planned from now on; all of them: they have to stay so. */
static void say_less(uint64_t before, uint64_t bytes, float ms, float wait)
{
    static bool changed;
    char less[32], all[32], why[120];
    vs_host_amount(less, (double)bytes);
    vs_host_amount(all, (double)before);
    snprintf(why, sizeof why,
             "%.0f ms passed between two optimizers, and the next waited %.1f ms for what was parked",
             (double)ms, (double)wait);
    if (bytes == before)
        vs_log("park: %s: it stays so, as %s", why,
               vs_foreseen_ms() > 0 ? "--from planned it" : "the device has no room for it");
    else
        vs_log("park: %s: from now on %s of the %s %s parked", why, bytes != 0 ? less : "nothing", all,
               bytes != 0 ? "are" : "is");
    if (bytes == 0)
        vs_account_ended(why);
    if (bytes == 0 || bytes == before)
        return;
    if (!changed)
        vs_account_first(before, (double)wait);
    vs_account_plan(idle, bytes, (double)shortest, rate);
    changed = true;
}

/* So much less that the optimizer would wait for AIM of a gap.  What it waits for are the bytes that were
 * away when the gap ended, or copies that were under way.  Where a recording was the plan nothing is changed:
 * without the parking the program may not fit.  False: nothing is. */
static bool park_less(float ms, float wait)
{
    struct list l = list_those(is_planned);
    double late = wait / 1e3 * rate, all = (double)l.bytes;
    late = late > (double)judged.away ? late : (double)judged.away;
    late = late < all ? late : all;
    uint64_t planned = l.bytes;
    if (l.bytes != 0 && vs_foreseen_ms() <= 0)
        planned = choose_fewer(&l, (uint64_t)(all - late * (double)(1 - AIM * ms / wait)));
    if (l.bytes != 0) {
        say_less(l.bytes, planned, ms, wait);
        vs_plan.on = planned != 0;
    }
    end_list(&l);
    return planned != l.bytes;
}

/* Of the gaps and of the waits the longest does not count, as the host may have been late with it once.
 * Longer gaps are said, and parking goes on: the program may make them, and a person may need the memory. */
static void judge(void)
{
    float ms = (judged.all - judged.longest) / (JUDGED - 1);
    float wait = (judged.waits - judged.longest_wait) / (JUDGED - 1);
    vs_account_later(judged.shortest);
    if (wait > WAITS * ms && park_less(ms, wait)) {
        memset(&judged, 0, sizeof judged);
        gaps = 0;
    } else if (judged.shortest > PAYS * shortest) {
        vs_log("park: between two optimizers %.0f ms pass, %.0f before anything was parked",
               (double)judged.shortest, (double)shortest);
    }
}

/* ---- gaps ---- */

static bool are_stored(void)
{
    VS_WATCHED_EACH(w)
    if (w->told && w->stored)
        return true;
    return false;
}

/* After so many rounds a person wants to know.  READY: the gaps are as they will be. */
static void say_why_not(uint32_t unknown, bool ready)
{
    static uint32_t rounds;
    static bool said;
    if (decided || ++rounds < GIVE_UP || !ready || said)
        return;
    said = true;
    if (unknown != 0)
        vs_account_none("%u launches in forward and backward did not say what they use (kernels that find "
                        "addresses in memory, textures)",
                        unknown);
    else if (are_stored())
        vs_account_none("addresses of optimizer states were copied into device memory, where kernels may "
                        "find them");
    else
        vs_account_none(
            "no optimizer state of 2 MiB or more is used by the optimizer alone, step after step");
}

void vs_plan_gap_begins(CUstream stream, uint32_t unknown)
{
    if (read_time())
        judge();
    gaps++;
    if (shortest < 0)
        shortest = vs_foreseen_ms();
    begin_curve();
    atomic_store_explicit(&in_gap, true, memory_order_relaxed);
    bool ready = steady || measured >= WARM_UP || vs_foreseen_ms() > 0;
    if (!decided && ready)
        plan();
    say_why_not(unknown, ready);
    start_time(stream);
}

void vs_plan_gap_ends(CUstream stream)
{
    vs_gap_ends(stream);
    atomic_store_explicit(&in_gap, false, memory_order_relaxed);
}

void vs_plan_came_back(const struct vs_watched *w)
{
    returned += w->size;
}

/* Said at the first, the tenth, the hundredth. */
void vs_plan_unforeseen(struct vs_watched *w)
{
    static uint32_t uses, next = 1;
    char bytes[32];
    w->planned = false;
    vs_account_unforeseen(++uses);
    if (uses != next)
        return;
    next *= 10;
    vs_host_amount(bytes, (double)w->size);
    vs_log("park: %u use%s of parked blocks %s not foreseen so far, outside of the optimizer: such a block "
           "(the last has %s) "
           "comes back at once and is parked no more",
           uses, uses == 1 ? "" : "s", uses == 1 ? "was" : "were", bytes);
}

void vs_plan_stored(struct vs_watched *w)
{
    static bool said;
    if (w->planned && !said)
        vs_log("park: an address of a parked block was copied into device memory, where kernels may find it: "
               "such a block is parked no more");
    said = said || w->planned;
    w->planned = false;
}

/* Rarely it costs a copy; again and again it would cost one in each step, for nothing. */
void vs_plan_unknown(void)
{
    static uint32_t times;
    if (++times != OFTEN)
        return;
    VS_WATCHED_EACH(w)
    w->planned = false;
    vs_plan.on = false;
    vs_account_ended("work that does not say what it uses has brought all back");
    vs_log(
        "park: work that does not say what it uses has brought all back %u times: nothing is parked any more",
        OFTEN);
}

void vs_plan_device_ends(struct vs_served *s)
{
    vs_plan.bytes[s - vs_served] = 0;
    vs_gap_device_ends(s);
}
