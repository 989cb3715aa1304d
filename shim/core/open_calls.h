/*
 * open_calls.h - calls of the program's that are under way on a thread: what lies outside of one stands
 * still.
 *
 * A walk over a thread's frames of an interpreter meets the same frames each time, most of them fallen out of
 * the processor's first caches since.  Where the interpreter calls a function of ours that calls the
 * interpreter (framework/calls.c), the frame that called it and all outside of that one cannot change before
 * it returns.  A walk (stacks/python.c) ends at that frame, and finds a hash of all the rest:
 *
 *      innermost ──▶ ... ──▶ frame of call 2 ──▶ ... ──▶ frame of call 1 ──▶ ... ──▶ outermost
 *                            └── hash, kept with call 2; made at the first walk within it, of the part up to
 *                                call 1 and of what call 1 keeps
 *
 * A thread's own, also from its signal handlers; no lock.
 */
#ifndef VS_CORE_OPEN_CALLS_H
#define VS_CORE_OPEN_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper calls keep nothing: a walk in one goes on to the innermost that does.  More would take the memory
 * that the C library has for thread-locals of libraries loaded later: these could then not be loaded after
 * us, or we (as an injection library) not at all. */
#define VS_OPEN_CALLS 7u

struct vs_open_call {
    uintptr_t frame;  /* the innermost of the interpreter's when the call began; 0: not known */
    uint64_t hash[2]; /* of that frame and all outside of it */
    uint32_t frames;  /* how many these are; 0: nobody has walked over them yet */
};

struct vs_open_calls {
    _Alignas(64) uint32_t open; /* calls that are under way */
    bool mixed;                 /* one was left before another one that began later */
    const void *state; /* the interpreter's of the thread, the same for all of them; NULL: not known */
    _Alignas(32) struct vs_open_call at[VS_OPEN_CALLS];
};
extern __thread struct vs_open_calls vs_open_calls;

/* Where a thread's state has its innermost frame (bytes): at CURRENT, or, HOLDER >= 0, at CURRENT of the
 * structure that the word at HOLDER points to.  CURRENT < 0: nobody knows. */
void vs_open_calls_frames_at(int holder, int current);
extern _Atomic uint32_t vs_open_calls_at;

/* The innermost frame of the calling thread, by its state; 0: not known. */
static inline uintptr_t vs_open_calls_frame(const void *state)
{
    uint32_t at = atomic_load_explicit(&vs_open_calls_at, memory_order_relaxed);
    uintptr_t from = (uintptr_t)state;
    if (!at)
        return 0;
    if (at >> 16)
        from = *(const uintptr_t *)(from + (at >> 16) - 1);
    return from ? *(const uintptr_t *)(from + (at & 0xffff) - 1) : 0;
}

/* A call begins whose caller has FRAME.  Returns what end() is to be told. */
static inline uint32_t vs_open_call_begin(uintptr_t frame)
{
    struct vs_open_calls *c = &vs_open_calls;
    uint32_t level = c->open;
    if (level < VS_OPEN_CALLS) {
        c->at[level].frame = frame;
        c->at[level].frames = 0;
    }
    atomic_signal_fence(memory_order_seq_cst); /* a handler on this thread may walk */
    c->open = level + 1;
    return level;
}

/* The same of a call on the thread with STATE. */
static inline uint32_t vs_open_call_begin_in(const void *state)
{
    struct vs_open_calls *c = &vs_open_calls;
    if (c->open == 0)
        c->state = state;
    else if (__builtin_expect(c->state != state, 0))
        c->state = NULL;
    return vs_open_call_begin(vs_open_calls_frame(state));
}

/* Programs that switch a thread's stack (greenlets) may leave calls in another order than they entered them.
 * That is noticed when the first such call is left, and from then on the thread's walks are whole; until then
 * the innermost open call has not returned, so what it keeps is right, and a walk that does not meet its
 * frame goes on to its end.  A call that is left by longjmp, which the interpreter forbids, stays the
 * innermost one until its outer call is left. */
static inline void vs_open_call_end(uint32_t level)
{
    struct vs_open_calls *c = &vs_open_calls;
    if (__builtin_expect(c->open != level + 1, 0))
        c->mixed = true;
    c->open = level;
}

/* The innermost open call that keeps something; NULL: there is none, or nothing can be kept. */
static inline struct vs_open_call *vs_open_call_innermost(void)
{
    struct vs_open_calls *c = &vs_open_calls;
    if (__builtin_expect(!c->open, 0) || __builtin_expect(c->mixed, 0))
        return NULL;
    return &c->at[(c->open < VS_OPEN_CALLS ? c->open : VS_OPEN_CALLS) - 1];
}

#endif
