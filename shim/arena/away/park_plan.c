/*
 * park_plan.c - see park_plan.h.
 *
 * What pays: the device is done with the states for so many milliseconds (events say how many), and the link
 * takes so many bytes there and back in them (one copy says how many).  The largest blocks are parked first,
 * up to that.
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
#include "park_copy.h"
#include "trace/access.h"
#include "trace/roles.h"

#define EVERY   64u   /* requests between two looks */
#define POINTS  8192u /* of a gap; behind them nothing comes back before it must */
#define ROUNDS  2u    /* that a block must have been used in the same phases, before it is parked */
#define OFTEN   3u    /* times that work brings all back of which nobody knows what it uses */
#define GIVE_UP 6u    /* rounds, until it is said that nothing is parked */
#define STEADY  0.9f  /* of the shortest gap so far: the next one is no shorter, and the warm-up is over */
#define WARM_UP 8u    /* gaps, in which each may be shorter than the last */
#define SETTLES 10u   /* gaps after the decision, in which mappings are made anew */
#define JUDGED  5u    /* and the next ones, of which the shortest is held against those before */
#define PAYS    1.15f /* times the gap before; a longer one is said */
#define USABLE  0.9   /* of the gap: the rest is for what the copies wait for */
#define TRY     (64ull << 20)
#define SLACK   128u /* one part of so many of the peak stays free of what comes back */

struct vs_plan vs_plan;
static bool decided;

/* ---- time ---- */

static CUevent begun, ended; /* of the last gap; NULL: not recorded */
static float shortest = -1;  /* ms of device time, of the gaps before the decision; below 0: unknown */
static uint32_t measured;    /* so many */
static bool steady;          /* the last of them was no shorter */
static float judged = -1;    /* ms, the shortest of those that are judged; below 0: unknown */
static uint32_t gaps;        /* since the decision */
static struct vs_served *timed;

/* That of some block. */
static struct vs_served *any_device(void)
{
    VS_WATCHED_EACH(w)
    return w->s;
    return NULL;
}

static bool is_judged(void)
{
    return vs_plan.on && gaps >= SETTLES && gaps < SETTLES + JUDGED;
}

static void start_time(CUstream stream)
{
    if (begun != NULL)
        return;
    timed = timed == NULL || !decided ? any_device() : timed;
    begun = timed != NULL && (!decided || is_judged()) ? vs_park_stamp(timed, stream) : NULL;
}

/* The events are read when the next gap begins: the device is done with them then, or nearly. */
static void end_time(CUstream stream)
{
    if (begun != NULL && ended == NULL)
        ended = vs_park_stamp(timed, stream);
}

static void read_time(void)
{
    if (begun == NULL || ended == NULL || !vs_park_reached(timed, ended))
        return; /* it is read when a later gap begins */
    float ms = vs_park_between(timed, begun, ended), *least = decided ? &judged : &shortest;
    begun = ended = NULL;
    if (ms < 0)
        return;
    steady = *least >= 0 && ms >= STEADY * *least;
    measured++;
    *least = *least < 0 || ms < *least ? ms : *least;
}

/* ---- memory by the point of a gap ---- */

struct curve {
    uint32_t points;
    uint64_t live[POINTS]; /* of the last gap: the most from this point on */
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
    curves[now].live[at] = stats.allocated;
    if (!vs_plan.on || at >= last->points)
        return 0;
    uint64_t peak = last->live[0] - last->live[0] / SLACK, later = last->live[at] + returned;
    return peak > later ? peak - later : 0;
}

/* ---- what is parked ---- */

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
    return (alone || vs_foreseen(w)) && vs_park_copies(w->s, w->arena);
}

static uint64_t candidates(struct vs_watched **list, uint32_t *count)
{
    uint64_t bytes = 0;
    *count = 0;
    VS_WATCHED_EACH(w)
    if (may_park(w)) {
        list[(*count)++] = w;
        bytes += w->size;
    }
    qsort(list, *count, sizeof *list, by_size);
    return bytes;
}

/* The first blocks of LIST that FITS bytes have room for. */
static uint64_t choose(struct vs_watched **list, uint32_t count, uint64_t fits)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (bytes + list[i]->size > fits)
            continue;
        list[i]->planned = true;
        bytes += list[i]->size;
        vs_plan.bytes[list[i]->s - vs_served] += list[i]->size;
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

static void say(uint64_t all, uint64_t planned, double rate)
{
    char idle[32], goes[32], link[32];
    vs_host_amount(idle, (double)all);
    vs_host_amount(goes, (double)planned);
    vs_host_amount(link, rate);
    vs_log("park: the optimizer leaves %s idle for %.0f ms of a step; the link takes %s/s: %s are parked%s",
           idle, (double)shortest, link, goes,
           planned < all ? ", as much as it carries there and back in that time" : "");
    vs_account_plan(all, planned, (double)shortest, rate);
}

static double link_rate(const struct vs_watched *w)
{
    struct vs_host_store small;
    char why[256];
    if (vs_host_make(&small, TRY, "", why, sizeof why) != NULL)
        return 0;
    double rate = vs_park_rate(w, small.base, TRY);
    vs_host_end(&small);
    return rate;
}

/* The idle chunks are those that the last peak needed.  From here on it has the parked states' chunks, too,
 * so as many of the idle ones go. */
static void need_less(void)
{
    struct vs_arena_stats stats;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_plan.bytes[i] != 0 ? vs_served_arena(&vs_served[i]) : NULL;
        if (arena == NULL)
            continue;
        vs_arena_stats(arena, &stats);
        vs_arena_trim(arena, stats.idle > vs_plan.bytes[i] ? stats.idle - vs_plan.bytes[i] : 0);
    }
}

/* The context of the first block is current. */
static void decide(struct vs_watched **list, uint32_t count, uint64_t all)
{
    double rate = link_rate(list[0]);
    double fits = rate * shortest / 1e3 * USABLE / 2;
    uint64_t planned = choose(list, count, (uint64_t)fits);
    decided = true;
    if (rate <= 0) {
        vs_account_none("the driver does not say how fast the link is");
        return;
    }
    vs_plan.on = have_store();
    if (vs_plan.on)
        say(all, planned, rate);
    vs_plan.on = vs_plan.on && planned != 0;
    if (vs_plan.on)
        need_less();
}

static void plan(void)
{
    uint32_t count;
    size_t room = (size_t)(vs_watched_end - vs_watched + 1) * sizeof(struct vs_watched *);
    struct vs_watched **list = vs_map(room);
    uint64_t all = list != NULL ? candidates(list, &count) : 0;
    struct vs_away_thread t;
    if (all != 0 && shortest > 0 && vs_away_enter(&t, list[0]->s, list[0]->s->cuda.context) == CUDA_SUCCESS) {
        decide(list, count, all);
        vs_away_leave(&t);
    }
    if (list != NULL)
        munmap(list, room);
}

/* ---- whether it pays ---- */

/* Longer steps are said, and parking goes on: a person may need the memory at that price. */
static void judge(void)
{
    if (judged < 0 || shortest <= 0)
        return;
    vs_account_later(judged);
    if (judged > PAYS * shortest)
        vs_log("park: between two optimizers %.0f ms pass, %.0f before anything was parked", (double)judged,
               (double)shortest);
}

/* ---- gaps ---- */

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
    else
        vs_account_none(
            "no optimizer state of 2 MiB or more is used by the optimizer alone, step after step");
}

void vs_plan_gap_begins(CUstream stream, uint32_t unknown)
{
    read_time();
    if (shortest < 0)
        shortest = vs_foreseen_ms();
    begin_curve();
    atomic_store_explicit(&in_gap, true, memory_order_relaxed);
    if (vs_plan.on && ++gaps == SETTLES + JUDGED)
        judge();
    bool ready = steady || measured >= WARM_UP || vs_foreseen_ms() > 0;
    if (!decided && ready)
        plan();
    say_why_not(unknown, ready);
    start_time(stream);
}

void vs_plan_gap_ends(CUstream stream)
{
    end_time(stream);
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
    if (timed == s)
        begun = ended = NULL; /* they went with the context */
}
