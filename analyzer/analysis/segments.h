/*
 * segments.h - a caching allocator's memory at an event of a tape (read/tape.h): the segments that it holds
 * of the driver, by address, and the blocks in them.
 */
#ifndef VS_ANALYSIS_SEGMENTS_H
#define VS_ANALYSIS_SEGMENTS_H

#include "read/tape.h"

enum state { GONE, LIVES, WAITS };

struct block {
    int64_t address, size;
    uint32_t id;
    enum state state;
};

struct segment {
    int64_t address, size;
    size_t born;   /* its event */
    int64_t lives; /* bytes of the blocks that live there */
    uint16_t stream;
    bool mapped;
};

struct layout {
    const struct trace_tape *tape;
    struct block *blocks; /* by id */
    size_t block_count;
    struct segment *segments; /* by address */
    size_t segment_count;
    size_t done;   /* events */
    int64_t limit; /* that the program set last; 0: none */
};

/* Follows the tape up to event UPTO. */
void segments_follow(struct layout *l, size_t upto);
void segments_free(struct layout *l);
/* The blocks that take room, in the order of their addresses; the caller frees them. */
struct block *segments_blocks(const struct layout *l, size_t *n, int64_t *living);
/* Sets what lives in each segment. */
void segments_count_living(struct layout *l, const struct block *blocks, size_t n);
/* Segments that touch are one where they are mapped, and of one stream and pool: the first behind those that
 * are one with segment I. */
size_t segments_joined(const struct layout *l, size_t i);

#endif
