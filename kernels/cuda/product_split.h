/*
 * product_split.h - how the last tiles of dinput are split along k.  The kernel computes it from the count of
 * tokens (product_tiles.cuh), the host for its estimates (whose.c).
 *
 * If the last round has fewer tiles than clusters, each tile is split evenly into *stints*, as many as there
 * are clusters for.  Clusters that are left may take the last part of every stint:
 *
 *     48 tiles, 66 clusters:    48 clusters   | 0 ............ 3/4 |
 *                               18 clusters   | 3/4 .. 1 | 3/4 .. 1 | 3/4 .. 1 |
 *
 * So all clusters work at few places of k at a time, and find shared operands in the L2 cache.  The end of a
 * part, whose fp32 sums go to memory, takes as long as some steps of k: where few clusters are left for many
 * stints, stints stay whole.
 */
#ifndef LCE_CUDA_PRODUCT_SPLIT_H
#define LCE_CUDA_PRODUCT_SPLIT_H

#include <stdint.h>

#ifdef __CUDACC__
#define LCE_BOTH __host__ __device__
#else
#define LCE_BOTH
#endif

/* How much of H a cluster's tile of dinput or dweight has.  Narrow tiles are taken where less of the last
 * tile, or of the last round, stays empty. */
enum { LCE_WIDE = 256, LCE_NARROW = 192 };

/* The fewest steps (64 of k) of a stint, and how many steps the end of a part takes: 4.3 us on an H200, where
 * a step of a 256 x 256 tile takes 0.68. */
enum { LCE_SPLIT_LEAST_STEPS = 16, LCE_SPLIT_END_STEPS = 6 };

struct lce_split {
    int32_t split;   /* stints of a tile; 0: no tile is split */
    int32_t stints;  /* of all tiles */
    int32_t batches; /* last parts that a cluster without a stint computes; 0: stints are whole */
    uint32_t time;   /* until all are done, in 64ths of a step */
};

/* How many parts of tiles are stored. */
static inline LCE_BOTH int32_t lce_split_parts(const struct lce_split *s)
{
    return s->split ? (s->batches ? 2 : 1) * s->stints : 0;
}

/* Each of REST tiles with STEPS of k in SPLIT stints, of which each gives its last part away if BATCHES is
 * not 0. */
static inline LCE_BOTH struct lce_split lce_split_with(int32_t rest, int32_t steps, int32_t split,
                                                       int32_t batches)
{
    const uint32_t ends = batches ? (uint32_t)batches : 1, parts = (uint32_t)split * (batches ? ends + 1 : 1);
    struct lce_split s;
    s.split = split;
    s.stints = split * rest;
    s.batches = batches;
    s.time = (uint32_t)steps * 64 / parts * ends + 64 * LCE_SPLIT_END_STEPS * ends;
    return s;
}

/* The faster one that has room for its parts; a gain of less than 5 % is not worth a split. */
static inline LCE_BOTH struct lce_split lce_split_faster(struct lce_split a, struct lce_split b, int32_t room)
{
    const uint32_t least = a.split ? a.time : a.time / 20 * 19;
    return lce_split_parts(&b) <= room && b.time < least ? b : a;
}

/* The fastest way for REST tiles with STEPS of k, fewer than CLUSTERS, with memory for ROOM parts. */
static inline LCE_BOTH struct lce_split lce_split_tiles(int32_t rest, int32_t clusters, int32_t steps,
                                                        int32_t room)
{
    struct lce_split best = {0, 0, 0, (uint32_t)steps * 64};
    for (int32_t split = 1; rest > 0 && split * rest <= clusters && LCE_SPLIT_LEAST_STEPS * split <= steps;
         split++) {
        const int32_t stints = split * rest, left = clusters - stints;
        best = lce_split_faster(best, lce_split_with(rest, steps, split, 0), room);
        if (left > 0)
            best =
                lce_split_faster(best, lce_split_with(rest, steps, split, (stints + left - 1) / left), room);
    }
    return best;
}

#endif
