/*
 * copy.c - cuMemcpy* and cuMemset*: done at once, by the CPU, within bounds that are checked.
 *
 * A device address must lie, over the whole length, in memory that the driver knows and (VMM) may access: the
 * real driver answers CUDA_ERROR_INVALID_VALUE, and so does this one, where host code would have crashed.
 */
#include "capture.h"
#include "dry.h"
#include "graph.h"

#include <string.h>
#include <sys/mman.h>

static bool block_allows(const struct sim_block *block, bool write)
{
    return block->kind != SIM_MAPPING || (block->flags & (write ? PROT_WRITE : PROT_READ));
}

/* Also across neighbouring mappings, as an expandable segment is made of. */
bool sim_accessible(uint64_t address, uint64_t size, bool write)
{
    uint64_t end = address + size;
    if (end < address)
        return false;
    while (address < end) {
        const struct sim_block *block = sim_block_find(address);
        if (!block || !block_allows(block, write))
            return false;
        address = block->range.start + block->range.size;
    }
    return true;
}

static CUresult copy_now(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t size)
{
    if (!to || !from || (to_device && !sim_accessible(to, size, true)) ||
        (from_device && !sim_accessible(from, size, false)))
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_keeps(size))
        memmove((void *)to, (const void *)from, size);
    else
        sim_forget(to, size);
    return CUDA_SUCCESS;
}

/* In a graph: whether an address is the device's is known only when it runs. */
CUresult sim_copy(uint64_t to, uint64_t from, uint64_t size)
{
    return copy_now(to, sim_block_find(to) != NULL, from, sim_block_find(from) != NULL, size);
}

static CUresult capture_copy(struct sim_graph *graph, uint64_t to, uint64_t from, size_t size)
{
    struct sim_node *node = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->copy.to = to;
    node->copy.from = from;
    node->copy.size = size;
    return CUDA_SUCCESS;
}

static CUresult copy(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t size,
                     CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS || !size)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    if (graph)
        return capture_copy(graph, to, from, size);
    return result == CUDA_SUCCESS ? copy_now(to, to_device, from, from_device, size) : result;
}

/* cuMemcpy: either side may be plain host memory, so an unknown address is taken for that. */
static CUresult copy_any(uint64_t to, uint64_t from, size_t size, CUstream stream)
{
    return copy(to, sim_block_find(to) != NULL, from, sim_block_find(from) != NULL, size, stream);
}

CUresult sim_fill(uint64_t to, const void *pattern, unsigned width, uint64_t count)
{
    uint64_t size;
    if (to % width || __builtin_mul_overflow(width, count, &size) || !sim_accessible(to, size, true))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_keeps(size)) {
        sim_forget(to, size);
        return CUDA_SUCCESS;
    }
    if (width == 1) {
        memset((void *)to, *(const unsigned char *)pattern, count);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < count; i++)
        memcpy((char *)to + i * width, pattern, width);
    return CUDA_SUCCESS;
}

static CUresult capture_fill(struct sim_graph *graph, uint64_t to, const void *pattern, unsigned width,
                             size_t count)
{
    struct sim_node *node = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->fill.to = to;
    node->fill.width = width;
    node->fill.count = count;
    memcpy(node->fill.pattern, pattern, width);
    return CUDA_SUCCESS;
}

static CUresult fill(uint64_t to, const void *pattern, unsigned width, size_t count, CUstream stream)
{
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS || !count)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    if (graph)
        return capture_fill(graph, to, pattern, width, count);
    return result == CUDA_SUCCESS ? sim_fill(to, pattern, width, count) : result;
}

/* NAME and its twin, to which stream 0 is the thread's own.  CALL is a macro of that stream. */
#define PAIR(name, twin, params, stream, call)                                                               \
    CUresult name params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return call(stream);                                                                                 \
    }                                                                                                        \
    CUresult twin params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return call(sim_ptsz(stream));                                                                       \
    }
#define ANY(stream) copy_any(to, from, size, stream)
#define WITH(stream)                                                                                         \
    attributes &&stream &&stream != CU_STREAM_LEGACY ? copy_any(to, from, size, stream)                      \
                                                     : CUDA_ERROR_INVALID_VALUE
#define HTOD(stream) copy(to, true, (uint64_t)from, false, size, stream)
#define DTOH(stream) copy((uint64_t)to, false, from, true, size, stream)
#define DTOD(stream) copy(to, true, from, true, size, stream)
#define FILL(stream) fill(to, &value, sizeof value, count, stream)

PAIR(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), NULL, ANY)
PAIR(cuMemcpyAsync, cuMemcpyAsync_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
     stream, ANY)
PAIR(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz,
     (CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpyAttributes *attributes, CUstream stream), stream,
     WITH)
PAIR(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t size), NULL, HTOD)
PAIR(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t size), NULL, DTOH)
PAIR(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), NULL, DTOD)
PAIR(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
     (CUdeviceptr to, const void *from, size_t size, CUstream stream), stream, HTOD)
PAIR(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
     (void *to, CUdeviceptr from, size_t size, CUstream stream), stream, DTOH)
PAIR(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
     (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), stream, DTOD)

PAIR(cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr to, unsigned char value, size_t count), NULL, FILL)
PAIR(cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr to, unsigned short value, size_t count), NULL, FILL)
PAIR(cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr to, unsigned int value, size_t count), NULL, FILL)
PAIR(cuMemsetD8Async, cuMemsetD8Async_ptsz,
     (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), stream, FILL)
PAIR(cuMemsetD16Async, cuMemsetD16Async_ptsz,
     (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), stream, FILL)
PAIR(cuMemsetD32Async, cuMemsetD32Async_ptsz,
     (CUdeviceptr to, unsigned int value, size_t count, CUstream stream), stream, FILL)
