/*
 * hook.h - entering and leaving a hooked call, and which threads are in one.
 *
 * Any thread, no lock.
 */
#ifndef VS_HOOKS_HOOK_H
#define VS_HOOKS_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/presence.h"
#include "record/record.h"

static inline void vs_flight_begin(void)
{
    struct vs_presence *p = vs_presence_mine;
    if (__builtin_expect(p == NULL, 0))
        p = vs_presence_claim();
    atomic_store_explicit(&p->under_way, true, memory_order_relaxed);
}

/* Also of a call that a longjmp left, at the thread's next one.  Release: pairs with vs_flight_alone(). */
static inline void vs_flight_end(void)
{
    if (vs_presence_mine != NULL)
        atomic_store_explicit(&vs_presence_mine->under_way, false, memory_order_release);
}

/* Whether no other thread is inside such a call. */
bool vs_flight_alone(void);

/* The frame of the outermost hooked call of this thread, 0 outside. */
extern __thread uintptr_t vs_hook_outermost;
extern _Atomic bool vs_hook_called;

/* Whether the process has called into the driver through a hook; before that we must not call the driver.
 * One load. */
bool vs_cuda_seen(void);

/* Whether this call is inside another hooked call: some drivers call one exported function from another
 * through the PLT, and only the outermost is an event.  If this frame does not lie below the outermost
 * one's, that one was left by a longjmp.  Always inline: the frame must be the wrapper's. */
static inline __attribute__((always_inline)) bool vs_hook_nested(void)
{
    return vs_hook_outermost != 0 && (uintptr_t)__builtin_frame_address(0) < vs_hook_outermost;
}

/* Whether memory of SPACE is part of the driver's figure of a device. */
static inline bool vs_space_moves(enum vs_space space)
{
    return space != VS_SPACE_PINNED && space != VS_SPACE_REGISTERED && space != VS_SPACE_IMPORTED &&
           space != VS_SPACE_ADDRESS;
}

/* The call at FRAME is the outermost one of this thread. */
static inline void vs_hook_begin(uintptr_t frame, bool moves)
{
    if (moves)
        vs_flight_begin();
    vs_hook_outermost = frame;
    /* relaxed: a flag by itself, which tells whether the driver may be called */
    if (!atomic_load_explicit(&vs_hook_called, memory_order_relaxed))
        atomic_store_explicit(&vs_hook_called, true, memory_order_relaxed);
}

/* True: record this call, and vs_hook_leave() afterwards.  False: nested, or nothing is recorded.  MOVES: it
 * may take memory of a device or give some back. */
static inline __attribute__((always_inline)) bool vs_hook_enter_as(bool moves)
{
    if (vs_hook_nested() || !vs_record_enabled())
        return false;
    vs_hook_begin((uintptr_t)__builtin_frame_address(0), moves);
    return true;
}

static inline __attribute__((always_inline)) bool vs_hook_enter(void)
{
    return vs_hook_enter_as(true);
}

static inline void vs_hook_leave(void)
{
    vs_hook_outermost = 0;
    vs_flight_end();
}

#endif
