/*
 * extents.h - free and taken room in a line of addresses, and the free room that fits a size best.
 *
 * Extents are linked in order of addresses, and neighbours that are free are one.  Free ones are also in
 * lists by size: 128 to each power of two, with a bit for each list that is not empty.  Sizes and addresses
 * have the caller's unit.  Extents are numbers; 0 is none.  Not thread-safe.
 */
#ifndef VS_REPLAY_EXTENTS_H
#define VS_REPLAY_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXTENTS_FINE  7 /* bits of a size below its highest that choose the list */
#define EXTENTS_LISTS (64u << EXTENTS_FINE)

struct extent {
    uint64_t at, size;
    uint32_t before, behind; /* neighbours; 0: none */
    uint32_t previous, next; /* in the list; of a spare one `next` */
    bool taken;
};

struct extents {
    struct extent *extents; /* from 1 */
    size_t n;
    uint32_t spare, last; /* last: the highest */
    uint32_t lists[EXTENTS_LISTS];
    uint64_t used[EXTENTS_LISTS / 64]; /* bits */
    uint64_t top, height;              /* of extents_extend: the end of the last one; the most that it was */
};

void extents_begin(struct extents *h); /* H is zeroed */
void extents_end(struct extents *h);

/* A free extent that holds SIZE, cut to it; 0: none was found, though one of hardly more than SIZE may be
 * there. */
uint32_t extents_take(struct extents *h, uint64_t size);
/* New room above everything, from the free room at the top on. */
uint32_t extents_extend(struct extents *h, uint64_t size);
void extents_give(struct extents *h, uint32_t number);

#endif
