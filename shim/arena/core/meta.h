/*
 * meta.h - memory for the arena's own books, out of mmap alone.
 *
 * The arena runs inside the host's allocations, perhaps below its malloc, so it must not call malloc.  Small
 * pieces are powers of two carved from slabs, with a free list per size; pieces from VS_META_LARGE bytes on
 * are mappings of their own, which grow with mremap and cost nothing where they are not touched.
 */
#ifndef VS_ARENA_CORE_META_H
#define VS_ARENA_CORE_META_H

#include <stddef.h>
#include <stdint.h>

#define VS_META_LARGE   (64u << 10)
#define VS_META_CLASSES 17

struct vs_meta {
    void *vacant[VS_META_CLASSES]; /* lists of free pieces of 1 << class bytes */
    void *slabs;                   /* all slabs: the first word of each points to the next */
    char *at;                      /* what is left of the newest */
    size_t left;
    uint64_t held;       /* bytes of slabs and large pieces */
    uint64_t fail_after; /* tests: the call after so many fails; 0 = never */
};

/* A piece of NEW bytes with what stood in OLD (of OLD_BYTES bytes, NULL = none), the rest zero; the old piece
 * is gone. NULL where the host has no memory: then OLD is as it was. */
void *vs_meta_resize(struct vs_meta *m, void *old, size_t old_bytes, size_t new_bytes);
void vs_meta_give(struct vs_meta *m, void *piece, size_t bytes);
/* All small pieces at once; large ones must have been given back. */
void vs_meta_destroy(struct vs_meta *m);

/* Room for COUNT elements in an array whose capacity stands in *CAPACITY: grown by doubling.  0 or -1. */
int vs_meta_fit(struct vs_meta *m, void **array, uint32_t *capacity, size_t element, uint32_t count);

#endif
