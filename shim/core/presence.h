/*
 * presence.h - where each thread is, as far as another one must know: in a hooked call that may move a
 * device's memory (hooks/flight.h), inside what stands in the driver's place (arena/device/scope.c).
 *
 * Each thread has a place of its own, claimed the first time that it goes anywhere, so that to come and to go
 * are two plain stores.  A place is not given back: where all are taken, those of threads that are gone are
 * claimed anew, and where there are none of those either, the thread shares one with all that found none. Any
 * thread, no lock.
 */
#ifndef VS_CORE_PRESENCE_H
#define VS_CORE_PRESENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define VS_PRESENCES 1024u

struct vs_presence {
    _Alignas(64) _Atomic bool under_way; /* a hooked call */
    _Atomic uint32_t inside; /* what stands in the driver's place; how many threads are, where it is shared */
    _Atomic pid_t thread;    /* 0: nobody's */
    bool shared;             /* by the threads that found none of their own */
};

extern __thread struct vs_presence *vs_presence_mine; /* NULL: not claimed yet */
struct vs_presence *vs_presence_claim(void);          /* never NULL */

/* The places one by one, the shared one last; NULL beyond it. */
struct vs_presence *vs_presence_at(unsigned number);
/* Whether its thread has ended. */
bool vs_presence_gone(struct vs_presence *place);

#endif
