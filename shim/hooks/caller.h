/*
 * caller.h - finds the library that calls the driver; see caller.c.
 */
#ifndef VS_HOOKS_CALLER_H
#define VS_HOOKS_CALLER_H

#include "trace/event.h"

/* The library that the code at CALLER belongs to, the address that a call returns to.  No lock, no memory;
 * keeps errno. */
enum vs_caller vs_caller_of(const void *caller);
/* To be called when POOL ("JAX", "CuPy") says that it uses memory: is it a library that is known by its file?
 */
void vs_caller_pool(const char *pool);
/* Takes the loader's lock for a moment, so that no later call has to. */
void vs_caller_prepare(void);

#endif
