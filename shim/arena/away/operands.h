/*
 * operands.h - what of the memory that is away a call of the driver's would touch.
 *
 * Asked while the gate is not open, by a thread that entered it for a look (gate.h): SEEN is the state that
 * it saw.  Before the driver has checked anything, so every pointer may be NULL.
 */
#ifndef VS_ARENA_AWAY_OPERANDS_H
#define VS_ARENA_AWAY_OPERANDS_H

#include "gate.h"
#include "hooks/given.h"

enum vs_operands {
    VS_OPERANDS_HERE, /* nothing that is away */
    VS_OPERANDS_AWAY, /* or nobody knows */
    VS_OPERANDS_NONE  /* the device gets nothing by this call, in whatever state the gate is */
};

enum vs_operands vs_operands_launch(enum vs_gate_state seen, CUfunction f, CUstream stream,
                                    struct vs_grid grid, void **params, void **extra);
enum vs_operands vs_operands_graph(enum vs_gate_state seen, CUgraphExec exec, CUstream stream);

/* Of the others only whether they touch what is away, where SEEN is CHECKED. */

bool vs_operands_at(uint64_t address, uint64_t size);
/* VALUE is written there. */
bool vs_operands_write(uint64_t address, uint64_t value);
bool vs_operands_ranges(const CUdeviceptr *list, const size_t *size, size_t count);
bool vs_operands_copy(uint64_t to, uint64_t from, uint64_t size);
bool vs_operands_copies(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *size, size_t count);
bool vs_operands_copy_2d(const CUDA_MEMCPY2D *copy);
bool vs_operands_copy_3d(const CUDA_MEMCPY3D *copy);
bool vs_operands_copy_peer(const CUDA_MEMCPY3D_PEER *copy);
bool vs_operands_copy_ops(const struct CUDA_MEMCPY3D_BATCH_OP_st *list, size_t count);
bool vs_operands_fill_node(const CUDA_MEMSET_NODE_PARAMS *params);
bool vs_operands_node(const CUgraphNodeParams *params);
bool vs_operands_words(const CUstreamBatchMemOpParams *list, size_t count);

/* A texture over linear memory is made: from then on any kernel may read that memory, without its address. */
void vs_operands_texture(void);
/* To be said before the gate is set to CHECKED: whether kernels may reach something that is away by an
 * address in memory (VS_ACCESS_STORED in trace/access.h).  No launch is known then. */
void vs_operands_reached(bool so);

#endif
