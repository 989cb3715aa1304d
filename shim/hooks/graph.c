/*
 * graph.c - graphs with memory nodes: what a launch allocates and frees beyond itself.
 *
 * A memory node is no memory: it is recorded as GRAPH_NODE.  At instantiation the graph's nodes are read, and
 * an executable graph that has memory nodes gets an entry here:
 *
 *      nodes of the graph      alloc A, alloc B, free B, free C
 *      survives a launch       A      -> ALLOC (space GRAPH) after each launch
 *      freed by a launch       C      -> FREE before each launch: another graph allocated it
 *      within the graph        B      -> no event; its bytes are in what the device's graphs reserve
 *
 * One address may have several allocations in one graph, one after the other: as many frees cancel as many
 * allocations, and the allocation that was added last survives.  With AUTO_FREE_ON_LAUNCH the driver frees,
 * at the next launch, what survived and was not freed since; which addresses those are is kept in a set.
 *
 * What the device's graphs have reserved is asked of the driver after every call that may change it, and
 * recorded where it changed (as pool.c does for pools).
 *
 * Nothing here takes a lock or allocates from the heap: the table of entries is probed with compare-and-swap,
 * and each entry lies on pages of its own.  An executable graph is not to be launched and destroyed at once
 * by CUDA's own rules, so an entry that was found stays while it is used.  What does not fit (more entries,
 * nodes or addresses than there is room for) is not followed; how many nodes that are is counted in the
 * journal, and a line of table loss.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <sys/mman.h>

#include "trace/journal/journal.h"

#define EXECS      4096u
#define NODES_MAX  65536u /* memory nodes of a graph */
#define LIVE       8192u  /* surviving allocations at once */
#define PROBES     64u
#define DEPTH_MAX  8 /* child graphs in child graphs */
#define GONE       1u
#define AUTO_FREES 1u /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

_Atomic bool vs_graph_memory;

struct node {
    uint64_t address, size;
    uint32_t order; /* as the graph lists it */
    int8_t device;
    uint8_t space;
    bool frees;
};

struct vs_graph_exec {
    size_t mapped;    /* bytes of this entry */
    uint64_t devices; /* bit per device whose memory is involved */
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
static _Atomic uint64_t live[LIVE];
static _Atomic uint32_t live_count;
static _Atomic uint64_t reserved[64]; /* by device, as last recorded */

static void *take_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* N nodes or allocations will not be followed. */
static void not_followed(uint64_t n)
{
    struct vs_journal *j = vs_record_journal();
    if (j != NULL && n != 0)
        vs_journal_untracked(j, n);
}

/* ---- nodes ---- */

/* Where nodes' allocations lie: only the free of such an address may be a node itself.  Relaxed, the first as
 * the last word: whoever frees an address has it from who allocated it. */
static _Atomic uint64_t lowest = UINT64_MAX, highest;

static void note_address(uint64_t address)
{
    uint64_t seen = atomic_load_explicit(&lowest, memory_order_relaxed);
    while (address < seen && !atomic_compare_exchange_weak_explicit(
                                 &lowest, &seen, address, memory_order_relaxed, memory_order_relaxed))
        ;
    seen = atomic_load_explicit(&highest, memory_order_relaxed);
    while (address > seen && !atomic_compare_exchange_weak_explicit(
                                 &highest, &seen, address, memory_order_relaxed, memory_order_relaxed))
        ;
}

void vs_after_graph_node(enum vs_api api, uint64_t where, uint64_t address, uint64_t size, CUresult status)
{
    struct vs_place place = vs_place_current();
    struct vs_event event = {.op = VS_OP_GRAPH_NODE,
                             .space = VS_SPACE_GRAPH,
                             .device = place.device,
                             .context = place.context,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg0 = where,
                             .arg1 = api};
    if (status == CUDA_SUCCESS) {
        note_address(address);
        atomic_store_explicit(&vs_graph_memory, true, memory_order_relaxed);
    }
    vs_record(&event);
}

void vs_after_graph_add_node(enum vs_api api, CUgraph graph, const CUgraphNodeParams *params, CUresult status)
{
    uint64_t where = (uint64_t)(uintptr_t)graph;
    if (params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        vs_after_graph_node(api, where, status == CUDA_SUCCESS ? params->alloc.dptr : 0,
                            params->alloc.bytesize, status);
    else if (params != NULL && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        vs_after_graph_node(api, where, params->free.dptr, 0, status);
}

bool vs_graph_captured_free(CUdeviceptr address, CUstream stream)
{
    if (address < atomic_load_explicit(&lowest, memory_order_relaxed) ||
        address > atomic_load_explicit(&highest, memory_order_relaxed) || !vs_record_enabled())
        return false;
    int saved = errno;
    bool captured = vs_capturing(stream) == VS_CAPTURE_YES;
    errno = saved;
    return captured;
}

/* ---- reading a graph ---- */

struct reading {
    struct node *at;
    uint32_t n;
    uint64_t devices;
    uint64_t beyond; /* memory nodes that had no room, graphs that could not be read */
};

static void read_alloc(struct reading *r, CUgraphNode node)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    if (vs_drv_cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS)
        return;
    int id = params.poolProps.location.id;
    bool on_device = params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && id >= 0 && id < 64;
    if (on_device)
        r->devices |= UINT64_C(1) << id;
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

static void read_node(struct reading *r, CUgraphNode node, int depth)
{
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
    size_t n = 0;
    if (vs_drv_cuGraphGetNodes(graph, NULL, &n) != CUDA_SUCCESS || n == 0)
        return;
    CUgraphNode *nodes = take_pages(n * sizeof(*nodes));
    if (nodes == NULL) {
        r->beyond++;
        return;
    }
    size_t got = n;
    if (vs_drv_cuGraphGetNodes(graph, nodes, &got) == CUDA_SUCCESS)
        for (size_t i = 0; i < n && i < got; i++)
            read_node(r, nodes[i], depth);
    munmap(nodes, n * sizeof(*nodes));
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

/* Leaves, of each address, the allocation that survives or the free of another graph's. */
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

/* ---- the table of executable graphs ---- */

static struct slot *probe(CUgraphExec exec, bool claim)
{
    uintptr_t key = (uintptr_t)exec;
    for (uint32_t i = 0, at = (uint32_t)((key >> 4) * 2654435761u); i < PROBES; i++, at++) {
        struct slot *s = &execs[at % EXECS];
        uintptr_t seen = atomic_load_explicit(&s->exec, memory_order_relaxed);
        /* relaxed: the entry is published by its own pointer */
        if (claim && (seen == 0 || seen == GONE) &&
            atomic_compare_exchange_strong_explicit(&s->exec, &seen, key, memory_order_relaxed,
                                                    memory_order_relaxed))
            return s;
        if (seen == key)
            return s;
        if (!claim && seen == 0)
            return NULL;
    }
    return NULL;
}

static struct vs_graph_exec *entry_of(CUgraphExec exec)
{
    struct slot *s = probe(exec, false);
    /* acquire: pairs with keep()'s release, so what the entry says is there */
    return s != NULL ? atomic_load_explicit(&s->entry, memory_order_acquire) : NULL;
}

static void forget(CUgraphExec exec)
{
    struct slot *s = probe(exec, false);
    if (s == NULL)
        return;
    struct vs_graph_exec *entry = atomic_exchange_explicit(&s->entry, NULL, memory_order_acquire);
    atomic_store_explicit(&s->exec, GONE, memory_order_relaxed);
    if (entry != NULL)
        munmap(entry, entry->mapped);
}

static void keep(CUgraphExec exec, const struct reading *r, uint32_t n, uint64_t flags)
{
    size_t bytes = sizeof(struct vs_graph_exec) + n * sizeof(struct survivor);
    struct slot *s = probe(exec, true);
    struct vs_graph_exec *entry = s != NULL ? take_pages(bytes) : NULL;
    if (entry == NULL) {
        not_followed(n != 0 ? n : 1);
        return;
    }
    *entry = (struct vs_graph_exec){.mapped = bytes, .devices = r->devices, .flags = flags, .count = n};
    for (uint32_t i = 0; i < n; i++)
        entry->at[i] = (struct survivor){r->at[i], VS_SEQ_NONE};
    atomic_store_explicit(&s->entry, entry, memory_order_release);
}

static void take(CUgraphExec exec, CUgraph graph, uint64_t flags)
{
    size_t bytes = NODES_MAX * sizeof(struct node);
    struct reading r = {.at = take_pages(bytes)};
    if (r.at == NULL) {
        not_followed(1);
        return;
    }
    read_graph(&r, graph, 0);
    not_followed(r.beyond);
    if (r.n != 0) {
        sort(r.at, r.n);
        keep(exec, &r, cancel(r.at, r.n), flags);
    }
    munmap(r.at, bytes);
}

/* ---- addresses that survived a launch ---- */

static _Atomic uint64_t *live_slot(uint64_t address, uint64_t wanted)
{
    uint32_t at = (uint32_t)((address >> 9) * 2654435761u);
    for (uint32_t i = 0; i < PROBES; i++, at++)
        if (atomic_load_explicit(&live[at % LIVE], memory_order_relaxed) == wanted)
            return &live[at % LIVE];
    return NULL;
}

static bool is_live(uint64_t address)
{
    return live_slot(address, address) != NULL;
}

/* Relaxed: a word is complete in itself, and the host orders an allocation and its free. */
static void add_live(uint64_t address)
{
    _Atomic uint64_t *slot;
    if (is_live(address))
        return;
    while ((slot = live_slot(address, 0)) != NULL) {
        uint64_t none = 0;
        if (!atomic_compare_exchange_strong_explicit(slot, &none, address, memory_order_relaxed,
                                                     memory_order_relaxed))
            continue;
        atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
        return;
    }
    not_followed(1);
}

void vs_graph_freed(uint64_t address)
{
    if (atomic_load_explicit(&live_count, memory_order_relaxed) == 0)
        return;
    _Atomic uint64_t *slot = live_slot(address, address);
    if (slot != NULL && atomic_compare_exchange_strong_explicit(slot, &address, 0, memory_order_relaxed,
                                                                memory_order_relaxed))
        atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}

/* ---- what graphs have reserved ---- */

void vs_graph_sample(int device)
{
    cuuint64_t now = 0, used = 0;
    if (device < 0 || device > 63 ||
        vs_drv_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &now) !=
            CUDA_SUCCESS)
        return;
    /* relaxed: as in pool.c, the next sample puts right what two threads say in the wrong order */
    if (atomic_exchange_explicit(&reserved[device], now, memory_order_relaxed) == now)
        return;
    vs_drv_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used);
    vs_place_announce(device);
    struct vs_event event = {.op = VS_OP_POOL_RESERVED,
                             .space = VS_SPACE_GRAPH,
                             .device = (int8_t)device,
                             .address = VS_GRAPH_POOL(device),
                             .size = now,
                             .arg0 = used};
    if (vs_record(&event) == VS_SEQ_NONE) /* to be said once it can be */
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
    forget(exec); /* the handle of one whose end was not seen */
    take(exec, graph, flags);
    sample_all(vs_graph_devices(exec));
}

/* The executable graph is now as GRAPH has it. */
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
    bool frees = s->node.frees || ((launch->exec->flags & AUTO_FREES) && is_live(s->node.address));
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
    if (vs_capturing(stream) == VS_CAPTURE_YES) { /* no launch: a child node of the graph being captured */
        launch.exec = NULL;
        return launch;
    }
    for (uint32_t i = 0; i < launch.exec->count; i++)
        free_before(&launch, &launch.exec->at[i]);
    return launch;
}

static void allocated(const struct vs_launch *launch, const struct node *node, uint8_t context)
{
    struct vs_event event = {.op = VS_OP_ALLOC,
                             .space = node->space,
                             .device = node->device,
                             .context = context,
                             .address = node->address,
                             .size = node->size,
                             .arg0 = (uint64_t)(uintptr_t)launch->stream,
                             .arg1 = launch->api};
    vs_record(&event);
    if (launch->exec->flags & AUTO_FREES) /* nobody else asks for it */
        add_live(node->address);
}

/* The launch found no memory for its nodes; for how much of it no call tells (size 0). */
static void refused(const struct vs_launch *launch)
{
    struct vs_place place = vs_place_stream(launch->stream, 0);
    struct vs_event event = {.op = VS_OP_ALLOC,
                             .space = VS_SPACE_GRAPH,
                             .device = place.device,
                             .context = place.context,
                             .status = CUDA_ERROR_OUT_OF_MEMORY,
                             .arg0 = (uint64_t)(uintptr_t)launch->stream,
                             .arg1 = launch->api};
    vs_record(&event);
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
            add_live(s->node.address);
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
