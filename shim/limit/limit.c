/*
 * limit.c - whether a call may be made: see limit.h.
 *
 * `room` is what calls may take before the driver is asked again.  A call takes its bytes from it, rounded up
 * to what the driver maps at once.  Where too little is there, or a context or code came since, the figure
 * decides:
 *
 *      limit - figure - calls in flight - the call's own bytes >= 0
 *
 * A call in flight may be in the figure already and is then counted twice; so a thread that would be refused
 * waits until the others' calls have ended, and asks again.
 */
#include "limit.h"

#include <errno.h>
#include <time.h>

#include "core/clock.h"
#include "core/lock.h"
#include "core/options.h"
#include "hooks/meminfo.h"
#include "record/record.h"
#include "trace/event.h"

#define CHUNK    (UINT64_C(2) << 20) /* bytes, what the driver maps at once */
#define NEAR     (INT64_C(64) << 20)
#define MOST     (UINT64_C(1) << 50) /* bytes, of one call; more is refused by any device */
#define NO_ROOM  (INT64_MIN / 2)
#define PATIENCE UINT64_C(500000000) /* ns for other threads' calls to end */

struct limit {
    _Alignas(64) struct vs_lock lock; /* held while the figure is asked for */
    _Atomic int64_t room;
    _Atomic uint64_t flying; /* bytes of calls that were granted and have not returned */
    uint64_t calls;          /* vs_cost_calls when the figure was asked for */
};

static struct limit limits[VS_LIMITED_DEVICES] = {[0 ... VS_LIMITED_DEVICES - 1] = {.lock = VS_LOCK(LIMIT)}};

static int device_here(int device)
{
    CUdevice here = VS_LIMIT_NOWHERE;
    if (device != VS_LIMIT_HERE)
        return device;
    return vs_drv_cuCtxGetDevice(&here) == CUDA_SUCCESS ? here : VS_LIMIT_NOWHERE;
}

/* ---- by what is known ---- */

static uint64_t cost_calls(void)
{
    /* acquire: pairs with vs_cost_unknown, so the figure that is asked for next has the calls' memory */
    return atomic_load_explicit(&vs_cost_calls, memory_order_acquire);
}

static bool fits_surely(struct limit *l, uint64_t bytes)
{
    if (bytes == 0 || !vs_record_enabled() || __atomic_load_n(&l->calls, __ATOMIC_RELAXED) != cost_calls())
        return false;
    return atomic_fetch_sub(&l->room, (int64_t)bytes) >= (int64_t)bytes;
}

/* ---- by the driver's figure ---- */

/* What is left when BYTES are taken, negative where that is too much.  In this order: a call that returns in
 * between is counted twice, and none is left out. */
static int64_t left_after(struct limit *l, int device, uint64_t bytes)
{
    uint64_t calls = cost_calls();
    vs_lock_take(&l->lock);
    int64_t was = atomic_exchange(&l->room, NO_ROOM); /* from here on everybody asks */
    uint64_t others = atomic_load(&l->flying) - bytes, used = vs_limit_used(device);
    int64_t left = used == UINT64_MAX ? was : (int64_t)vs_limit_of(device) - (int64_t)used - (int64_t)others;
    int64_t after = left - (int64_t)bytes;
    atomic_store(&l->room, after >= 0 ? after : left);
    __atomic_store_n(&l->calls, calls, __ATOMIC_RELAXED);
    vs_lock_give(&l->lock);
    return after;
}

static bool fits_by_figure(struct limit *l, struct vs_asked *asked)
{
    const struct timespec pause = {0, 200000};
    uint64_t since = vs_clock_ns();
    int64_t after;
    while ((after = left_after(l, asked->device, asked->bytes)) < 0 &&
           atomic_load(&l->flying) > asked->bytes && vs_clock_ns() - since < PATIENCE)
        nanosleep(&pause, NULL);
    asked->near = after < NEAR || asked->bytes == 0; /* of a call with 0 bytes nothing is known */
    return after >= 0;
}

struct vs_asked vs_limit_ask(int device, uint64_t bytes)
{
    struct vs_asked asked = {.device = device_here(device), .bytes = bytes};
    if (vs_limit_of(asked.device) == 0)
        return (struct vs_asked){.device = VS_LIMIT_NOWHERE};
    struct limit *l = &limits[asked.device];
    int saved = errno;
    asked.bytes = bytes > MOST ? MOST : (bytes + CHUNK - 1) / CHUNK * CHUNK;
    atomic_fetch_add(&l->flying, asked.bytes);
    asked.refused = !fits_surely(l, asked.bytes) && !fits_by_figure(l, &asked);
    if (asked.refused)
        atomic_fetch_sub(&l->flying, asked.bytes);
    errno = saved;
    return asked;
}

bool vs_limit_passed(const struct vs_asked *asked, CUresult status)
{
    if (asked->device < 0 || asked->refused)
        return false;
    struct limit *l = &limits[asked->device];
    int saved = errno;
    bool passed = status == CUDA_SUCCESS && asked->near &&
                  left_after(l, asked->device, asked->bytes) + (int64_t)asked->bytes < 0;
    atomic_fetch_sub(&l->flying, asked->bytes);
    errno = saved;
    return passed;
}

uint64_t vs_limit_left(int device)
{
    struct limit *l = &limits[device];
    int saved = errno;
    vs_lock_take(&l->lock);
    uint64_t used = vs_limit_used(device), bytes = vs_limit_of(device);
    vs_lock_give(&l->lock);
    errno = saved;
    return used == UINT64_MAX ? bytes : used < bytes ? bytes - used : 0;
}
