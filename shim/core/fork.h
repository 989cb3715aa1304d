/*
 * fork.h - how the library finds out that it runs in a child of fork, and memory of its own.
 *
 * A child has its parent's memory and none of its threads: locks stay held, data half changed, and
 * descriptors and mappings lead to the parent's files.  Comparing the pid at each event would cost a system
 * call, and handlers of pthread_atfork do not see a raw clone.  So the kernel wipes memory in the child
 * (MADV_WIPEONFORK): state that a child must not use lies there; code that runs seldom compares the pid.
 */
#ifndef VS_CORE_FORK_H
#define VS_CORE_FORK_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "core/arch/cpu.h"

extern union vs_fork_page {
    uint32_t number; /* atomic; wiped in a child */
    char page[VS_ARCH_PAGE];
} vs_fork_page;
uint32_t vs_fork_number_slow(void);

/* The number of this process: never 0, different from those of all its ancestors, and constant as long as it
 * lives.  One load, except for the first call in each process.  May be called at any moment, in signal
 * handlers too. */
static inline uint32_t vs_fork_number(void)
{
    /* relaxed: the number guards no other memory, and a child begins with one thread */
    uint32_t number = __atomic_load_n(&vs_fork_page.number, __ATOMIC_RELAXED);
    return __builtin_expect(number != 0, 1) ? number : vs_fork_number_slow();
}

/* ---- pages of our own, for what must not come from the host's heap ---- */

/* BYTES of zeros; NULL where there are none; to be given back by munmap.  They take no memory before they are
 * touched.  errno is kept. */
static inline void *vs_map(size_t bytes)
{
    int saved = errno;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    return p == MAP_FAILED ? NULL : p;
}

/* Has the pages from PAGES on wiped in children.  True: the kernel does it.  If it cannot, WIPE is called in
 * children of fork; with WIPE NULL a child then finds its parent's bytes.  Keeps errno.
 *
 * Nothing else in the library detects forks.  (A child of vfork shares its parent's memory and has the same
 * number; where that matters the pid is compared: sample/query.c, record/drain.c.)  Before Linux 4.14 the
 * kernel cannot wipe: then a handler of pthread_atfork does, if one is given, and a raw clone is not
 * detected. */
bool vs_fork_wipes(void *pages, size_t bytes, void (*wipe)(void));

/* BYTES of zeros that a child finds as zeros again; NULL without memory. */
void *vs_fork_wiped_memory(size_t bytes, void (*wipe)(void));

/* What *PLACE leads to: BYTES of zeros that whoever asks first maps there, for good.  NULL: there is no
 * memory, or it is to be WIPED in children and the kernel cannot.  Any thread, any signal handler; keeps
 * errno. */
void *vs_map_once_now(void *_Atomic *place, size_t bytes, bool wiped);
static inline void *vs_map_once(void *_Atomic *place, size_t bytes, bool wiped)
{
    /* acquire: a thread that sees the pointer sees zeros behind it */
    void *there = atomic_load_explicit(place, memory_order_acquire);
    return __builtin_expect(there != NULL, 1) ? there : vs_map_once_now(place, bytes, wiped);
}

#endif
