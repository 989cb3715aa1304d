/*
 * graph.h - executable graphs with memory nodes: their launches, and the memory that a device's graphs have
 * reserved.
 *
 * Any thread, no lock.
 */
#ifndef VS_HOOKS_GRAPH_H
#define VS_HOOKS_GRAPH_H

#include "driver.h"

struct vs_graph_exec;
struct vs_launch {
    enum vs_api api;
    struct vs_graph_exec *exec; /* NULL: nothing of ours */
    CUstream stream;
};

void vs_after_graph_instantiate(CUgraphExec exec, CUgraph graph, uint64_t flags, CUresult status);
void vs_after_graph_update(CUgraphExec exec, CUgraph graph, CUresult status);
struct vs_launch vs_before_graph_launch(enum vs_api api, CUgraphExec exec, CUstream stream);
void vs_after_graph_launch(const struct vs_launch *launch, CUresult status);
void vs_after_graph_upload(CUgraphExec exec);
uint64_t vs_graph_devices(CUgraphExec exec);
void vs_after_graph_destroy(CUgraphExec exec, uint64_t devices, CUresult status);

/* Records the memory that DEVICE's graphs have reserved, if it has changed. */
void vs_graph_sample(int device);
/* Makes the next figure be recorded even if it is the same. */
void vs_graph_reset(int device);

#endif
