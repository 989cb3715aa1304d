/*
 * graph.h - graphs between graph.c (nodes), graph_exec.c (launches), graph_memory.c (bytes), capture.c.
 */
#ifndef DRY_DRIVER_GRAPH_H
#define DRY_DRIVER_GRAPH_H

#include "sim.h"

struct sim_graph;
struct sim_graph_memory { /* an allocation node's: its address lasts as long as anything refers to it */
    struct sim_range range;
    int device;
    const struct sim_graph *owner;    /* NULL: destroyed */
    const struct sim_graph *freed_in; /* the graph with a free node for it */
    unsigned references;              /* nodes, in graphs and executable ones, and being alive */
    struct sim_block *block;          /* alive: launched and not freed */
};

struct sim_node {
    struct sim_range range; /* start = handle; of no use in an executable graph's copies */
    struct sim_node *next;
    struct sim_graph *graph;
    struct sim_node *original; /* in a clone */
    CUgraphNodeType type;
    size_t dependencies;
    union {
        struct sim_graph_memory *memory; /* MEM_ALLOC, MEM_FREE */
        struct sim_graph *child;         /* GRAPH */
        struct {
            uint64_t to, from, size;
        } copy; /* MEMCPY */
        struct {
            uint64_t to, count;
            unsigned char pattern[8];
            unsigned width;
        } fill;                    /* MEMSET */
        struct sim_launch *launch; /* KERNEL */
        struct {
            CUhostFn function;
            void *data;
        } host; /* HOST */
    };
    CUDA_MEM_ALLOC_NODE_PARAMS params; /* MEM_ALLOC, as they were given */
};
struct sim_graph {
    struct sim_range range; /* start = handle */
    struct sim_node *first, **last;
    size_t count;
    struct sim_graph *parent; /* of a child node's graph */
    bool capturing;
    unsigned executables; /* instantiated and not destroyed */
    struct sim_kept *kept;
};

/* graph.c */
struct sim_graph *sim_graph_new(void);
struct sim_graph *sim_graph_find(CUgraph handle);
struct sim_node *sim_graph_node(CUgraphNode handle);
void sim_graph_end(struct sim_graph *graph);
struct sim_node *sim_graph_add(struct sim_graph *graph, CUgraphNodeType type); /* NULL: out of memory */
void sim_graph_swap(struct sim_node *a, struct sim_node *b); /* what they do: of one type, no memory nodes */
bool sim_graph_has_memory(const struct sim_graph *graph);
CUresult sim_graph_add_alloc(struct sim_graph *graph, CUDA_MEM_ALLOC_NODE_PARAMS *params,
                             struct sim_node **out);
CUresult sim_graph_add_free(struct sim_graph *graph, uint64_t address, struct sim_node **out);

/* graph_memory.c */
struct sim_graph_memory *sim_graph_memory_new(int device, uint64_t size);
struct sim_graph_memory *sim_graph_memory_find(uint64_t address);
void sim_graph_memory_unref(struct sim_graph_memory *memory);
uint64_t sim_graph_memory_bytes(const struct sim_graph_memory *memory);
bool sim_graph_memory_begin(struct sim_graph_memory *memory); /* it is alive now */
CUresult sim_graph_memory_free(struct sim_block *block);
/* The device holds room for BYTES beyond all that is alive; false: out of memory. */
bool sim_graph_memory_reserve(int device, uint64_t bytes);
void sim_graph_memory_mark(int device); /* takes the high-water marks */

/* graph_exec.c: the most bytes that a mapped executable graph has beyond what is alive of it */
uint64_t sim_graph_execs_mapped(int device);
void sim_graph_execs_unmap(int device);
void sim_graph_gone(const struct sim_graph *graph); /* it is about to be freed; executable graphs live on */

/* user_object.c: what a graph keeps alive, and what is instantiated from it.  The last is the last of its
 * owner's end, because the program's functions are called without the lock. */
struct sim_kept;
struct sim_kept *sim_kept_copy(const struct sim_kept *kept);
void sim_kept_end(struct sim_kept *kept);

/* launch.c: what a kernel node launches; nodes, and their copies in executable graphs, share it */
void sim_launch_ref(struct sim_launch *launch);
void sim_launch_unref(struct sim_launch *launch);
CUresult sim_launch_make(struct sim_launch **out, CUfunction f, void **params, void **extra);
CUresult sim_launch_run(const struct sim_launch *launch);

/* graph_exec.c: the copy of node HANDLE in an executable graph; NULL: there is none */
struct sim_node *sim_exec_node(CUgraphExec exec, CUgraphNode handle);

/* copy.c */
CUresult sim_copy(uint64_t to, uint64_t from, uint64_t size);
CUresult sim_fill(uint64_t to, const void *pattern, unsigned width, uint64_t count);
/* Likewise on a stream, or into what it captures.  ALL: bytes of the whole copy that this is a part of. */
CUresult sim_copy_on(CUstream stream, uint64_t to, bool to_device, uint64_t from, bool from_device,
                     size_t size, size_t all);
CUresult sim_fill_on(CUstream stream, uint64_t to, const void *pattern, unsigned width, uint64_t count);

#endif
