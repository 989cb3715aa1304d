/*
 * product_tiles.cuh - the tiles of a product, and the order in which clusters take them, which every block
 * computes from the count of tokens in device memory.
 *
 * A cluster takes one tile of HEIGHT x WIDTH a turn, down some rows of tiles, then in the next column: so
 * tiles that are computed at the same time share operands.  The last turn's tiles may be split
 * (product_split.h).
 */
#ifndef LCE_CUDA_PRODUCT_TILES_CUH
#define LCE_CUDA_PRODUCT_TILES_CUH

#include "product_args.h"
#include "product_split.h"

namespace lce
{

/* The shape of a product, as computed on the device. */
struct OwnShape {
    int32_t m, n;
    int32_t k_first, k_steps; /* of 64 */
    int32_t rows, columns;    /* tiles of a cluster */
    int32_t group;
    int32_t clusters;
    int32_t whole; /* tiles that are not split: rounds of all clusters */
    int32_t rest;  /* tiles after them, each of which is split */
    int32_t split, stints, batches;
    int32_t turns; /* of all clusters together */
};

__device__ inline void split_rest(OwnShape &s, int32_t room)
{
    const int32_t rest = s.whole % s.clusters;
    const lce_split best =
        lce_split_tiles(rest, s.clusters, s.k_steps, room == LCE_TWO_PARTS ? 2 * rest : room);
    if (best.split == 0)
        return;
    s.rest = rest;
    s.split = best.split;
    s.stints = best.stints;
    s.batches = best.batches;
    s.whole -= rest;
    s.turns = s.whole + (s.batches > 1 ? s.batches : 1) * s.clusters;
}

__device__ inline int32_t tokens_of(const lce_own_args &a)
{
    if (!a.counted)
        return a.tokens;
    const int64_t left = *a.counted - a.first;
    return static_cast<int32_t>(left < 0 ? 0 : left < a.tokens ? left : a.tokens);
}

template <bool TokensAreK>
__device__ inline OwnShape shape_of(const lce_own_args &a, int32_t height, int32_t width)
{
    OwnShape s;
    const int32_t tokens = tokens_of(a), k = TokensAreK ? tokens : a.k;
    s.m = TokensAreK ? a.m : tokens;
    s.n = a.n;
    s.k_steps = k > 0 ? (k + LCE_TILE_K - 1) / LCE_TILE_K : 1;
    s.k_first =
        k > 0 ? 0 : 1 << 24; /* an empty sum: one step far beyond the operands, where everything is 0 */
    s.rows = (s.m + height - 1) / height;
    s.columns = (s.n + width - 1) / width;
    s.group = a.group < s.rows ? a.group : s.rows;
    s.clusters = a.clusters;
    s.whole = s.turns = s.rows * s.columns;
    s.rest = s.batches = 0;
    s.split = s.stints = 1;
    if (a.room != 0)
        split_rest(s, a.room);
    return s;
}

/* A tile of a cluster, or a part of one. */
struct OwnTile {
    int32_t m, n;  /* its first row and column */
    int32_t place; /* its index */
    int32_t part;  /* where the sums of a part go; -1: the tile is whole */
    int32_t waits; /* how many parts of the tile are added before this one */
    int32_t k_begin, k_end;
    bool none;
};

/* The range of k of a part: the first part of a stint, or the last.
 *
 * Where dinput is summed over slabs, the at most two parts of a tile are added in a fixed order: what a stint
 * gave away before the stint; of two stints the second one first.  So a part waits for one of a cluster with
 * a larger number, or of its own earlier turn.  That cluster must be running: if it had no multiprocessor
 * yet, and the kernel that holds it waits for this one to end, both would wait for ever.  Blocks begin in the
 * order of their index, so clusters are then numbered from the last block on (own_product). */
__device__ inline int32_t part_of_turn(const OwnShape &s, int32_t turn, OwnTile &t)
{
    const int32_t round = turn / s.clusters, cluster = turn % s.clusters, left = s.clusters - s.stints;
    const bool last = cluster >= s.stints;
    const int32_t stint = last ? cluster - s.stints + round * left : cluster;
    t.none = last ? s.batches == 0 || stint >= s.stints : round > 0;
    t.part = last ? s.stints + stint : stint;
    const int32_t which = stint / s.rest;
    t.waits = s.split - 1 - which + (last || s.batches == 0 ? 0 : s.split);
    const int32_t begin = static_cast<int32_t>(static_cast<int64_t>(s.k_steps) * which / s.split),
                  end = static_cast<int32_t>(static_cast<int64_t>(s.k_steps) * (which + 1) / s.split);
    const int32_t middle = s.batches > 0 ? end - (end - begin + s.batches) / (s.batches + 1)
                                         : end; /* at least one step for the last */
    t.k_begin = last ? middle : begin;
    t.k_end = t.none ? t.k_begin : last ? end : middle;
    return s.whole + stint % s.rest;
}

/* Tiles follow one another down a group of rows, then in the next column of the group. */
template <int Height, int Width> __device__ inline OwnTile tile_of(const OwnShape &s, int32_t turn)
{
    OwnTile t = {0, 0, 0, -1, 0, 0, s.k_steps, false}; /* k is empty if there is no tile */
    const int32_t place = turn < s.whole ? turn : part_of_turn(s, turn - s.whole, t);
    t.place = place;
    const int32_t all = s.group * s.columns, group = place / all, first = group * s.group;
    const int32_t height = s.rows - first < s.group ? s.rows - first : s.group, inside = place - group * all;
    t.m = (first + inside % height) * Height;
    t.n = inside / height * Width;
    return t;
}

/* The inverse: the index of the tile that has this element. */
__device__ inline int32_t place_of(const OwnShape &s, int32_t row, int32_t column, int32_t height,
                                   int32_t width)
{
    const int32_t down = row / height, group = down / s.group, first = group * s.group;
    const int32_t rows = s.rows - first < s.group ? s.rows - first : s.group;
    return first * s.columns + column / width * rows + down - first;
}

/* Of a split tile: how many parts it has, and which, in the order of k. */
__device__ inline int32_t parts_of(const OwnShape &s)
{
    return (s.batches > 0 ? 2 : 1) * s.split;
}
__device__ inline int32_t part_of_place(const OwnShape &s, int32_t place, int32_t which)
{
    if (s.batches == 0)
        return place - s.whole + which * s.rest;
    return place - s.whole + which / 2 * s.rest + which % 2 * s.stints;
}

} // namespace lce

#endif
