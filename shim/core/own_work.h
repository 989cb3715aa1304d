/*
 * own_work.h - our own work on a thread of the host's: with its signals and cancellation blocked, on a stack
 * of ours.
 *
 * No signal handler of the host's may interrupt it (and jump out of it), and no cancellation may end the
 * thread in the midst of it.  The thread's stack may be as small as 16 KiB (the smallest thread, or an
 * alternate signal stack), while the loader, SQLite and our own paths need more.  Events need little, and are
 * recorded on the host's stack.
 */
#ifndef VS_CORE_OWN_WORK_H
#define VS_CORE_OWN_WORK_H

#include <pthread.h>
#include <signal.h>

#include "guard.h"

/*      struct vs_signal_mask s;
 *      vs_signal_mask_block(&s);  ...  vs_signal_mask_restore(&s);
 *
 * For rare paths only (starting, late drains, messages): it costs four system calls. */
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

/* Calls FUNCTION(ARGUMENT) on a fresh stack of half a MiB; without memory for one, on the present stack.  The
 * caller blocks signals and cancellation: FUNCTION must be left by its return only. */
void vs_on_own_stack(void (*function)(void *), void *argument);

#endif
