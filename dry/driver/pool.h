/*
 * pool.h - memory pools between pool.c (what the API does with them) and pool_pieces.c (their bytes).
 */
#ifndef DRY_DRIVER_POOL_H
#define DRY_DRIVER_POOL_H

#include "sim.h"

#define SEGMENT (32ull << 20)
#define PIECE   512ull

struct piece {
    struct piece *next, *previous;           /* in the order of addresses, within the segment */
    struct piece *next_free, *previous_free; /* among the pool's free pieces */
    struct segment *segment;
    uint64_t start, size;
    bool used;
};
struct segment {
    struct segment *next;
    struct sim_pool *pool;
    struct piece *pieces;
    uint64_t start, size;
};
struct sim_pool {
    struct sim_pool *next;
    struct segment *segments;
    struct piece *free_pieces; /* last freed first */
    int device;
    bool is_default, destroyed;
    bool shareable; /* made to be exported */
    int fd;         /* the file that it is exported as, -1: not yet */
    int exporter;   /* pid, of an imported pool, which only pointers are imported from; else 0 */
    uint32_t id;    /* within the exporting process */
    uint64_t threshold, max_size;
    uint64_t reserved, reserved_high, used, used_high;
    int reuse[3]; /* the three CU_MEMPOOL_ATTR_REUSE_* switches: kept, without effect */
    CUmemAccess_flags access[SIM_MAX_DEVICES];
};

struct sim_pool *sim_pool_new(int device); /* NULL: out of memory */
struct sim_pool *sim_pool_from(CUmemoryPool handle);
CUmemoryPool sim_pool_handle(struct sim_pool *pool);

/* Takes SIZE more bytes from the device; false: over the pool's maximum or the device's capacity. */
bool sim_pool_grow(struct sim_pool *pool, uint64_t size);
/* Gives segments that are wholly free back, as long as KEEP bytes stay. */
void sim_pool_trim(struct sim_pool *pool, uint64_t keep);

struct piece *sim_pool_find(struct sim_pool *pool, uint64_t size); /* a free one of at least SIZE, or NULL */
bool sim_piece_cut(struct piece *piece, uint64_t size);            /* its first SIZE bytes become used */
void sim_piece_give_back(struct piece *piece);                     /* free, one with its free neighbours */

#endif
