/*
 * signal_mask.h - blocks signals and cancellation during our own work on a host's thread, so that no signal
 * handler of the host interrupts it (and jumps out of it) and no cancellation ends the thread in the middle
 * of it.
 *
 *      struct vs_signal_mask s;
 *      vs_signal_mask_block(&s);  ...  vs_signal_mask_restore(&s);
 *
 * For rare paths only (starting, late drains, messages): it costs four system calls.
 */
#ifndef VS_CORE_SIGNAL_MASK_H
#define VS_CORE_SIGNAL_MASK_H

#include <pthread.h>
#include <signal.h>

#include "guard.h"

struct vs_signal_mask {
    sigset_t signals;
    int cancel;
};

static inline void vs_signal_mask_block(struct vs_signal_mask *s)
{
    sigset_t all;
    sigfillset(&all);
    if (vs_guard_installed()) /* a blocked SIGBUS would kill the process */
        sigdelset(&all, SIGBUS);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
    pthread_sigmask(SIG_SETMASK, &all, &s->signals);
}

/* The mask is restored last, so that the handler of a blocked signal finds the thread as it was. */
static inline void vs_signal_mask_restore(const struct vs_signal_mask *s)
{
    pthread_setcancelstate(s->cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &s->signals, NULL);
}

#endif
