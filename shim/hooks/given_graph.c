/*
 * given_graph.c - the words that a launch of an executable graph gives to the device.
 *
 * Nodes are read at instantiation, those of child graphs too, and every launch gives each word that may be an
 * address.  A later change of a node adds its new parameters and leaves all words that were there before.
 * These count as possible uses only: some may be false, but no true one is missed.  A graph that
 * is not known here may reach every block.  So may one with nodes that cannot be read: bodies of conditions,
 * batches of memory operations, nodes that the device itself may change.  What it copies from the host is
 * looked at by every launch: the addresses there by then are stored.
 *
 * By CUDA's own rules a program does not launch, change or destroy one executable graph on two threads at
 * once.
 */
#define _GNU_SOURCE
#include "given.h"

#include <string.h>

#include "access/kernels.h"
#include "core/fork.h"
#include "handle_table.h"
#include "graph.h"
#include "record/record.h"
#include "rows.h"

#define EXECS     4096u
#define PROBES    64u
#define SOURCES   64u /* pieces of a copy at the most */
#define DEPTH_MAX 8
#define FIRST     1024u /* words that a list has room for at first */

/* enumerators of later headers, by number */
#define NODE_CONDITIONAL           13
#define ATTRIBUTE_DEVICE_UPDATABLE 13

struct word {
    uint64_t word;
    uint32_t name;  /* of a source how many bytes of it are looked at */
    uint16_t kinds; /* 0: it is a source, memory of the host (or nobody knows whose) that is copied */
    bool sure;      /* as in struct vs_use */
};

struct list {
    size_t mapped; /* bytes */
    uint32_t count, room;
    bool unseen; /* something in it cannot be read */
    struct word at[];
};

static struct slot {
    _Atomic uintptr_t exec;
    _Atomic(struct list *) list;
} execs[EXECS];

/* ---- lists ---- */

static struct list *new_list(uint32_t room)
{
    size_t bytes = (sizeof(struct list) + room * sizeof(struct word) + 4095) & ~(size_t)4095;
    struct list *l = vs_map(bytes);
    if (l == NULL)
        return NULL;
    l->mapped = bytes;
    l->room = (uint32_t)((bytes - sizeof *l) / sizeof(struct word));
    return l;
}

static void end_list(struct list *l)
{
    if (l != NULL)
        munmap(l, l->mapped);
}

static bool is_source(const struct word *w)
{
    return w->kinds == 0;
}

static bool before_by_word(const struct word *a, const struct word *b)
{
    return a->word != b->word ? a->word < b->word : is_source(a) < is_source(b);
}

static bool before_by_work(const struct word *a, const struct word *b)
{
    return a->name != b->name ? a->name < b->name : a->kinds < b->kinds;
}

/* In place: qsort may allocate. */
static void sort(struct list *l, bool (*before)(const struct word *, const struct word *))
{
    for (uint32_t gap = l->count / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < l->count; i++) {
            struct word one = l->at[i];
            uint32_t k = i;
            for (; k >= gap && before(&one, &l->at[k - gap]); k -= gap)
                l->at[k] = l->at[k - gap];
            l->at[k] = one;
        }
}

/* B, which is the same word, is added to A. */
static void merge(struct word *a, const struct word *b)
{
    if (!is_source(b) || b->name > a->name)
        a->name = b->name;
    a->kinds |= b->kinds;
    a->sure |= b->sure;
}

/* Sorts by word, and leaves one of each, with all kinds and the last name. */
static void sort_and_merge(struct list *l)
{
    sort(l, before_by_word);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (kept != 0 && !before_by_word(&l->at[kept - 1], &l->at[i]))
            merge(&l->at[kept - 1], &l->at[i]);
        else
            l->at[kept++] = l->at[i];
    }
    l->count = kept;
}

/* In the order of the work, so that a launch gives many words at once. */
static void complete(struct list *l)
{
    sort_and_merge(l);
    sort(l, before_by_work);
}

struct reading {
    struct list *list; /* NULL: there was no memory for it */
    uint32_t name;
    uint16_t kinds;
};

static void grow(struct reading *r)
{
    sort_and_merge(r->list);
    if (r->list->count < r->list->room / 2)
        return;
    struct list *more = new_list(r->list->room * 2);
    if (more == NULL) {
        r->list->unseen = true;
        return;
    }
    memcpy(more->at, r->list->at, r->list->count * sizeof(struct word));
    more->count = r->list->count;
    more->unseen = r->list->unseen;
    end_list(r->list);
    r->list = more;
}

static void add(struct reading *r, struct word word)
{
    if (r->list == NULL)
        return;
    if (r->list->count == r->list->room)
        grow(r);
    if (r->list->count < r->list->room)
        r->list->at[r->list->count++] = word;
}

static void put(struct reading *r, uint64_t word, uint16_t kinds, bool sure)
{
    /* its block may come later, or have come while nothing was recorded */
    if (word >> VS_PAGES_BITS != 0 && word >> VS_PAGES_END_BITS == 0)
        add(r, (struct word){word, r->name, kinds | VS_ACCESS_GRAPH, sure});
}

static void see(void *reading, uint64_t word, bool map, bool sure)
{
    put(reading, word, map ? VS_ACCESS_KERNEL | VS_ACCESS_MAP : VS_ACCESS_KERNEL, sure);
}

/* ---- nodes ---- */

static void unseen(struct reading *r)
{
    if (r->list != NULL)
        r->list->unseen = true;
}

static void read_kernel(struct reading *r, CUfunction f, struct vs_grid grid, void **params, void **extra)
{
    size_t size = 0;
    const void *buffer = vs_given_buffer(extra, &size);
    const struct vs_kernel *k = vs_given_kernel(f);
    if (k == NULL || k->reaches || (!k->known && buffer == NULL))
        unseen(r);
    if (k == NULL)
        return;
    r->name = k->name;
    vs_kernel_each(k, grid, buffer != NULL ? NULL : params, buffer, size, see, r);
}

static void read_kernel_node(struct reading *r, CUgraphNode node)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    CUDA_KERNEL_NODE_PARAMS_v1 old = {0};
    CUkernelNodeAttrValue updatable = {0};
    if (vs_drv_cuGraphKernelNodeGetAttribute(node, (CUkernelNodeAttrID)ATTRIBUTE_DEVICE_UPDATABLE,
                                             &updatable) == CUDA_SUCCESS &&
        *(const int *)&updatable != 0)
        unseen(r);
    if (vs_drv_cuGraphKernelNodeGetParams_v2(node, &params) == CUDA_SUCCESS)
        read_kernel(r, params.func != NULL ? params.func : (CUfunction)params.kern,
                    vs_grid(params.gridDimX, params.gridDimY), params.kernelParams, params.extra);
    else if (vs_drv_cuGraphKernelNodeGetParams(node, &old) == CUDA_SUCCESS)
        read_kernel(r, old.func, vs_grid(old.gridDimX, old.gridDimY), old.kernelParams, old.extra);
    else
        unseen(r);
}

/* Each launch reads each piece. */
static void read_source(struct reading *r, const struct vs_box *from)
{
    uint64_t bytes = vs_use_is_drivers(from->begin) ? 0 : vs_box_bytes(from), n, pieces = 0;
    for (uint64_t at = 0; at < bytes && pieces < SOURCES; at += n, pieces++) {
        uint64_t piece = vs_box_at(from, at, bytes - at, &n);
        add(r, (struct word){piece, (uint32_t)n, 0, true});
    }
    if (pieces == SOURCES)
        unseen(r);
}

static void read_copy(struct reading *r, const CUDA_MEMCPY3D *c)
{
    struct vs_box from = VS_ROWS_BOX(c, src);
    r->name = vs_given_name(VS_API_cuMemcpyAsync);
    if (c->srcMemoryType != CU_MEMORYTYPE_HOST)
        put(r, from.begin, VS_ACCESS_COPY_FROM, true);
    if (c->dstMemoryType != CU_MEMORYTYPE_HOST)
        put(r, VS_ROWS_BOX(c, dst).begin, VS_ACCESS_COPY_TO, true);
    if (c->srcMemoryType != CU_MEMORYTYPE_DEVICE || !vs_pages_may(from.begin)) /* the host's is taken, too */
        read_source(r, &from);
}

static void read_fill(struct reading *r, uint64_t to)
{
    r->name = vs_given_name(VS_API_cuMemsetD8Async);
    put(r, to, VS_ACCESS_FILL, true);
}

static void read_graph(struct reading *r, CUgraph graph, int depth);

static void read_node(void *reading, CUgraphNode node, int depth)
{
    struct reading *r = reading;
    CUgraphNodeType type;
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS fill;
    CUgraph child;
    if (vs_drv_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
        unseen(r);
        return;
    }
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        read_kernel_node(r, node);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (vs_drv_cuGraphMemcpyNodeGetParams(node, &copy) == CUDA_SUCCESS)
            read_copy(r, &copy);
        else
            unseen(r);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        if (vs_drv_cuGraphMemsetNodeGetParams(node, &fill) == CUDA_SUCCESS)
            read_fill(r, fill.dst);
        else
            unseen(r);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (depth < DEPTH_MAX && vs_drv_cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
            read_graph(r, child, depth + 1);
        else
            unseen(r);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        break;
    default: /* batches of memory operations, conditions, what later drivers have */
        unseen(r);
    }
}

static void read_graph(struct reading *r, CUgraph graph, int depth)
{
    if (!vs_graph_each_node(graph, read_node, r, depth))
        unseen(r);
}

/* ---- the table of executable graphs ---- */

static struct slot *probe(CUgraphExec exec, bool claim)
{
    return vs_handle_slot(execs, sizeof *execs, EXECS, PROBES, exec, claim);
}

void vs_given_graph_gone(CUgraphExec exec)
{
    struct slot *s = probe(exec, false);
    if (s == NULL)
        return;
    struct list *l = atomic_exchange_explicit(&s->list, NULL, memory_order_acquire);
    atomic_store_explicit(&s->exec, VS_HANDLE_GONE, memory_order_relaxed);
    end_list(l);
}

void vs_given_graph_made(CUgraphExec exec, CUgraph graph)
{
    struct reading r = {.list = new_list(FIRST)};
    vs_given_graph_gone(exec);
    read_graph(&r, graph, 0);
    if (r.list == NULL)
        return;
    complete(r.list);
    struct slot *s = probe(exec, true);
    if (s == NULL) {
        end_list(r.list);
        return;
    }
    /* Release: pairs with list_of(). */
    atomic_store_explicit(&s->list, r.list, memory_order_release);
}

static struct list *list_of(CUgraphExec exec)
{
    struct slot *s = probe(exec, false);
    return s != NULL ? atomic_load_explicit(&s->list, memory_order_acquire) : NULL;
}

void vs_given_graph(CUgraphExec exec, CUstream stream)
{
    if (vs_given_captured(stream)) /* a child of the graph that is being captured */
        return;
    const struct list *l = list_of(exec);
    if (l == NULL || l->unseen)
        vs_use_reaching();
    if (l == NULL)
        return;
    struct vs_use u = vs_use_begin(0, 0);
    struct vs_use_batch b;
    vs_use_batch_begin(&b);
    for (uint32_t i = 0; i < l->count; i++) {
        if (is_source(&l->at[i])) {
            vs_use_source(l->at[i].word, l->at[i].name);
            continue;
        }
        if (l->at[i].name != u.name || l->at[i].kinds != u.kinds) {
            vs_use_flush(&u, &b);
            u.name = l->at[i].name;
            u.kinds = l->at[i].kinds;
        }
        vs_use_add(&u, &b, l->at[i].word, l->at[i].sure);
    }
    vs_use_flush(&u, &b);
}

bool vs_given_graph_each(CUgraphExec exec, void (*visit)(void *context, uint64_t word),
                         void (*source)(void *context, uint64_t from, uint64_t size), void *context)
{
    const struct list *l = list_of(exec);
    for (uint32_t i = 0; l != NULL && i < l->count; i++)
        if (is_source(&l->at[i]))
            source(context, l->at[i].word, l->at[i].name);
        else
            visit(context, l->at[i].word);
    return l != NULL && !l->unseen;
}

/* ---- nodes that change ---- */

/* The list of EXEC, to be added to; NULL: there is none, and none is needed. */
static struct slot *begin_change(CUgraphExec exec, struct reading *r)
{
    struct slot *s = probe(exec, false);
    r->list = s != NULL ? atomic_load_explicit(&s->list, memory_order_acquire) : NULL;
    for (uint32_t i = 0; r->list != NULL && i < r->list->count; i++)
        r->list->at[i].sure = false; /* it may be of the node that changes */
    return r->list != NULL ? s : NULL;
}

static void end_change(struct slot *s, const struct reading *r)
{
    complete(r->list);
    atomic_store_explicit(&s->list, r->list, memory_order_release);
}

#define CHANGE(exec, READ)                                                                                   \
    struct reading r = {0};                                                                                  \
    struct slot *s = begin_change(exec, &r);                                                                 \
    if (s == NULL)                                                                                           \
        return;                                                                                              \
    READ;                                                                                                    \
    end_change(s, &r);

void vs_given_node_kernel(CUgraphExec exec, CUfunction f, struct vs_grid grid, void **params, void **extra)
{
    CHANGE(exec, read_kernel(&r, f, grid, params, extra))
}

void vs_given_node_copy(CUgraphExec exec, const CUDA_MEMCPY3D *copy)
{
    CHANGE(exec, read_copy(&r, copy))
}

void vs_given_node_fill(CUgraphExec exec, const CUDA_MEMSET_NODE_PARAMS *params)
{
    CHANGE(exec, read_fill(&r, params->dst))
}

void vs_given_node_graph(CUgraphExec exec, CUgraph graph)
{
    CHANGE(exec, read_graph(&r, graph, 0))
}

static void read_params(struct reading *r, const CUgraphNodeParams *p)
{
    switch ((int)p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        read_kernel(r, p->kernel.func != NULL ? p->kernel.func : (CUfunction)p->kernel.kern,
                    vs_grid(p->kernel.gridDimX, p->kernel.gridDimY), p->kernel.kernelParams, p->kernel.extra);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        read_copy(r, &p->memcpy.copyParams);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        read_fill(r, p->memset.dst);
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        read_graph(r, p->graph.graph, 0);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        break;
    default:
        unseen(r);
    }
}

void vs_given_node(CUgraphExec exec, const CUgraphNodeParams *params)
{
    CHANGE(exec, read_params(&r, params))
}
