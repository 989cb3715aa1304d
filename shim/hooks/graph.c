/*
 * graph.c - allocations and frees by launches of graphs with memory nodes.
 *
 * An executable graph whose graph had memory nodes when it was instantiated gets an entry:
 *
 *      nodes of the graph      alloc A, alloc B, free B, free C
 *      survives a launch       A      -> ALLOC (space GRAPH) after each launch
 *      freed by a launch       C      -> FREE before each launch: another graph allocated it
 *      within the graph        B      -> no event; its bytes are in what the device's graphs reserve
 *
 * With AUTO_FREE_ON_LAUNCH the driver frees at the next launch what survived and was not freed since.  By
 * CUDA's own rules no executable graph is launched and destroyed at once, so an entry stays while it is used.
 * What has no room is counted in the journal, and becomes a row of table loss.
 */
#define _GNU_SOURCE
#include "graph.h"

#include "core/fork.h"
#include "events.h"
#include "handle_table.h"
#include "meminfo.h"
#include "place.h"
#include "record/record.h"
#include "trace/event.h"

#define NODES_MAX  65536u /* memory nodes of a graph */
#define DEPTH_MAX  8      /* child graphs in child graphs */
#define EXECS      4096u
#define PROBES     64u
#define AUTO_FREES 1u /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

struct node {
    uint64_t address, size;
    uint32_t order; /* as the graph lists it */
    int8_t device;
    uint8_t space;
    bool frees;
};

/* What a launch of the graph allocates and frees beyond itself. */
struct reading {
    struct node *at; /* room for NODES_MAX, the caller's */
    uint32_t n;
    uint64_t devices; /* bit per device whose memory is involved */
    uint64_t bytes;   /* of all allocations, as if none were freed before the others */
    uint64_t beyond;  /* memory nodes that had no room, graphs that could not be read */
};

struct vs_graph_exec {
    size_t mapped;    /* bytes of this entry */
    uint64_t devices; /* bit per device whose memory is involved */
    uint64_t bytes;   /* that a launch allocates of them at the most */
    uint64_t flags;
    uint32_t count;
    struct survivor {
        struct node node;
        uint64_t seq; /* of the FREE before a launch, VS_SEQ_NONE where there was none */
    } at[];
};

static struct slot { /* 64 KiB, of which pages are there once they are used */
    _Atomic uintptr_t exec;
    _Atomic(struct vs_graph_exec *) entry;
} execs[EXECS];
static _Atomic uint64_t reserved[64]; /* by device, as last recorded */

/* ---- the memory nodes of a graph ---- */

static void read_alloc(struct reading *r, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    if (vs_drv_cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS)
        return;
    int id;
    bool on_device = vs_on_device(&params.poolProps.location, &id) && id >= 0 && id < 64;
    if (on_device) {
        r->devices |= UINT64_C(1) << id;
        r->bytes += params.bytesize;
    }
    r->at[r->n] = (struct node){.address = params.dptr,
                                .size = params.bytesize,
                                .order = r->n,
                                .device = on_device ? (int8_t)id : VS_DEVICE_UNKNOWN,
                                .space = on_device ? VS_SPACE_GRAPH : VS_SPACE_PINNED};
    r->n++;
}

static void read_free(struct reading *r, CUgraphNode node)
{
    CUdeviceptr address;
    if (vs_drv_cuGraphMemFreeNodeGetParams(node, &address) != CUDA_SUCCESS)
        return;
    r->at[r->n] = (struct node){.address = address, .order = r->n, .frees = true};
    r->n++;
}

static void read_graph(struct reading *r, CUgraph graph, int depth);

static void read_node(void *reading, CUgraphNode node, int depth)
{
    struct reading *r = reading;
    CUgraphNodeType type;
    CUgraph child;
    if (vs_drv_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
        return;
    if (r->n == NODES_MAX && (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE))
        r->beyond++;
    else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        read_alloc(r, node);
    else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        read_free(r, node);
    else if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < DEPTH_MAX &&
             vs_drv_cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
        read_graph(r, child, depth + 1);
}

static void read_graph(struct reading *r, CUgraph graph, int depth)
{
    if (!vs_graph_each_node(graph, read_node, r, depth))
        r->beyond++;
}

static bool before(const struct node *a, const struct node *b)
{
    return a->address != b->address ? a->address < b->address : a->order < b->order;
}

static void sort(struct node *at, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            struct node one = at[i];
            uint32_t j = i;
            for (; j >= gap && before(&one, &at[j - gap]); j -= gap)
                at[j] = at[j - gap];
            at[j] = one;
        }
}

/* Leaves, of each address, the allocation that survives or the free of another graph's.  One address may have
 * several allocations in a graph: as many frees cancel as many of them, and the last that was added survives.
 */
static uint32_t cancel(struct node *at, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        int allocs = 0;
        uint32_t last = i;
        for (end = i; end < n && at[end].address == at[i].address; end++) {
            allocs += at[end].frees ? -1 : 1;
            if (!at[end].frees || at[last].frees)
                last = end;
        }
        if (allocs > 0)
            at[kept++] = at[last];
        else if (allocs < 0)
            at[kept++] = (struct node){.address = at[i].address, .space = VS_SPACE_GRAPH, .frees = true};
    }
    return kept;
}

/* Reads GRAPH and the graphs in it into R, whose `at` is set and whose rest is 0.  Of each address there is
 * left the allocation that survives the launch, or the free of another graph's.  False: there are no memory
 * nodes. */
static bool read_all(struct reading *r, CUgraph graph)
{
    read_graph(r, graph, 0);
    bool any = r->n != 0;
    sort(r->at, r->n);
    r->n = cancel(r->at, r->n);
    return any;
}

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

static void keep(CUgraphExec exec, const struct reading *r, uint64_t flags)
{
    size_t bytes = sizeof(struct vs_graph_exec) + r->n * sizeof(struct survivor);
    struct slot *s = probe(exec, true);
    struct vs_graph_exec *entry = s != NULL ? vs_map(bytes) : NULL;
    if (entry == NULL) {
        vs_graph_not_followed(r->n != 0 ? r->n : 1);
        return;
    }
    *entry = (struct vs_graph_exec){
        .mapped = bytes, .devices = r->devices, .bytes = r->bytes, .flags = flags, .count = r->n};
    for (uint32_t i = 0; i < r->n; i++)
        entry->at[i] = (struct survivor){r->at[i], VS_SEQ_NONE};
    atomic_store_explicit(&s->entry, entry, memory_order_release);
}

static void take(CUgraphExec exec, CUgraph graph, uint64_t flags)
{
    size_t bytes = NODES_MAX * sizeof(struct node);
    struct reading r = {.at = vs_map(bytes)};
    if (r.at == NULL) {
        vs_graph_not_followed(1);
        return;
    }
    bool has_memory_nodes = read_all(&r, graph);
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
    vs_cost_unknown();
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

static void free_before(const struct vs_graph_launch *launch, struct survivor *s)
{
    bool frees = s->node.frees || ((launch->exec->flags & AUTO_FREES) && vs_graph_survived(s->node.address));
    s->seq = VS_SEQ_NONE;
    if (frees)
        s->seq = vs_before_free(launch->api, VS_OP_FREE, s->node.space, s->node.address, 0,
                                (uint64_t)(uintptr_t)launch->stream);
}

struct vs_graph_launch vs_before_graph_launch(enum vs_api api, CUgraphExec exec, CUstream stream)
{
    struct vs_graph_launch launch = {api, entry_of(exec), stream};
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

static void allocated(const struct vs_graph_launch *launch, const struct node *node, uint8_t context)
{
    vs_event(VS_OP_ALLOC, node->space, (struct vs_place){node->device, context}, node->address, node->size,
             (uint64_t)(uintptr_t)launch->stream, launch->api, CUDA_SUCCESS);
    if (launch->exec->flags & AUTO_FREES) /* only automatic frees need the set */
        vs_graph_survives(node->address);
}

/* The launch found no memory for its nodes.  No call says how much they needed: the size is 0. */
static void refused(const struct vs_graph_launch *launch)
{
    vs_event(VS_OP_ALLOC, VS_SPACE_GRAPH, vs_place_stream(launch->stream, 0), 0, 0,
             (uint64_t)(uintptr_t)launch->stream, launch->api, CUDA_ERROR_OUT_OF_MEMORY);
    vs_sample_after(CUDA_ERROR_OUT_OF_MEMORY);
}

void vs_after_graph_launch(const struct vs_graph_launch *launch, CUresult status)
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

uint64_t vs_graph_bytes(CUgraphExec exec)
{
    struct vs_graph_exec *entry = entry_of(exec);
    return entry != NULL ? entry->bytes : 0;
}

void vs_after_graph_destroy(CUgraphExec exec, uint64_t devices, CUresult status)
{
    if (status != CUDA_SUCCESS)
        return;
    forget(exec);
    sample_all(devices);
}
