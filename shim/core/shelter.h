/*
 * shelter.h - keeps a piece of our own work on a host's thread whole: no signal handler of the host
 * interrupts it (and jumps out of it), no cancellation ends the thread in the middle of it.
 *
 *      struct vs_shelter s;
 *      vs_shelter_enter(&s);  ...  vs_shelter_leave(&s);
 *
 * For the rare paths only (starting, late drains, words on stderr): four system calls.
 */
#ifndef VS_CORE_SHELTER_H
#define VS_CORE_SHELTER_H

#include <pthread.h>
#include <signal.h>

#include "guard.h"

struct vs_shelter {
    sigset_t signals;
    int cancel;
};

static inline void vs_shelter_enter(struct vs_shelter *s)
{
    sigset_t all;
    sigfillset(&all);
    if (vs_guard_installed()) /* blocked, it would kill */
        sigdelset(&all, SIGBUS);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
    pthread_sigmask(SIG_SETMASK, &all, &s->signals);
}

/* The mask last: a signal that waited finds the thread as it was. */
static inline void vs_shelter_leave(const struct vs_shelter *s)
{
    pthread_setcancelstate(s->cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &s->signals, NULL);
}

#endif
