/*
 * copy.c - cuMemcpy* and cuMemset*, done at once by the CPU.  A device address must lie, over the whole
 * length, in memory that may be accessed: else CUDA_ERROR_INVALID_VALUE, where host code would crash.
 */
#include "capture.h"
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

/* A copy to or from page-locked memory may not go beyond what was locked at once, though more beside it is.
 */
static bool is_whole(uint64_t host, uint64_t size)
{
    const struct sim_block *block = sim_block_find(host);
    return !block || host + size <= block->range.start + block->range.size;
}

/* ALL: bytes of the whole copy that this is a part of. */
static CUresult copy_now(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t size,
                         size_t all)
{
    if (!to || !from || (to_device && !sim_accessible(to, size, true)) ||
        (from_device && !sim_accessible(from, size, false)) || (!to_device && !is_whole(to, size)) ||
        (!from_device && !is_whole(from, size)))
        return CUDA_ERROR_INVALID_VALUE;
    sim_work_copied(size);
    if (sim_keeps(all)) {
        memmove((void *)to, (const void *)from, size);
        sim_note_read(to, from, size);
    } else
        sim_forget(to, size);
    return CUDA_SUCCESS;
}

/* In a graph: whether an address is the device's is known only when it runs. */
CUresult sim_copy(uint64_t to, uint64_t from, uint64_t size)
{
    return copy_now(to, sim_block_find(to) != NULL, from, sim_block_find(from) != NULL, size, size);
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

CUresult sim_copy_on(CUstream stream, uint64_t to, bool to_device, uint64_t from, bool from_device,
                     size_t size, size_t all)
{
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS || !size)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    if (graph)
        return capture_copy(graph, to, from, size);
    return result == CUDA_SUCCESS ? copy_now(to, to_device, from, from_device, size, all) : result;
}

static CUresult copy(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t size,
                     CUstream stream)
{
    return sim_copy_on(stream, to, to_device, from, from_device, size, size);
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

CUresult sim_fill_on(CUstream stream, uint64_t to, const void *pattern, unsigned width, uint64_t count)
{
    CUresult result = sim_stream_check(stream);
    if (result != CUDA_SUCCESS || !count)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    if (graph)
        return capture_fill(graph, to, pattern, width, count);
    return result == CUDA_SUCCESS ? sim_fill(to, pattern, width, count) : result;
}

static CUresult copy_batch(const CUdeviceptr *to, const CUdeviceptr *from, const size_t *sizes, size_t count,
                           CUstream stream)
{
    CUresult result = to && from && sizes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = copy_any(to[i], from[i], sizes[i], stream);
    return result;
}

#define ANY(stream) copy_any(to, from, size, stream)
#define WITH(stream)                                                                                         \
    attributes &&stream &&stream != CU_STREAM_LEGACY ? copy_any(to, from, size, stream)                      \
                                                     : CUDA_ERROR_INVALID_VALUE
#define HTOD(stream)  copy(to, true, (uint64_t)from, false, size, stream)
#define DTOH(stream)  copy((uint64_t)to, false, from, true, size, stream)
#define DTOD(stream)  copy(to, true, from, true, size, stream)
#define FILL(stream)  sim_fill_on(stream, to, &value, sizeof value, count)
#define BATCH(stream) copy_batch(to, from, sizes, count, stream)
#define WRITE(stream) sim_fill_on(stream, to, &value, sizeof value, 1)

SIM_TWINS(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), NULL, ANY)
SIM_TWINS(cuMemcpyAsync, cuMemcpyAsync_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
          stream, ANY)
SIM_TWINS(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz,
          (CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpyAttributes *attributes, CUstream stream),
          stream, WITH)
SIM_TWINS(cuMemcpyPeer, cuMemcpyPeer_ptds,
          (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size), NULL,
          ANY)
SIM_TWINS(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
          (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size,
           CUstream stream),
          stream, ANY)
SIM_TWINS(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,
          (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
           size_t *which, size_t attribute_count, size_t *failed, CUstream stream),
          stream, BATCH)
SIM_TWINS(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,
          (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
           size_t *which, size_t attribute_count, CUstream stream),
          stream, BATCH)
SIM_TWINS(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t size), NULL, HTOD)
SIM_TWINS(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t size), NULL, DTOH)
SIM_TWINS(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), NULL, DTOD)
SIM_TWINS(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
          (CUdeviceptr to, const void *from, size_t size, CUstream stream), stream, HTOD)
SIM_TWINS(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
          (void *to, CUdeviceptr from, size_t size, CUstream stream), stream, DTOH)
SIM_TWINS(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
          (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), stream, DTOD)

SIM_TWINS(cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr to, unsigned char value, size_t count), NULL, FILL)
SIM_TWINS(cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr to, unsigned short value, size_t count), NULL,
          FILL)
SIM_TWINS(cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr to, unsigned int value, size_t count), NULL, FILL)
SIM_TWINS(cuMemsetD8Async, cuMemsetD8Async_ptsz,
          (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), stream, FILL)
SIM_TWINS(cuMemsetD16Async, cuMemsetD16Async_ptsz,
          (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), stream, FILL)
SIM_TWINS(cuMemsetD32Async, cuMemsetD32Async_ptsz,
          (CUdeviceptr to, unsigned int value, size_t count, CUstream stream), stream, FILL)

/* A stream's work is done when it is given, so a write is a fill of one word and nothing is ever waited for.
 */
#define WORDS(bits)                                                                                          \
    SIM_TWINS(cuStreamWriteValue##bits, cuStreamWriteValue##bits##_ptsz,                                     \
              (CUstream stream, CUdeviceptr to, cuuint##bits##_t value, unsigned int flags), stream, WRITE)  \
    SIM_TWINS(cuStreamWriteValue##bits##_v2, cuStreamWriteValue##bits##_v2_ptsz,                             \
              (CUstream stream, CUdeviceptr to, cuuint##bits##_t value, unsigned int flags), stream, WRITE)  \
    SIM_TWINS(cuStreamWaitValue##bits, cuStreamWaitValue##bits##_ptsz,                                       \
              (CUstream stream, CUdeviceptr at, cuuint##bits##_t value, unsigned int flags), stream,         \
              sim_stream_check)                                                                              \
    SIM_TWINS(cuStreamWaitValue##bits##_v2, cuStreamWaitValue##bits##_v2_ptsz,                               \
              (CUstream stream, CUdeviceptr at, cuuint##bits##_t value, unsigned int flags), stream,         \
              sim_stream_check)
WORDS(32)
WORDS(64)

static CUresult write_all(CUstream stream, unsigned count, const CUstreamBatchMemOpParams *list)
{
    CUresult result = list ? sim_stream_check(stream) : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
            result = sim_fill_on(stream, list[i].writeValue.address, &list[i].writeValue.value, 4, 1);
        else if (list[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
            result = sim_fill_on(stream, list[i].writeValue.address, &list[i].writeValue.value64, 8, 1);
    return result;
}
#define WRITE_ALL(stream) write_all(stream, count, list)
SIM_TWINS(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz,
          (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *list, unsigned int flags), stream,
          WRITE_ALL)
SIM_TWINS(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
          (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *list, unsigned int flags), stream,
          WRITE_ALL)
