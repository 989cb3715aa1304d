/*
 * given.h - passes the addresses that launches, copies, fills and graphs give to the device to the access
 * ledger (access/use.h).
 *
 * All are called after the real call, if it succeeded and vs_access_on(): on the host's thread, while the
 * parameters still exist.  Work on a captured stream becomes a node, and counts when its graph is launched.
 * No lock, and only pages are allocated; the caller keeps errno.
 */
#ifndef VS_HOOKS_GIVEN_H
#define VS_HOOKS_GIVEN_H

#include "access/by_value.h"
#include "access/use.h"
#include "driver.h"

/* ---- given.c ---- */

/* A launch of F, which may be a CUkernel, over GRID, with PARAMS or EXTRA as cuLaunchKernel takes them. */
void vs_given_launch(CUfunction f, CUstream stream, struct vs_grid grid, void **params, void **extra);

/* SIZE bytes from FROM to TO; KINDS: VS_ACCESS_HOST where one of the two is the host's by the call's name. */
void vs_given_copy(enum vs_api api, CUstream stream, uint64_t to, uint64_t from, uint64_t size,
                   uint16_t kinds);
/* COUNT copies. */
void vs_given_copies(enum vs_api api, CUstream stream, const CUdeviceptr *to, const CUdeviceptr *from,
                     const size_t *size, size_t count);
void vs_given_copy_2d(enum vs_api api, CUstream stream, const CUDA_MEMCPY2D *copy);
void vs_given_copy_3d(enum vs_api api, CUstream stream, const CUDA_MEMCPY3D *copy);
void vs_given_copy_peer(enum vs_api api, CUstream stream, const CUDA_MEMCPY3D_PEER *copy);
void vs_given_copy_ops(enum vs_api api, CUstream stream, const struct CUDA_MEMCPY3D_BATCH_OP_st *list,
                       size_t count);
/* SIZE bytes at TO are filled. */
void vs_given_fill(enum vs_api api, CUstream stream, uint64_t to, uint64_t size);
/* Work by which the device may use any block. */
void vs_given_unseen(CUstream stream);

/* A tensor map was made for ADDRESS. */
void vs_given_map(const CUtensorMap *map, const void *address);

/* Streams are being captured: what is begun and ended between is counted. */
void vs_given_capture(int begun);

/* ---- for given_graph.c ---- */

struct vs_kernel;
/* The kernel's layout; NULL: there is no room for it. */
const struct vs_kernel *vs_given_kernel(CUfunction f);
/* The buffer of parameters in EXTRA; NULL: none. */
const void *vs_given_buffer(void **extra, size_t *size);
/* The string id of API's name, in the present journal. */
uint32_t vs_given_name(enum vs_api api);
bool vs_given_captured(CUstream stream);

/* ---- given_graph.c ---- */

/* EXEC was made of GRAPH, or updated to GRAPH. */
void vs_given_graph_made(CUgraphExec exec, CUgraph graph);
void vs_given_graph_gone(CUgraphExec exec);
/* EXEC was launched. */
void vs_given_graph(CUgraphExec exec, CUstream stream);
/* Calls VISIT for each word that a launch of EXEC gives and that may be an address, and SOURCE for memory
 * that it copies and that may be the host's.  False: it is not known whether it gives others. */
bool vs_given_graph_each(CUgraphExec exec, void (*visit)(void *context, uint64_t word),
                         void (*source)(void *context, uint64_t from, uint64_t size), void *context);
/* A node of EXEC has these parameters now. */
void vs_given_node_kernel(CUgraphExec exec, CUfunction f, struct vs_grid grid, void **params, void **extra);
void vs_given_node_copy(CUgraphExec exec, const CUDA_MEMCPY3D *copy);
void vs_given_node_fill(CUgraphExec exec, const CUDA_MEMSET_NODE_PARAMS *params);
void vs_given_node_graph(CUgraphExec exec, CUgraph graph);
void vs_given_node(CUgraphExec exec, const CUgraphNodeParams *params);

#endif
