/*
 * park.c - see park.h: what is watched, when a phase begins, and who waits for what.
 *
 * A round ends where the optimizer does.  The first thread that gives the device work of another phase finds
 * that out, and parks; the first that gives it work of the optimizer has all back.  In between what is parked
 * comes back as soon as memory falls (park_plan.h), in the order in which the optimizer needed it last.
 */
#define _GNU_SOURCE
#include "park.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/use.h"
#include "account.h"
#include "core/log.h"
#include "core/options.h"
#include "gate.h"
#include "park_copy.h"
#include "park_plan.h"
#include "trace/roles.h"

#define SMALLEST (2ull << 20) /* blocks below have no chunk of their own */
#define NAMED                                                                                                \
    (VS_ACCESS_IN_FORWARD | VS_ACCESS_IN_LOGITS | VS_ACCESS_IN_BACKWARD | VS_ACCESS_IN_OPTIMIZER |           \
     VS_ACCESS_IN_EVALUATION)

_Atomic bool vs_park_on;
static struct vs_lock lock = VS_LOCK(PARKING); /* guards the next, and what is watched */
static uint32_t next_order;                    /* of a block's first use in this optimizer */
static uint32_t parked;                        /* blocks, now */
static _Atomic bool owed;                      /* blocks are to be parked in this gap, and could not be yet */
static uint32_t unknown;      /* work so far of which nobody knows what it was given, but in the optimizer */
static _Atomic uint8_t phase; /* the last one that gave the device work, of NAMED */

/* No thread ends with the lock. */
static void no_cancel(int *before)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, before);
}

/* ---- what is watched ---- */

/* A neighbour may lie in its first and last chunk, so the contents come, too.  Where the device has no memory
 * for it now, it is watched on until it is back. */
static void forget(struct vs_watched *w)
{
    bool was = w->parked;
    w->planned = false;
    if (was && !vs_park_in(w, vs_plan.base))
        return;
    parked -= was;
    if (w->back != NULL)
        w->s->cuda.call.cuEventDestroy_v2(w->back);
    vs_watched_remove(w);
}

static bool tell(uint64_t address)
{
    struct vs_arena_block block;
    struct vs_served *s;
    struct vs_arena *arena = vs_served_owner(address, &s, &block);
    if (arena == NULL || block.address != address || block.size < SMALLEST)
        return false;
    struct vs_watched *w = vs_watched_at(address, 0);
    if (w != NULL && (w->address != block.address || w->size != block.size || w->arena != arena))
        forget(w); /* its end was not seen */
    if (vs_watched_at(address, 0) != NULL && vs_watched_at(address, 0)->parked)
        return false;
    return vs_watched_add(&(struct vs_watched){
               .address = block.address, .size = block.size, .s = s, .arena = arena}) != NULL;
}

/* Of the words of VRAMSCOPE_PARK, "optimizer-state,gradient", that of ROLE. */
static bool is_wanted(unsigned role)
{
    char word[32];
    snprintf(word, sizeof word, "%s", vs_role_word(role));
    for (char *c = word; *c != 0; c++)
        *c = *c == ' ' ? '-' : *c;
    const char *at = strstr(vs_options.park, word);
    return at != NULL && (at == vs_options.park || at[-1] == ',') &&
           (at[strlen(word)] == ',' || at[strlen(word)] == 0);
}

void vs_park_told(const uint64_t *addresses, size_t count, unsigned role)
{
    bool any = false;
    int cancel;
    if (role >= VS_ROLE_COUNT || !is_wanted(role) || !vs_served_in())
        return;
    no_cancel(&cancel);
    vs_lock_take(&lock);
    for (size_t i = 0; i < count; i++)
        any = tell(addresses[i]) || any;
    if (any && *vs_options.park_from != 0 && atomic_load_explicit(&phase, memory_order_relaxed) == 0)
        atomic_store_explicit(&phase, VS_ACCESS_IN_OPTIMIZER,
                              memory_order_relaxed); /* it made them just now */
    vs_lock_give(&lock);
    pthread_setcancelstate(cancel, NULL);
    vs_served_out();
    if (any) /* relaxed: as in vs_park_is_on */
        atomic_store_explicit(&vs_park_on, true, memory_order_relaxed);
}

/* ---- out and back ---- */

static bool come_back(struct vs_watched *w)
{
    if (!vs_park_in(w, vs_plan.base))
        return false;
    parked--;
    vs_plan_came_back(w);
    return true;
}

static int by_order(const void *a, const void *b)
{
    const struct vs_watched *const *x = a, *const *y = b;
    return ((*x)->order > (*y)->order) - ((*x)->order < (*y)->order);
}

/* Of what is parked the block that the optimizer needs first; NULL: nothing is. */
static struct vs_watched *next_back(void)
{
    struct vs_watched *first = NULL;
    for (uint32_t i = 0; parked != 0 && i < vs_watched_count; i++)
        if (vs_watched[i].parked && (first == NULL || vs_watched[i].order < first->order))
            first = &vs_watched[i];
    return first;
}

/* False: the device has no memory for some. */
static bool all_back(void)
{
    struct vs_watched *list[256];
    for (uint32_t n = 1; parked != 0 && n != 0;) {
        n = 0;
        for (uint32_t i = 0; i < vs_watched_count && n < 256; i++)
            if (vs_watched[i].parked)
                list[n++] = &vs_watched[i];
        qsort(list, n, sizeof *list, by_order);
        for (uint32_t i = 0; i < n; i++)
            if (!come_back(list[i]))
                return false;
    }
    return true;
}

/* The copies of each device wait for what it was given so far. */
static bool fences(void)
{
    bool made = true;
    for (int i = 0; i < VS_SERVED_DEVICES && made; i++)
        if (vs_served_arena(&vs_served[i]) != NULL && vs_plan.bytes[i] != 0)
            made = vs_park_fence(&vs_served[i]);
    return made;
}

/* What a thread has looked at and not given yet must not go: then the next work tries again. */
static void all_out(void)
{
    owed = vs_plan.base != NULL && !(vs_gate_alone() && fences());
    if (vs_plan.base == NULL || owed)
        return;
    for (uint32_t i = 0; i < vs_watched_count; i++) {
        struct vs_watched *w = &vs_watched[i];
        if (!w->planned || w->parked)
            continue;
        w->planned = vs_park_out(w, vs_plan.base);
        parked += w->planned;
    }
}

/* ---- phases ---- */

static void end_round(void)
{
    for (uint32_t i = 0; i < vs_watched_count; i++) {
        struct vs_watched *w = &vs_watched[i];
        w->rounds = w->seen == w->before && w->seen != 0 ? (uint8_t)(w->rounds + (w->rounds < 3)) : 0;
        w->before = w->seen;
        w->seen = 0;
    }
    next_order = 0;
}

/* The device's work changes from one phase to another. */
static void change(uint8_t from, uint8_t to, CUstream stream)
{
    if (from == VS_ACCESS_IN_OPTIMIZER) {
        end_round();
        vs_plan_gap_begins(stream, unknown);
        all_out();
    } else if (to == VS_ACCESS_IN_OPTIMIZER) {
        owed = false;
        vs_plan_gap_ends(stream);
        vs_account_wait_begins(stream);
        all_back();
        for (uint32_t i = 0; i < vs_watched_count; i++) /* kernels may find one without being given it */
            vs_park_wait(&vs_watched[i], stream);
        vs_account_wait_ends(stream);
    }
}

/* Relaxed: two threads that give work at once are of two phases at once, and either may be first. */
void vs_park_work(CUstream stream)
{
    uint8_t now = vs_use_begin(0, 0).phases;
    bool same = (now & NAMED) == 0 || now == atomic_load_explicit(&phase, memory_order_relaxed);
    int cancel;
    if ((same && !atomic_load_explicit(&owed, memory_order_relaxed)) || !vs_served_in())
        return;
    no_cancel(&cancel);
    vs_lock_take(&lock);
    uint8_t before = atomic_load_explicit(&phase, memory_order_relaxed);
    now = now & NAMED ? now : before;
    atomic_store_explicit(&phase, now, memory_order_relaxed);
    if (before != now)
        change(before, now, stream);
    else if (owed)
        all_out();
    vs_lock_give(&lock);
    pthread_setcancelstate(cancel, NULL);
    vs_served_out();
}

/* ---- uses ---- */

/* The device has no memory just now for the block at ADDRESS, which the program's work needs: it is waited
 * for, since what the program would find otherwise are others' bytes.  Without the lock: another thread may
 * free. NULL: the block is gone. */
static struct vs_watched *wait_for_memory(uint64_t address)
{
    struct vs_watched *w = vs_watched_at(address, 0);
    for (unsigned tries = 0; w != NULL && w->parked && !come_back(w); tries++) {
        vs_arena_trim(w->arena, 0);
        if (tries == 1000)
            vs_log(
                "park: work needs %.2f GiB that are parked, and the device has no memory for them: it waits "
                "until memory is freed; without --park it would have run out of memory",
                (double)w->size / 0x1p30);
        vs_lock_give(&lock);
        nanosleep(&(struct timespec){0, tries != 0 ? 5000000 : 0}, NULL);
        vs_lock_take(&lock);
        w = vs_watched_at(address, 0);
    }
    return w;
}

/* What comes between two phases belongs to the one before: a look at the states behind the optimizer. */
static uint8_t phase_now(void)
{
    uint8_t now = vs_use_begin(0, 0).phases;
    return now & NAMED ? now : atomic_load_explicit(&phase, memory_order_relaxed);
}

/* KNOWN: the work is given it; otherwise it may be. */
static void use(struct vs_watched *w, CUstream stream, uint8_t now, bool known)
{
    if (w->seen == 0)
        w->order = next_order++;
    w->seen |= now;
    if (w->parked && known && now != VS_ACCESS_IN_OPTIMIZER)
        vs_plan_unforeseen(w);
    if (w->parked && (w = wait_for_memory(w->address)) == NULL)
        return;
    vs_park_wait(w, stream);
}

void vs_park_given(CUstream stream, uint64_t address, uint64_t size)
{
    int cancel;
    if ((size == 0 && !vs_watched_near(address)) || !vs_served_in())
        return;
    uint8_t now = phase_now();
    no_cancel(&cancel);
    vs_lock_take(&lock);
    for (struct vs_watched *w; (w = vs_watched_at(address, size)) != NULL;) {
        uint64_t begin = w->address;
        use(w, stream, now, true);
        if (begin <= address)
            break;
        size = begin - address;
    }
    vs_lock_give(&lock);
    pthread_setcancelstate(cancel, NULL);
    vs_served_out();
}

void vs_park_unknown(CUstream stream)
{
    int cancel;
    if (!vs_served_in())
        return;
    uint8_t now = phase_now();
    no_cancel(&cancel);
    vs_lock_take(&lock);
    unknown += now != VS_ACCESS_IN_OPTIMIZER;
    if (parked != 0 && now != VS_ACCESS_IN_OPTIMIZER)
        vs_plan_unknown();
    for (uint32_t i = 0; i < vs_watched_count; i++)
        use(&vs_watched[i], stream, now, false);
    vs_lock_give(&lock);
    pthread_setcancelstate(cancel, NULL);
    vs_served_out();
}

/* ---- memory ---- */

/* Inside the arena. */
void vs_park_malloc(struct vs_served *s, struct vs_arena *arena)
{
    uint64_t room;
    int cancel;
    if (!vs_plan_looks())
        return;
    no_cancel(&cancel);
    vs_lock_take(&lock);
    room = vs_plan_room(s, arena);
    for (struct vs_watched *w; room != 0 && (w = next_back()) != NULL && w->size <= room; room -= w->size)
        if (!come_back(w))
            break;
    vs_lock_give(&lock);
    pthread_setcancelstate(cancel, NULL);
}

void vs_park_free(struct vs_served *s, struct vs_arena *arena, uint64_t address)
{
    int cancel;
    if (!vs_watched_near(address))
        return;
    no_cancel(&cancel);
    vs_lock_take(&lock);
    struct vs_watched *w = vs_watched_at(address, 0);
    if (w != NULL && w->address == address)
        forget(w);
    vs_lock_give(&lock);
    pthread_setcancelstate(cancel, NULL);
}

void vs_park_arena_ends(struct vs_served *s)
{
    if (!vs_park_is_on())
        return;
    vs_lock_take(&lock);
    for (uint32_t i = vs_watched_count; i-- > 0;)
        if (vs_watched[i].s == s) {
            parked -= vs_watched[i].parked;
            vs_watched_remove(&vs_watched[i]);
        }
    vs_park_copies_end(s);
    vs_account_device_ends(s);
    vs_plan_device_ends(s);
    vs_lock_give(&lock);
}

bool vs_park_all_back(void)
{
    if (!vs_park_is_on())
        return true;
    vs_lock_take(&lock);
    bool back = all_back();
    vs_lock_give(&lock);
    return back;
}
