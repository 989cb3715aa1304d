/*
 * flight.h - where each thread is: in a hooked call that may move a device's memory, inside an arena; see
 * flight.c.  Any thread, no lock.
 */
#ifndef VS_HOOKS_FLIGHT_H
#define VS_HOOKS_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VS_FLIGHTS 1024u

struct vs_flight {
    _Alignas(64) _Atomic bool under_way;
    _Atomic uint32_t inside; /* an arena (arena/cuda/scope.c); how many are, where it is shared */
    _Atomic pid_t thread;    /* 0: nobody's */
    bool shared;             /* by the threads that found none of their own */
};

extern __thread struct vs_flight *vs_flight_mine;
struct vs_flight *vs_flight_claim(void); /* never NULL */

static inline void vs_flight_begin(void)
{
    struct vs_flight *f = vs_flight_mine;
    if (__builtin_expect(f == NULL, 0))
        f = vs_flight_claim();
    atomic_store_explicit(&f->under_way, true, memory_order_relaxed);
}

/* Also of a call that a longjmp left, at the thread's next one.  Release: pairs with vs_flight_alone(). */
static inline void vs_flight_end(void)
{
    if (vs_flight_mine != NULL)
        atomic_store_explicit(&vs_flight_mine->under_way, false, memory_order_release);
}

/* Whether no other thread is inside such a call. */
bool vs_flight_alone(void);

/* The places, one by one; NULL beyond the last that was ever claimed. */
struct vs_flight *vs_flight_place(unsigned number);

#endif
