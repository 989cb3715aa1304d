/*
 * array.h - arrays between array.c (what they are) and array_sparse.c (what is bound into sparse ones).
 */
#ifndef DRY_DRIVER_ARRAY_H
#define DRY_DRIVER_ARRAY_H

#include "sim.h"

#define SIM_TILE 65536ull /* bytes */

struct sim_binding {
    struct sim_binding *next;
    CUarraySparseSubresourceType type;
    uint64_t place[7]; /* level, layer and the rest of the region, as it was given */
    struct sim_phys *phys;
};
struct sim_array {
    struct sim_range range;       /* start = handle */
    struct sim_array *next_level; /* levels that were handed out, in a list of their mipmap */
    struct sim_array *parent;     /* of a level */
    struct sim_context *owner;
    struct sim_binding *bindings;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned levels; /* 0: a plain array */
    int device;
    uint64_t bytes;   /* all levels and layers, without padding */
    uint64_t address; /* its memory; 0: sparse, deferred or imported */
    void *detail;
};
struct sim_array *sim_array_find(const void *handle, bool mipmapped); /* NULL: none */
struct sim_array *sim_array_next(const struct sim_array *after);
uint64_t sim_texel_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc); /* 0: a format that is not simulated */
CUDA_ARRAY3D_DESCRIPTOR sim_level_of(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level);
uint64_t sim_level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc);
void sim_array_unbind_all(struct sim_array *array);

#endif
