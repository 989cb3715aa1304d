/*
 * barrier.h - a memory barrier of which nearly all of the cost is the rarer side's.
 *
 *      many threads, often        one thread, seldom
 *      a = 1                      b = 1
 *      vs_barrier_often           vs_barrier_seldom
 *      reads b                    reads every thread's a
 *
 * Either a thread reads b == 1, or the other reads that thread's a == 1.  Where the kernel makes the barrier
 * for all threads at once (membarrier), the one of the many is for the compiler alone; elsewhere it is a
 * fence.  Any thread, also in a signal handler; errno is kept.
 */
#ifndef VS_CORE_BARRIER_H
#define VS_CORE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool vs_barrier_of_kernel; /* and this process may use it; never taken back */

/* Asks the kernel for its barrier, once: before it answers, each of the many makes a fence. */
void vs_barrier_prepare(void);

static inline void vs_barrier_often(void)
{
    /* relaxed: a thread that does not know yet makes a barrier too many */
    if (__builtin_expect(atomic_load_explicit(&vs_barrier_of_kernel, memory_order_relaxed), 1))
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

/* False: the kernel had the barrier, and forbids it now. */
bool vs_barrier_seldom(void);

#endif
