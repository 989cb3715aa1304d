/*
 * build.h - makes an edited program, an event at a time.
 *
 *      struct build b;
 *      build_begin(&b, from);
 *      for (size_t i = 0; i < from->event_count; i++)
 *          ... build_copy(&b, i), or instead of it build_born, build_died, or nothing ...
 *      *to = build_end(&b);
 */
#ifndef VS_EDIT_BUILD_H
#define VS_EDIT_BUILD_H

#include "program.h"

struct build {
    const struct program *from;
    struct program to;
    uint32_t *now; /* by block of FROM: its number in TO; BLOCK_NEVER: it is not there, or not yet */
};

void build_begin(struct build *b, const struct program *from);
struct program build_end(struct build *b);

/* The event as it was.  The death of a block that is not there is no event. */
void build_copy(struct build *b, size_t event);
/* A block like LIKE, of SIZE bytes (0: none), in PHASE; its number. */
uint32_t build_born(struct build *b, const struct edit_block *like, uint64_t size, uint16_t phase,
                    enum edit_kind kind);
/* Nothing where BLOCK is BLOCK_NEVER, or dead. */
void build_died(struct build *b, uint32_t block, uint16_t phase);
/* What allocators round to. */
uint64_t build_round(uint64_t size);

#endif
