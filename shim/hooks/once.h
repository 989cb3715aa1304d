/*
 * once.h - remembers which calls that take device memory were measured, so that none is measured twice.
 *
 * A call is known by its row of driver.def, the object that it names (with the name, if it looks one up in a
 * module) and the current context; the first of each is measured.  Keys of a module or library are forgotten
 * when it is unloaded, and all keys when a context ends, because handles may be reused.  If a key finds no
 * place in the table its calls are never measured.  Any thread, also in a signal handler: no lock, no
 * allocation.
 */
#ifndef VS_HOOKS_ONCE_H
#define VS_HOOKS_ONCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver.h"

#define VS_ONCE_BITS 15
#define VS_ONCE      (1u << VS_ONCE_BITS)

/* 0: free; 1: free again.  A launch is known by the kernel's handle alone as long as there is one context. */
extern _Atomic uint64_t vs_once_keys[VS_ONCE];
extern _Atomic bool vs_once_many_contexts;

/* The place of a key that was just taken, to be given back by vs_once_again(). */
typedef _Atomic uint64_t *vs_first;
/* Returned if there was no place: the call is not measured, and an event says so. */
extern _Atomic uint64_t vs_once_full;

static inline uint32_t vs_once_hash(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - VS_ONCE_BITS));
}

vs_first vs_once_launch_slow(const void *kernel);

/* The place of KERNEL if this is its first launch in the current context; else NULL.  One load for the usual
 * launch.  Relaxed: a key is complete in itself, and nothing is published by it. */
static inline vs_first vs_once_launch(const void *kernel)
{
    uint64_t key = (uintptr_t)kernel;
    if (__builtin_expect(atomic_load_explicit(&vs_once_keys[vs_once_hash(key)], memory_order_relaxed) ==
                                 key &&
                             !atomic_load_explicit(&vs_once_many_contexts, memory_order_relaxed),
                         1))
        return NULL;
    return vs_once_launch_slow(kernel);
}

/* Likewise for the first call of API about KERNEL (or function) in the current context. */
vs_first vs_once_kernel(enum vs_api api, const void *kernel);
/* ... about MODULE (or library) and what is called NAME in it (NULL: it as a whole) */
vs_first vs_once_module(enum vs_api api, const void *module, const char *name);
/* ... about NUMBER, which ends with its context only */
vs_first vs_once_number(enum vs_api api, uintptr_t number);

/* Notes that KERNEL, which a call just returned, belongs to the module or library OWNER; 0: unknown. */
void vs_once_belongs(const void *kernel, uintptr_t owner);
uintptr_t vs_once_owner(const void *kernel);
/* CONTEXT is in use. */
void vs_once_context(CUcontext context);

/* The call did not happen after all: the next one counts as the first. */
void vs_once_again(vs_first first);

/* The module or library OWNER is unloaded. */
void vs_once_forget(const void *owner);
/* The context ENDED has ended; NULL: all have, as in a fork's child. */
void vs_once_forget_all(CUcontext ended);

/* The number of living streams: a stream takes memory only if more live than ever before, because the driver
 * reuses the memory of ended ones. */
extern _Atomic uint32_t vs_once_streams;
static inline uintptr_t vs_once_streams_next(void)
{
    return atomic_load_explicit(&vs_once_streams, memory_order_relaxed) + (uintptr_t)1;
}

#endif
