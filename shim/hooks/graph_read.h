/*
 * graph_read.h - the memory nodes of a graph, as the driver lists them.
 */
#ifndef VS_HOOKS_GRAPH_READ_H
#define VS_HOOKS_GRAPH_READ_H

#include <stdbool.h>

#include "driver.h"

#define VS_GRAPH_NODES_MAX 65536u /* memory nodes of a graph */

struct vs_graph_node {
    uint64_t address, size;
    uint32_t order; /* as the graph lists it */
    int8_t device;
    uint8_t space;
    bool frees;
};

/* What a launch of the graph allocates and frees beyond itself. */
struct vs_graph_reading {
    struct vs_graph_node *at; /* room for VS_GRAPH_NODES_MAX, the caller's */
    uint32_t n;
    uint64_t devices; /* bit per device whose memory is involved */
    uint64_t beyond;  /* memory nodes that had no room, graphs that could not be read */
};

/* Reads GRAPH and the graphs in it into R, whose `at` is set and whose rest is 0.  Of each address there is
 * left the allocation that survives the launch, or the free of another graph's.  False: there are no memory
 * nodes. */
bool vs_graph_read(struct vs_graph_reading *r, CUgraph graph);

#endif
