/*
 * copy.c - cuMemcpy* and cuMemset*: done at once, by the CPU, within bounds that are checked.
 *
 * A device address must lie, over the whole length, in memory that the driver knows and (VMM) may access: the
 * real driver answers CUDA_ERROR_INVALID_VALUE, and so does this one, where host code would have crashed.
 */
#include "sim.h"

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

static CUresult copy(uint64_t to, bool to_device, uint64_t from, bool from_device, size_t size,
                     CUstream stream)
{
    if (!sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!size)
        return CUDA_SUCCESS;
    if (!to || !from || (to_device && !sim_accessible(to, size, true)) ||
        (from_device && !sim_accessible(from, size, false)))
        return CUDA_ERROR_INVALID_VALUE;
    memmove((void *)to, (const void *)from, size);
    return CUDA_SUCCESS;
}

/* cuMemcpy: either side may be plain host memory, so an unknown address is taken for that. */
static CUresult copy_any(uint64_t to, uint64_t from, size_t size, CUstream stream)
{
    return copy(to, sim_block_find(to) != NULL, from, sim_block_find(from) != NULL, size, stream);
}

static CUresult fill(uint64_t to, const void *pattern, size_t width, size_t count, CUstream stream)
{
    uint64_t size;
    if (!sim_valid_stream(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!count)
        return CUDA_SUCCESS;
    if (to % width || __builtin_mul_overflow(width, count, &size) || !sim_accessible(to, size, true))
        return CUDA_ERROR_INVALID_VALUE;
    if (width == 1) {
        memset((void *)to, *(const unsigned char *)pattern, count);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < count; i++)
        memcpy((char *)to + i * width, pattern, width);
    return CUDA_SUCCESS;
}

/* NAME and its per-thread-stream twin are the same: nothing is left pending on any stream. */
#define PAIR(name, twin, params, call)                                                                       \
    CUresult name params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return call;                                                                                         \
    }                                                                                                        \
    CUresult twin params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return call;                                                                                         \
    }
#define HTOD(stream) copy(to, true, (uint64_t)from, false, size, stream)
#define DTOH(stream) copy((uint64_t)to, false, from, true, size, stream)
#define DTOD(stream) copy(to, true, from, true, size, stream)

PAIR(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), copy_any(to, from, size, NULL))
PAIR(cuMemcpyAsync, cuMemcpyAsync_ptsz, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
     copy_any(to, from, size, stream))
PAIR(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void *from, size_t size), HTOD(NULL))
PAIR(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *to, CUdeviceptr from, size_t size), DTOH(NULL))
PAIR(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t size), DTOD(NULL))
PAIR(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
     (CUdeviceptr to, const void *from, size_t size, CUstream stream), HTOD(stream))
PAIR(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
     (void *to, CUdeviceptr from, size_t size, CUstream stream), DTOH(stream))
PAIR(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
     (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), DTOD(stream))

PAIR(cuMemsetD8_v2, cuMemsetD8_v2_ptds, (CUdeviceptr to, unsigned char value, size_t count),
     fill(to, &value, 1, count, NULL))
PAIR(cuMemsetD16_v2, cuMemsetD16_v2_ptds, (CUdeviceptr to, unsigned short value, size_t count),
     fill(to, &value, 2, count, NULL))
PAIR(cuMemsetD32_v2, cuMemsetD32_v2_ptds, (CUdeviceptr to, unsigned int value, size_t count),
     fill(to, &value, 4, count, NULL))
PAIR(cuMemsetD8Async, cuMemsetD8Async_ptsz,
     (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), fill(to, &value, 1, count, stream))
PAIR(cuMemsetD16Async, cuMemsetD16Async_ptsz,
     (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
     fill(to, &value, 2, count, stream))
PAIR(cuMemsetD32Async, cuMemsetD32Async_ptsz,
     (CUdeviceptr to, unsigned int value, size_t count, CUstream stream), fill(to, &value, 4, count, stream))
