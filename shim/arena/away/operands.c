/*
 * operands.c - see operands.h.
 *
 * Copies, fills and words of streams name the memory.  A launch names it by its parameters, which only the
 * access ledger (run --access) knows the layout of: without it no launch is known.  Nor are kernels known by
 * name to find addresses in memory (access/use.h), graphs with nodes that cannot be read, and any kernel once
 * there is a texture over linear memory.  What is not known counts as away.  Words that copies and streams
 * write are looked at as well: an address among them keeps its block where it is.
 *
 * What a capture takes down gives the device nothing, so a captured launch passes.  A captured copy or fill
 * does not.  The driver looks at once what kind of memory its addresses are: if that is away, it would take
 * them for the host's.
 */
#include "operands.h"

#include "access/kernels.h"
#include "away.h"
#include "hooks/rows.h"

static _Atomic bool textures; /* any was made */
static _Atomic bool reached;  /* as vs_operands_reached has it */

void vs_operands_texture(void)
{
    /* relaxed: a program that uses a texture in another thread orders the two itself */
    atomic_store_explicit(&textures, true, memory_order_relaxed);
}

void vs_operands_reached(bool so)
{
    /* relaxed: the gate's state, which is changed after it, publishes it */
    atomic_store_explicit(&reached, so, memory_order_relaxed);
}

/* ---- addresses that are copied ---- */

static void look_at_stored(void *away, uint64_t word)
{
    bool *found = away;
    *found = vs_away_stores(word) || *found;
}

/* Whether an address of what is away is among the words that are copied FROM somewhere, as they will lie from
 * TO on.  What cannot be read is device memory, and the driver's managed memory would move to the host. */
static bool stores_away(uint64_t to, const struct vs_box *from)
{
    bool away = false;
    if (from->begin != 0 && !vs_use_is_drivers(from->begin))
        vs_box_read(from, to, look_at_stored, &away);
    return away;
}

static void look_at_source(void *away, uint64_t from, uint64_t size)
{
    bool *found = away;
    *found = stores_away(0, &VS_BOX_FLAT(from, size)) || *found;
}

/* ---- launches ---- */

static void look(void *away, uint64_t word)
{
    bool *found = away;
    *found = *found || vs_operands_at(word, 0);
}

static void look_at_parameter(void *away, uint64_t word, bool map, bool sure)
{
    look(away, word);
}

/* Whether a launch's parameters say all that it touches. */
static bool are_looked_at(void)
{
    return vs_access_on() && !atomic_load_explicit(&textures, memory_order_relaxed) &&
           !atomic_load_explicit(&reached, memory_order_relaxed);
}

static bool kernel_away(CUfunction f, struct vs_grid grid, void **params, void **extra)
{
    size_t size;
    bool away = false;
    const void *buffer = vs_given_buffer(extra, &size);
    const struct vs_kernel *k = are_looked_at() ? vs_given_kernel(f) : NULL;
    if (k == NULL || k->reaches || (!k->known && buffer == NULL))
        return vs_away_unknown();
    vs_kernel_each(k, grid, buffer != NULL ? NULL : params, buffer, size, look_at_parameter, &away);
    return away;
}

enum vs_operands vs_operands_launch(enum vs_gate_state seen, CUfunction f, CUstream stream,
                                    struct vs_grid grid, void **params, void **extra)
{
    if (vs_given_captured(stream))
        return VS_OPERANDS_NONE;
    bool away = seen != VS_GATE_CHECKED || (vs_away_work(stream) && kernel_away(f, grid, params, extra));
    return away ? VS_OPERANDS_AWAY : VS_OPERANDS_HERE;
}

enum vs_operands vs_operands_graph(enum vs_gate_state seen, CUgraphExec exec, CUstream stream)
{
    bool away = false;
    if (vs_given_captured(stream)) /* it becomes a child of the graph that is being captured */
        return VS_OPERANDS_NONE;
    if (seen != VS_GATE_CHECKED)
        return VS_OPERANDS_AWAY;
    vs_away_work(stream);
    bool known = vs_given_graph_each(exec, look, look_at_source, &away) && are_looked_at();
    return away || (!known && vs_away_unknown()) ? VS_OPERANDS_AWAY : VS_OPERANDS_HERE;
}

/* ---- memory that is named ---- */

bool vs_operands_at(uint64_t address, uint64_t size)
{
    return address != 0 && vs_away_touches(address, size);
}

bool vs_operands_ranges(const CUdeviceptr *list, const size_t *size, size_t count)
{
    bool away = false;
    for (size_t i = 0; list != NULL && size != NULL && i < count && !away; i++)
        away = size[i] != 0 && vs_operands_at(list[i], size[i]);
    return away;
}

bool vs_operands_write(uint64_t address, uint64_t value)
{
    return vs_operands_at(address, sizeof value) || vs_away_stores(value);
}

bool vs_operands_copy(uint64_t to, uint64_t from, uint64_t size)
{
    return size != 0 && (vs_operands_at(to, size) || vs_operands_at(from, size) ||
                         stores_away(to, &VS_BOX_FLAT(from, size)));
}

bool vs_operands_copies(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *size, size_t count)
{
    bool away = false;
    for (size_t i = 0; to != NULL && from != NULL && size != NULL && i < count && !away; i++)
        away = vs_operands_copy(to[i], from[i], size[i]);
    return away;
}

/* From the first byte to behind the last: neighbours that lie between rows count as well. */
static bool box_away(const struct vs_box *b)
{
    size_t height = b->slices > 1 ? b->height : 0;
    bool none = b->begin == 0 || b->width == 0 || b->rows == 0 || b->slices == 0;
    return !none && vs_operands_at(b->begin, b->pitch * (height * (b->slices - 1) + b->rows - 1) + b->width);
}

static bool rows_away(CUDA_MEMCPY3D c)
{
    struct vs_box from = VS_ROWS_BOX(&c, src), to = VS_ROWS_BOX(&c, dst);
    return (c.srcMemoryType != CU_MEMORYTYPE_HOST && box_away(&from)) ||
           (c.dstMemoryType != CU_MEMORYTYPE_HOST && box_away(&to)) || stores_away(to.begin, &from);
}

bool vs_operands_copy_2d(const CUDA_MEMCPY2D *c)
{
    return c != NULL && rows_away(vs_rows_2d(c));
}

bool vs_operands_copy_3d(const CUDA_MEMCPY3D *c)
{
    return c != NULL && rows_away(*c);
}

bool vs_operands_copy_peer(const CUDA_MEMCPY3D_PEER *c)
{
    return c != NULL && rows_away(vs_rows_peer(c));
}

bool vs_operands_copy_ops(const struct CUDA_MEMCPY3D_BATCH_OP_st *list, size_t count)
{
    CUDA_MEMCPY3D c;
    bool away = false;
    for (size_t i = 0; list != NULL && i < count && !away; i++)
        away = vs_rows_op(&list[i], &c) ? rows_away(c) : vs_away_unknown();
    return away;
}

bool vs_operands_fill_node(const CUDA_MEMSET_NODE_PARAMS *p)
{
    return p != NULL &&
           box_away(&(struct vs_box){p->dst, p->width * p->elementSize, p->height, 1, p->pitch, 0});
}

/* A kernel's parameters are looked at when its graph is launched. */
bool vs_operands_node(const CUgraphNodeParams *p)
{
    switch (p != NULL ? (int)p->type : CU_GRAPH_NODE_TYPE_EMPTY) {
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return vs_operands_copy_3d(&p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return box_away(&(struct vs_box){p->memset.dst, p->memset.width * p->memset.elementSize,
                                         p->memset.height, 1, p->memset.pitch, 0});
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_HOST:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return false;
    default:
        return vs_away_unknown();
    }
}

static bool word_away(const CUstreamBatchMemOpParams *p)
{
    switch ((int)p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return vs_operands_at(p->waitValue.address, p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return vs_operands_at(p->writeValue.address, 4);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return vs_operands_write(p->writeValue.address, p->writeValue.value64);
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
        return false;
    default: /* what later drivers have */
        return vs_away_unknown();
    }
}

bool vs_operands_words(const CUstreamBatchMemOpParams *list, size_t count)
{
    bool away = false;
    for (size_t i = 0; list != NULL && i < count && !away; i++)
        away = word_away(&list[i]);
    return away;
}
