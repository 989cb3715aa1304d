/*
 * graph.c - graphs with memory nodes: allocations and frees of a launch that outlast it.
 *
 * At instantiation the graph's nodes are read (graph_read.c), and an executable graph that has memory nodes
 * gets an entry here:
 *
 *      nodes of the graph      alloc A, alloc B, free B, free C
 *      survives a launch       A      -> ALLOC (space GRAPH) after each launch
 *      freed by a launch       C      -> FREE before each launch: another graph allocated it
 *      within the graph        B      -> no event; its bytes are in what the device's graphs reserve
 *
 * With AUTO_FREE_ON_LAUNCH the driver frees, at the next launch, the allocations that survived and were not
 * freed since (graph_nodes.c keeps the set).
 *
 * After every call that may change it the driver is queried for the memory that the device's graphs have
 * reserved, which is recorded if it changed (as pool.c does for pools).
 *
 * Nothing here takes a lock or allocates from the heap: the table of entries is probed with
 * compare-and-swap, and each entry lies on pages of its own.  By CUDA's own rules an executable graph is not
 * launched and destroyed at once, so an entry stays while it is used.  Entries, nodes or addresses beyond
 * the room are not tracked; the journal counts such nodes, which become a row of table loss.
 */
#define _GNU_SOURCE
#include "graph.h"

#include "core/map.h"
#include "events.h"
#include "graph_nodes.h"
#include "graph_read.h"
#include "handle_table.h"
#include "meminfo.h"
#include "place.h"
#include "record/record.h"
#define EXECS      4096u
#define PROBES     64u
#define AUTO_FREES 1u /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

struct vs_graph_exec {
    size_t mapped;    /* bytes of this entry */
    uint64_t devices; /* bit per device whose memory is involved */
    uint64_t flags;
    uint32_t count;
    struct survivor {
        struct vs_graph_node node;
        uint64_t seq; /* of the FREE before a launch, VS_SEQ_NONE where there was none */
    } at[];
};

static struct slot { /* 64 KiB, of which pages are there once they are used */
    _Atomic uintptr_t exec;
    _Atomic(struct vs_graph_exec *) entry;
} execs[EXECS];
static _Atomic uint64_t reserved[64]; /* by device, as last recorded */

/* ---- the table of executable graphs ---- */

static struct slot *probe(CUgraphExec exec, bool claim)
{
    return vs_handle_slot(execs, sizeof *execs, EXECS, PROBES, exec, claim);
}

static struct vs_graph_exec *entry_of(CUgraphExec exec)
{
    struct slot *s = probe(exec, false);
    /* acquire: pairs with keep()'s release, so the entry is complete */
    return s != NULL ? atomic_load_explicit(&s->entry, memory_order_acquire) : NULL;
}

static void forget(CUgraphExec exec)
{
    struct slot *s = probe(exec, false);
    if (s == NULL)
        return;
    struct vs_graph_exec *entry = atomic_exchange_explicit(&s->entry, NULL, memory_order_acquire);
    atomic_store_explicit(&s->exec, VS_HANDLE_GONE, memory_order_relaxed);
    if (entry != NULL)
        munmap(entry, entry->mapped);
}

static void keep(CUgraphExec exec, const struct vs_graph_reading *r, uint64_t flags)
{
    size_t bytes = sizeof(struct vs_graph_exec) + r->n * sizeof(struct survivor);
    struct slot *s = probe(exec, true);
    struct vs_graph_exec *entry = s != NULL ? vs_map(bytes) : NULL;
    if (entry == NULL) {
        vs_graph_not_followed(r->n != 0 ? r->n : 1);
        return;
    }
    *entry = (struct vs_graph_exec){.mapped = bytes, .devices = r->devices, .flags = flags, .count = r->n};
    for (uint32_t i = 0; i < r->n; i++)
        entry->at[i] = (struct survivor){r->at[i], VS_SEQ_NONE};
    atomic_store_explicit(&s->entry, entry, memory_order_release);
}

static void take(CUgraphExec exec, CUgraph graph, uint64_t flags)
{
    size_t bytes = VS_GRAPH_NODES_MAX * sizeof(struct vs_graph_node);
    struct vs_graph_reading r = {.at = vs_map(bytes)};
    if (r.at == NULL) {
        vs_graph_not_followed(1);
        return;
    }
    bool has_memory_nodes = vs_graph_read(&r, graph);
    vs_graph_not_followed(r.beyond);
    if (has_memory_nodes)
        keep(exec, &r, flags);
    munmap(r.at, bytes);
}

/* ---- what graphs have reserved ---- */

void vs_graph_sample(int device)
{
    cuuint64_t now = 0, used = 0;
    if (device < 0 || device > 63 ||
        vs_drv_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now) !=
            CUDA_SUCCESS)
        return;
    /* relaxed: as in pool.c, the next sample corrects figures that two threads record in the wrong order */
    if (atomic_exchange_explicit(&reserved[device], now, memory_order_relaxed) == now)
        return;
    vs_drv_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used);
    vs_place_announce(device);
    if (vs_event(VS_OP_POOL_RESERVED, VS_SPACE_GRAPH, (struct vs_place){(int8_t)device, 0},
                 VS_GRAPH_POOL(device), now, used, 0, CUDA_SUCCESS) == VS_SEQ_NONE) /* try again next time */
        atomic_store_explicit(&reserved[device], UINT64_MAX, memory_order_relaxed);
}

void vs_graph_reset(int device)
{
    if (device >= 0 && device < 64 && atomic_load_explicit(&reserved[device], memory_order_relaxed) != 0)
        atomic_store_explicit(&reserved[device], UINT64_MAX, memory_order_relaxed);
}

static void sample_all(uint64_t devices)
{
    for (int i = 0; i < 64; i++)
        if (devices >> i & 1)
            vs_graph_sample(i);
}

/* ---- the calls ---- */

void vs_after_graph_instantiate(CUgraphExec exec, CUgraph graph, uint64_t flags, CUresult status)
{
    if (status != CUDA_SUCCESS || exec == NULL)
        return;
    forget(exec); /* the handle may be of a graph whose end was not seen */
    take(exec, graph, flags);
    sample_all(vs_graph_devices(exec));
}

/* The executable graph was made of, or updated to, GRAPH. */
void vs_after_graph_update(CUgraphExec exec, CUgraph graph, CUresult status)
{
    struct vs_graph_exec *entry = entry_of(exec);
    if (status != CUDA_SUCCESS || entry == NULL)
        return;
    uint64_t flags = entry->flags;
    forget(exec);
    take(exec, graph, flags);
}

static void free_before(const struct vs_launch *launch, struct survivor *s)
{
    bool frees = s->node.frees || ((launch->exec->flags & AUTO_FREES) && vs_graph_survived(s->node.address));
    s->seq = VS_SEQ_NONE;
    if (frees)
        s->seq = vs_before_free(launch->api, VS_OP_FREE, s->node.space, s->node.address, 0,
                                (uint64_t)(uintptr_t)launch->stream);
}

struct vs_launch vs_before_graph_launch(enum vs_api api, CUgraphExec exec, CUstream stream)
{
    struct vs_launch launch = {api, entry_of(exec), stream};
    if (launch.exec == NULL)
        return launch;
    if (vs_capturing(stream) == VS_CAPTURE_YES) { /* not a launch, but a child node of that graph */
        launch.exec = NULL;
        return launch;
    }
    for (uint32_t i = 0; i < launch.exec->count; i++)
        free_before(&launch, &launch.exec->at[i]);
    return launch;
}

static void allocated(const struct vs_launch *launch, const struct vs_graph_node *node, uint8_t context)
{
    vs_event(VS_OP_ALLOC, node->space, (struct vs_place){node->device, context}, node->address, node->size,
             (uint64_t)(uintptr_t)launch->stream, launch->api, CUDA_SUCCESS);
    if (launch->exec->flags & AUTO_FREES) /* only automatic frees need the set */
        vs_graph_survives(node->address);
}

/* The launch found no memory for its nodes.  No call says how much they needed: the size is 0. */
static void refused(const struct vs_launch *launch)
{
    vs_event(VS_OP_ALLOC, VS_SPACE_GRAPH, vs_place_stream(launch->stream, 0), 0, 0,
             (uint64_t)(uintptr_t)launch->stream, launch->api, CUDA_ERROR_OUT_OF_MEMORY);
    vs_sample_after(CUDA_ERROR_OUT_OF_MEMORY);
}

void vs_after_graph_launch(const struct vs_launch *launch, CUresult status)
{
    struct vs_graph_exec *exec = launch->exec;
    if (exec == NULL)
        return;
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        refused(launch);
    uint8_t context = 0;
    if (status == CUDA_SUCCESS && exec->count != 0) {
        vs_place_prepare(status);
        context = vs_place_stream(launch->stream, 0).context;
    }
    for (uint32_t i = 0; i < exec->count; i++) {
        struct survivor *s = &exec->at[i];
        if (status != CUDA_SUCCESS && s->seq != VS_SEQ_NONE) {
            vs_after_free(s->seq, s->node.space, s->node.address, status);
            vs_graph_survives(s->node.address);
        } else if (status == CUDA_SUCCESS && !s->node.frees) {
            vs_place_announce(s->node.device);
            allocated(launch, &s->node, context);
        }
    }
    sample_all(exec->devices);
}

void vs_after_graph_upload(CUgraphExec exec)
{
    sample_all(vs_graph_devices(exec));
}

uint64_t vs_graph_devices(CUgraphExec exec)
{
    struct vs_graph_exec *entry = entry_of(exec);
    return entry != NULL ? entry->devices : 0;
}

void vs_after_graph_destroy(CUgraphExec exec, uint64_t devices, CUresult status)
{
    if (status != CUDA_SUCCESS)
        return;
    forget(exec);
    sample_all(devices);
}
