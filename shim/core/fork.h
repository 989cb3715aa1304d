/*
 * fork.h - how the library finds out that it runs in a child of fork.
 *
 * A child has all of its parent's memory and none of its threads: a lock that another thread held stays held,
 * what it was changing is half changed, and a descriptor or a mapping leads to the parent's files.  Asking
 * for the pid at each event would cost a system call, and handlers of pthread_atfork do not see a raw clone.
 * So the kernel is asked to wipe memory in the child (MADV_WIPEONFORK), in two forms:
 *
 *   - what a child must not go on with lies in wiped memory, and the child finds zeros;
 *   - who keeps something of its own beside that remembers the number of the process, and compares.
 *
 * Nothing else in the library looks for forks.  (A child of vfork shares its parent's memory, and is the
 * parent to both; the pid tells them apart where that matters: sample/query.c, record/drain.c.)
 *
 * Before Linux 4.14 the kernel cannot wipe: then a handler of pthread_atfork does, where one is given, and a
 * raw clone is not seen.
 */
#ifndef VS_CORE_FORK_H
#define VS_CORE_FORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arch/cpu.h"

extern union vs_fork_page {
    uint32_t number; /* atomic; wiped in a child */
    char page[VS_ARCH_PAGE];
} vs_fork_page;
uint32_t vs_fork_number_slow(void);

/* The number of this process among its ancestors: never 0, never an ancestor's, and as long as it lives the
 * same.  One load, but for the first call in each process; at any moment, in signal handlers too. */
static inline uint32_t vs_fork_number(void)
{
    /* relaxed: the number says nothing about other memory, and a child begins with one thread */
    uint32_t number = __atomic_load_n(&vs_fork_page.number, __ATOMIC_RELAXED);
    return __builtin_expect(number != 0, 1) ? number : vs_fork_number_slow();
}

/* Has the whole pages from PAGES on wiped in children.  WIPE is called in a child of fork where the kernel
 * cannot; NULL: the child then finds its parent's bytes.  Whether the kernel does it.  Keeps errno. */
bool vs_fork_wipes(void *pages, size_t bytes, void (*wipe)(void));

/* BYTES of zeros that a child finds as zeros again; NULL without memory. */
void *vs_fork_wiped_memory(size_t bytes, void (*wipe)(void));
/* Likewise, and NULL where the kernel cannot wipe. */
void *vs_fork_wiped_or_none(size_t bytes);

#endif
