/*
 * wiped.h - memory that a fork child finds empty.
 *
 * A thread of the parent may be in the middle of anything when another one forks: what it was changing is
 * half changed in the child, and a lock that it held stays held.  The child starts from zeros instead, also
 * after a raw clone, and nobody has to ask for the pid to find out.
 */
#ifndef VS_TRACE_WIPED_H
#define VS_TRACE_WIPED_H

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* BYTES of zeros, NULL without memory.  Where the kernel cannot wipe (before 4.14), WIPE is called in a child
 * of fork. */
static inline void *vs_wiped_memory(size_t bytes, void (*wipe)(void))
{
    void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return NULL;
    if (madvise(m, bytes, MADV_WIPEONFORK) != 0)
        pthread_atfork(NULL, NULL, wipe);
    return m;
}

#endif
