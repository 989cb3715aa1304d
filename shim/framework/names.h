/*
 * names.h - names of ranges, phases and domains, interned once per process.
 *
 * A name is needed before there is a journal, and in a fork child with a journal of its own.  So the process
 * keeps its own copy, decides once which phase it names, and remembers its string id in the present journal.
 *
 * Thread-safety: any thread, any signal handler; no lock, no malloc.  A full table answers NULL, and callers
 * fall back to interning in the journal each time.
 */
#ifndef VS_FRAMEWORK_NAMES_H
#define VS_FRAMEWORK_NAMES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct vs_name {
    const char *text;
    uint32_t length;
    uint32_t index;        /* from 1: the number of a domain */
    struct vs_name *phase; /* private: vs_name_phase */
    uint64_t journal;      /* private: number of the process << 32 | string id */
};

/* Names longer than this are cut, as the journal's are. */
#define VS_NAME_MAX 4095

/* TEXT need not end in 0. NULL: no text, or the table is full. */
struct vs_name *vs_name_intern(const char *text, size_t length);

/* The phase that NVTX ranges of this name stand for, decided once; NULL: none. */
struct vs_name *vs_name_phase(struct vs_name *name);

/* The name's string id in the journal that records now; 0 before there is one. */
uint32_t vs_name_id(struct vs_name *name);

/* Interns the names of phases, which must be there even if the table gets full later. */
void vs_names_init(void);

/* Takes N units of *COUNT, of which there are LIMIT: the first one's number; LIMIT: there is no room, now or
 * later. */
static inline uint32_t vs_take(_Atomic uint32_t *count, uint32_t n, uint32_t limit)
{
    uint32_t old = atomic_load_explicit(count, memory_order_relaxed);
    do {
        if (limit - old < n)
            return limit;
        /* Relaxed: no other thread knows the place until its number is published. */
    } while (!atomic_compare_exchange_weak_explicit(count, &old, old + n, memory_order_relaxed,
                                                    memory_order_relaxed));
    return old;
}

#endif
