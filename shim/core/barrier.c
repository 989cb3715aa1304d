/* barrier.c - see barrier.h. */
#define _GNU_SOURCE
#include "barrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic bool vs_barrier_of_kernel;

static bool call(int command)
{
    int saved = errno;
    bool made = syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = saved;
    return made;
}

void vs_barrier_prepare(void)
{
    if (!atomic_load_explicit(&vs_barrier_of_kernel, memory_order_relaxed) &&
        call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
        atomic_store_explicit(&vs_barrier_of_kernel, true, memory_order_relaxed);
}

bool vs_barrier_seldom(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return !atomic_load_explicit(&vs_barrier_of_kernel, memory_order_relaxed) ||
           call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}
