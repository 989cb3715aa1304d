/*
 * markers.h - what markers.c asks of hooks, which it does not know.
 */
#ifndef VS_FRAMEWORK_MARKERS_H
#define VS_FRAMEWORK_MARKERS_H

/* To be told once of each pool ("JAX", "CuPy") that says that it uses memory.  preload/init.c fills it in;
 * NULL: nobody. */
extern void (*vs_pool_seen)(const char *pool);

#endif
