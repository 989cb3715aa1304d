/*
 * once.h - which calls that take device memory were measured already, so that none is measured twice.
 *
 * A kernel's code is loaded once, however often the kernel is launched, and a program may ask for a kernel's
 * function in every step.  So a call is known by its row of driver.def, the object that it names (with the
 * name, where it looks one up in a module) and the current context; the first of each is measured.  What a
 * module or a library owns is forgotten when that is unloaded, everything when a context ends: handles may
 * come back as something else's.
 *
 * The table is of a fixed size.  Where a key finds no place the call is not measured, and neither is any
 * later one of the same key.  Any thread, also in a signal handler: no lock, no allocation.
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
/* What stands for a place where there was none: the call is not measured, and an event says so. */
extern _Atomic uint64_t vs_once_full;

static inline uint32_t vs_once_hash(uint64_t key)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - VS_ONCE_BITS));
}

vs_first vs_once_launch_slow(const void *kernel);

/* Where this is the first launch of KERNEL in the current context; else NULL.  One load for the usual launch.
 * Relaxed: a key is complete in itself, and nothing is published by it. */
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

/* Where this is the first call of API about KERNEL (or function) in the current context; else NULL. */
vs_first vs_once_kernel(enum vs_api api, const void *kernel);
/* ... about MODULE (or library) and what is called NAME in it (NULL: it as a whole) */
vs_first vs_once_module(enum vs_api api, const void *module, const char *name);
/* ... about NUMBER, which ends with its context only */
vs_first vs_once_number(enum vs_api api, uintptr_t number);

/* KERNEL, as a call just returned it, is of the module or library OWNER; 0: nobody knows. */
void vs_once_belongs(const void *kernel, uintptr_t owner);
uintptr_t vs_once_owner(const void *kernel);
/* CONTEXT is in use. */
void vs_once_context(CUcontext context);

/* The call did not happen after all: the next one is the first. */
void vs_once_again(vs_first first);

/* The module or library OWNER is unloaded. */
void vs_once_forget(const void *owner);
/* The context ENDED has; NULL: all have, as in a fork's child. */
void vs_once_forget_all(CUcontext ended);

/* Streams that live: a stream takes memory only where more live than ever did before, since the driver keeps
 * what an ended one had. */
extern _Atomic uint32_t vs_once_streams;
static inline uintptr_t vs_once_streams_next(void)
{
    return atomic_load_explicit(&vs_once_streams, memory_order_relaxed) + (uintptr_t)1;
}

#endif
