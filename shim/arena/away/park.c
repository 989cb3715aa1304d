/*
 * park.c - see park.h: what is watched, when a phase begins, and who waits for what.
 *
 * Each call that gives the device work is a work with a number.  Blocks that a thread has looked at and whose
 * work is not given yet stay where they are (gate.h: vs_gate_looking).
 *
 * A round ends where the optimizer does.  The first thread that gives the device work of another phase finds
 * that out, and parks; the first that gives it work of the optimizer has all back.  In between what is parked
 * comes back as soon as memory falls (park_plan.h), in the order in which the optimizer needed it last.
 */
#include "park.h"

#include "access/use.h"
#include "account.h"
#include "back.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/options.h"
#include "gate.h"
#include "habit.h"
#include "host.h"
#include "park_copy.h"
#include "park_gap.h"
#include "park_plan.h"
#include "spill.h"
#include "store.h"
#include "trace/roles.h"

#define PATIENT_NS 5000000000ull /* that work waits for memory while none is freed */
#define NAMED                                                                                                \
    (VS_ACCESS_IN_FORWARD | VS_ACCESS_IN_LOGITS | VS_ACCESS_IN_BACKWARD | VS_ACCESS_IN_OPTIMIZER |           \
     VS_ACCESS_IN_EVALUATION)

_Atomic bool vs_park_on;
static bool held;           /* uses are not looked at: nothing goes */
static uint32_t next_order; /* of a block's first use in this optimizer */
static _Atomic bool owed;   /* blocks are to be parked in this gap, and could not be yet */
static uint32_t unknown;    /* work so far of which nobody knows what it was given, but in the optimizer */
static _Atomic uint64_t works = 1; /* so far, and one */
static _Atomic uint8_t phase;      /* the last one that gave the device work, of NAMED */

/* ---- what is watched ---- */

/* A block that is parked comes back for nothing where nobody is alive in its chunks; else it is watched on,
 * and its free waits until it can. */
static void forget(struct vs_watched *w)
{
    w->planned = false;
    if (w->parked) {
        vs_park_drop(w);
        if (vs_arena_taken(w->arena, w->address) != 0)
            return;
        w->freed = false; /* the arena does not know yet */
        vs_park_freed--;
        if (vs_park_in(w) != 0) {
            vs_park_drop(w);
            return;
        }
    }
    vs_park_before_free(w);
    vs_park_forget(w);
}

/* The block in which ADDRESS lies, watched from now on; NULL: it could not go. */
static struct vs_watched *watch_at(uint64_t address)
{
    struct vs_arena_block block;
    struct vs_served *s;
    struct vs_arena *arena = vs_served_owner(address, &s, &block);
    if (arena == NULL || block.size < VS_WATCHED_LEAST)
        return NULL;
    struct vs_watched *w = vs_watched_at(address, 0);
    if (w != NULL && (w->address != block.address || w->size != block.size || w->arena != arena))
        forget(w); /* its end was not seen */
    return vs_watched_add(&(struct vs_watched){
        .address = block.address, .size = block.size, .s = s, .arena = arena, .own = VS_PARK_NO_STREAM});
}

static bool tell(uint64_t address)
{
    struct vs_watched *w = watch_at(address);
    if (w == NULL || w->address != address || w->freed)
        return false;
    return w->told = true;
}

void vs_park_told(const uint64_t *addresses, size_t count, unsigned role)
{
    bool any = false;
    int cancel;
    if (role >= VS_ROLE_COUNT || vs_spill_on() || !vs_plan_wants(role) || !vs_served_in())
        return;
    cancel = vs_parking_enter();
    for (size_t i = 0; i < count; i++)
        any = tell(addresses[i]) || any;
    if (any && *vs_options.park_from != 0 && atomic_load_explicit(&phase, memory_order_relaxed) == 0)
        atomic_store_explicit(&phase, VS_ACCESS_IN_OPTIMIZER,
                              memory_order_relaxed); /* it made them just now */
    vs_parking_leave(cancel);
    vs_served_out();
    if (any) /* relaxed: as in vs_park_is_on */
        atomic_store_explicit(&vs_park_on, true, memory_order_relaxed);
}

/* Likewise of all that the arena gives. */
static void watch(struct vs_served *s, struct vs_arena *arena, uint64_t address, uint64_t size, CUstream own)
{
    uint64_t now = atomic_load_explicit(&works, memory_order_relaxed);
    struct vs_watched block = {
        .address = address, .size = size, .s = s, .arena = arena, .own = own, .work = now};
    if (address == 0 || size < VS_WATCHED_LEAST)
        return;
    for (struct vs_watched *w; (w = vs_watched_at(address, size)) != NULL;)
        vs_park_forget(w); /* its end was not seen */
    block.forecast = vs_forecast_born(now);
    vs_watched_add(&block);
}

/* One that has no role yet may be told one later. */
void vs_park_stored(uint64_t address)
{
    int cancel;
    bool spills = vs_spill_on();
    if ((spills ? !vs_watched_near(address) : *vs_options.park == 0) || !vs_served_in())
        return;
    cancel = vs_parking_enter();
    struct vs_watched *w = spills ? vs_watched_at(address, 0) : watch_at(address);
    if (w != NULL) {
        vs_plan_stored(w);
        w->stored = true;
        atomic_store_explicit(&vs_park_on, true, memory_order_relaxed); /* so that its free is seen */
    }
    vs_parking_leave(cancel);
    vs_served_out();
}

/* ---- out ---- */

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
    owed = vs_plan.on && !(vs_gate_looking() == UINT64_MAX && fences());
    if (!vs_plan.on || owed)
        return;
    VS_WATCHED_EACH(w)
    if (w->planned && !w->parked)
        w->planned = vs_park_out(w);
}

/* ---- phases ---- */

static void end_round(void)
{
    VS_WATCHED_EACH(w)
    {
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
        owed = vs_plan.trims; /* first */
        if (!owed)
            all_out();
    } else if (to == VS_ACCESS_IN_OPTIMIZER) {
        owed = false;
        vs_plan_gap_ends(stream);
        vs_account_wait_begins(stream);
        vs_back_all();
        vs_back_all_wait(stream); /* kernels may find one without being given it */
        vs_account_wait_ends(stream);
        vs_gap_waited(stream);
    }
}

/* Relaxed: two threads that give work at once are of two phases at once, and either may be first. */
void vs_park_work(CUstream stream)
{
    uint8_t now = vs_spill_on() ? 0 : vs_use_begin(0, 0).phases;
    bool same = (now & NAMED) == 0 || now == atomic_load_explicit(&phase, memory_order_relaxed);
    int cancel;
    if ((same && !atomic_load_explicit(&owed, memory_order_relaxed)) || !vs_served_in())
        return;
    cancel = vs_parking_enter();
    uint8_t before = atomic_load_explicit(&phase, memory_order_relaxed);
    now = now & NAMED ? now : before;
    atomic_store_explicit(&phase, now, memory_order_relaxed);
    if (before != now)
        change(before, now, stream);
    else if (owed)
        all_out();
    struct vs_plan plan = vs_plan;
    vs_plan.trims = false;
    vs_parking_leave(cancel);
    if (plan.trims)
        vs_plan_trim(&plan);
    vs_served_out();
}

/* ---- uses ---- */

static __thread uint64_t work; /* that the thread looks at the operands of */
static __thread bool lacks;    /* the device has no memory for one */

void vs_park_next(void)
{
    work = atomic_fetch_add_explicit(&works, 1, memory_order_relaxed) + 1; /* relaxed: a count */
    lacks = false;
}

/* A thread that waits gives its work a new number.  By the old one no block could go that another thread has
 * used since, for as long as it waits. */
static void begin_anew(void)
{
    if (!vs_watched_knows(work))
        return;
    uint64_t now = atomic_fetch_add_explicit(&works, 1, memory_order_relaxed) + 1; /* relaxed: a count */
    if (!vs_gate_look_again(work, now))
        return;
    vs_watched_renew(work, now);
    work = now;
}

bool vs_park_lacks(void)
{
    bool so = lacks;
    lacks = false;
    return so;
}

static void say_lacks(const struct vs_watched *w, bool known)
{
    static bool said[2];
    char bytes[32];
    vs_host_amount(bytes, (double)w->size);
    if (!said[known])
        vs_log(
            "%s: %s needs %s that are on the host, the device has no memory for them, and none was freed for "
            "%d s: such calls get CUDA_ERROR_OUT_OF_MEMORY",
            vs_spill_on() ? "spill" : "park",
            known ? "work" : "a kernel or graph that may use any block, as it finds addresses in memory,",
            bytes, (int)(PATIENT_NS / 1000000000));
    said[known] = true;
}

/* So many frees were asked for. */
static uint64_t frees_of(struct vs_arena *arena)
{
    struct vs_arena_stats stats;
    vs_arena_stats(arena, &stats);
    return stats.frees;
}

/* The block at ADDRESS comes back, or is gone; others go for it, or memory is waited for, since what the
 * program would find otherwise are others' bytes.  False: the device has none.  KNOWN: the work says that it
 * uses it. */
static bool have(uint64_t address, bool known)
{
    uint64_t frees = 0, until = 0;
    int status;
    struct vs_watched *w = vs_watched_at(address, 0);
    if (w != NULL && vs_spill_on())
        vs_spill_before(w, work);
    for (; w != NULL && w->parked && !w->freed && (status = vs_back_one(w)) != 0;
         w = vs_watched_at(address, 0)) {
        if (status != VS_BACKING_NOT_READY && vs_spill_on() && vs_spill_for(w, work))
            continue;
        bool first = until == 0;
        if (first || frees != frees_of(w->arena)) {
            frees = frees_of(w->arena);
            until = vs_clock_ns() + PATIENT_NS;
        } else if (vs_clock_ns() > until) {
            say_lacks(w, known);
            return false;
        }
        vs_back_pause(w->arena, status, first);
        begin_anew();
    }
    return true;
}

/* What comes between two phases belongs to the one before: a look at the states behind the optimizer. */
static uint8_t phase_now(void)
{
    uint8_t now = vs_spill_on() ? 0 : vs_use_begin(0, 0).phases;
    return now & NAMED ? now : atomic_load_explicit(&phase, memory_order_relaxed);
}

/* KNOWN: the work is given it; otherwise it may be. */
static void use(struct vs_watched *w, CUstream stream, uint8_t now, bool known)
{
    uint64_t address = w->address;
    if (w->seen == 0)
        w->order = next_order++;
    w->seen |= now;
    w->work = work > w->work ? work : w->work; /* another thread's may be later, and looked at before */
    vs_watched_given(work, address);
    if (w->parked && known && now != VS_ACCESS_IN_OPTIMIZER && !vs_spill_on())
        vs_plan_unforeseen(w);
    lacks = lacks || (w->parked && !have(address, known));
    w = vs_back_wait(address, stream); /* the lock may have been given meanwhile */
    if (w == NULL)
        return;
    if (known && vs_spill_on())
        vs_habit_used(w, work); /* behind its return, which may end the habit */
    if (known)
        vs_forecast_used(&w->forecast, work);
    w->early = w->undone = false;
}

void vs_park_given(CUstream stream, uint64_t address, uint64_t size)
{
    int cancel;
    if ((size == 0 && !vs_watched_near(address)) || lacks || !vs_served_in())
        return;
    uint8_t now = phase_now();
    cancel = vs_parking_enter();
    vs_gate_look(work);
    for (struct vs_watched *w; (w = vs_watched_at(address, size)) != NULL;) {
        uint64_t begin = w->address;
        use(w, stream, now, true);
        if (begin <= address)
            break;
        size = begin - address;
    }
    vs_parking_leave(cancel);
    vs_served_out();
}

/* All comes back; while some is on the host no other block has to go for it. */
static void use_all(CUstream stream, uint8_t now)
{
    unknown += now != VS_ACCESS_IN_OPTIMIZER;
    if (!vs_spill_on() && vs_park_parked != 0 && now != VS_ACCESS_IN_OPTIMIZER)
        vs_plan_unknown();
    if (!vs_spill_on())
        VS_WATCHED_EACH(w)
    use(w, stream, now, false);
    int status;
    for (struct vs_watched *w; !lacks && (w = vs_back_wanted(&status)) != NULL;)
        lacks = !have(w->address, false);
    vs_back_all_wait(stream);
}

void vs_park_unknown(CUstream stream)
{
    int cancel;
    if (lacks || !vs_served_in())
        return;
    uint8_t now = phase_now();
    cancel = vs_parking_enter();
    vs_gate_look(1); /* nothing goes until it is given */
    use_all(stream, now);
    vs_parking_leave(cancel);
    vs_served_out();
}

/* ---- memory ---- */

bool vs_park_retry(struct vs_served *s, struct vs_arena *arena, uint64_t size, unsigned *tries)
{
    int cancel;
    enum vs_spill_answer answer = VS_SPILL_NO;
    uint64_t until = vs_clock_ns() + PATIENT_NS;
    if (!vs_spill_on())
        return false;
    cancel = vs_parking_enter();
    while (!held &&
           (answer = vs_spill_refused(s, arena, size, atomic_load_explicit(&works, memory_order_relaxed),
                                      tries)) == VS_SPILL_LATER) {
        if (vs_clock_ns() > until)
            *tries = VS_SPILL_HURRY;
        vs_back_pause(NULL, 0, false);
    }
    vs_parking_leave(cancel);
    return answer == VS_SPILL_AGAIN;
}

/* What may come back as memory falls. */
static void planned_back(struct vs_served *s, struct vs_arena *arena)
{
    uint64_t room = vs_plan_room(s, arena);
    struct vs_ranking *back = vs_watched_wanted(room);
    for (struct vs_watched *w; room != 0 && (w = vs_ranking_take(back)) != NULL;) {
        if (w->size > room || vs_arena_taken(w->arena, w->address) != 0)
            continue; /* where others are alive in its chunks it would need new ones */
        if (vs_back_one(w) != 0)
            break;
        room -= w->size;
    }
}

/* The store gives back what it has not needed for long: without the lock. */
static void leave_lighter(int cancel, struct vs_served *s)
{
    struct vs_host_store part;
    bool gives = vs_store_look(s, &part);
    uint64_t bytes = gives ? part.locked : 0;
    vs_parking_leave(cancel);
    if (!gives)
        return;
    vs_park_unlock(s, &part);
    cancel = vs_parking_enter();
    vs_store_gave(s, bytes);
    vs_parking_leave(cancel);
}

/* Inside the arena. */
void vs_park_malloc(struct vs_served *s, struct vs_arena *arena, uint64_t address, uint64_t size,
                    CUstream own)
{
    int cancel;
    bool spills = vs_spill_on();
    if (!spills && !vs_plan_looks())
        return;
    cancel = vs_parking_enter();
    if (spills) {
        watch(s, arena, address, size, own);
        if (!held)
            vs_spill_look(s, arena, atomic_load_explicit(&works, memory_order_relaxed));
    } else {
        planned_back(s, arena);
    }
    leave_lighter(cancel, s);
}

void vs_park_free(struct vs_served *s, struct vs_arena *arena, uint64_t address)
{
    int cancel;
    if (!vs_watched_near(address))
        return;
    cancel = vs_parking_enter();
    struct vs_watched *w = vs_watched_at(address, 0);
    if (w != NULL && w->address == address && !w->freed)
        forget(w);
    if (vs_spill_on() && !held)
        vs_spill_look(s, arena, atomic_load_explicit(&works, memory_order_relaxed));
    leave_lighter(cancel, s);
}

void vs_park_arena_ends(struct vs_served *s)
{
    if (!vs_park_is_on())
        return;
    int cancel = vs_parking_enter();
    VS_WATCHED_EACH(w)
    if (w->s == s) {
        w->back = NULL; /* it went with the context */
        vs_park_forget(w);
    }
    vs_park_copies_end(s);
    vs_account_device_ends(s);
    vs_plan_device_ends(s);
    vs_parking_leave(cancel);
}

bool vs_park_all_back(void)
{
    if (!vs_park_is_on())
        return true;
    int cancel = vs_parking_enter();
    held = true; /* nothing goes while it waits */
    bool back = held = vs_back_all() == 0;
    vs_parking_leave(cancel);
    return back;
}

void vs_park_go_on(void)
{
    int cancel = vs_parking_enter();
    held = false;
    vs_parking_leave(cancel);
}
