/*
 * presence.h - lets a thread see which calls other threads are in: a hooked call that may move a device's
 * memory (hooks/hook.h), a call into the provider (arena/device/served.c), or one that gives work to the
 * device (arena/away/gate.h).
 *
 * Each thread claims a place at its first such call, so that entering and leaving are plain stores.  When all
 * are taken, those of threads that have ended are claimed anew; if there are none, the thread uses one place
 * that is shared.  Any thread, no lock.
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
    _Atomic uint32_t inside;             /* the provider; in the shared place, how many threads are */
    _Atomic uint32_t giving;             /* work to the device, likewise; calls of one thread may nest */
    _Atomic pid_t thread;                /* the owner; 0: free */
    _Atomic uint64_t looked; /* giving: the work whose operands were looked at (arena/away/park.c); 0: none */
    bool shared;             /* by all threads without a place of their own */
};

extern __thread struct vs_presence *vs_presence_mine; /* NULL: not claimed yet */
struct vs_presence *vs_presence_claim(void);          /* never NULL */

/* The places one by one, the shared one last; NULL beyond it. */
struct vs_presence *vs_presence_at(unsigned number);
/* Whether its thread has ended. */
bool vs_presence_gone(struct vs_presence *place);

#endif
