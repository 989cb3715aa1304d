/*
 * graph.h - graphs with memory nodes: the nodes when they are made and when a graph is read, the launches,
 * and what a device's graphs have reserved.
 *
 * Any thread, no lock, no allocation but of pages.
 */
#ifndef VS_HOOKS_GRAPH_H
#define VS_HOOKS_GRAPH_H

#include <stdatomic.h>

#include "driver.h"
#include "trace/event.h"

/* ---- memory nodes (graph_nodes.c) ---- */

/* Set by the first memory node that the process makes; before it every wrapper of a graph function is a load
 * and a jump. */
extern _Atomic bool vs_graph_memory;
static inline bool vs_graph_memory_seen(void)
{
    /* relaxed: the thread that launches a graph with memory nodes is synchronized by the host with the
     * thread that made them */
    return __builtin_expect(atomic_load_explicit(&vs_graph_memory, memory_order_relaxed), 0);
}

/* Calls VISIT for each node of GRAPH.  False: the driver does not list them, or there is no memory for the
 * list. */
bool vs_graph_each_node(CUgraph graph, void (*visit)(void *context, CUgraphNode node, int depth),
                        void *context, int depth);

/* Whether STREAM is being captured: VS_CAPTURE_UNKNOWN: the driver does not answer. */
enum vs_capture { VS_CAPTURE_NO, VS_CAPTURE_YES, VS_CAPTURE_UNKNOWN };
enum vs_capture vs_capturing(CUstream stream);

/* A call that made a memory node, by capture (WHERE: the stream) or by hand (WHERE: the graph). */
void vs_after_graph_node(enum vs_api api, uint64_t where, uint64_t address, uint64_t size, CUresult status);
void vs_after_graph_add_node(enum vs_api api, CUgraph graph, const CUgraphNodeParams *params,
                             CUresult status);

/* Whether the free of ADDRESS on STREAM is a node of a graph that is being captured. */
bool vs_graph_captured_free(CUdeviceptr address, CUstream stream);

/* ---- allocations that survived a launch with AUTO_FREE_ON_LAUNCH ---- */

/* ADDRESS survives until it is freed, or until the next launch. */
void vs_graph_survives(uint64_t address);
bool vs_graph_survived(uint64_t address);
void vs_graph_freed(uint64_t address);

/* Counts N nodes or allocations that are not tracked, in the journal. */
void vs_graph_not_followed(uint64_t n);

/* ---- executable graphs (graph.c) ---- */

struct vs_graph_exec;
struct vs_graph_launch {
    enum vs_api api;
    struct vs_graph_exec *exec; /* NULL: nothing of ours */
    CUstream stream;
};

void vs_after_graph_instantiate(CUgraphExec exec, CUgraph graph, uint64_t flags, CUresult status);
void vs_after_graph_update(CUgraphExec exec, CUgraph graph, CUresult status);
struct vs_graph_launch vs_before_graph_launch(enum vs_api api, CUgraphExec exec, CUstream stream);
void vs_after_graph_launch(const struct vs_graph_launch *launch, CUresult status);
void vs_after_graph_upload(CUgraphExec exec);
uint64_t vs_graph_devices(CUgraphExec exec);
/* What a launch allocates at the most, if no allocation of it lies where another was freed. */
uint64_t vs_graph_bytes(CUgraphExec exec);
void vs_after_graph_destroy(CUgraphExec exec, uint64_t devices, CUresult status);

/* Records the memory that DEVICE's graphs have reserved, if it has changed. */
void vs_graph_sample(int device);
/* Makes the next figure be recorded even if it is the same. */
void vs_graph_reset(int device);

#endif
