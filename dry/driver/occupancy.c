/*
 * occupancy.c - how much of a kernel fits on a multiprocessor.  Each kernel is taken to use REGISTERS
 * registers; real ones differ.
 */
#include "kernel.h"

#define REGISTERS 32

static CUresult get(int *value, CUfunction_attribute attribute, const struct sim_kernel *k)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK              ? 1024
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS                         ? REGISTERS
             : attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION                      ? k->code.ptx
             : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION                   ? k->code.binary
             : attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES    ? k->dynamic_shared
             : attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ? k->carveout
                                                                               : 0;
    return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set(struct sim_kernel *k, CUfunction_attribute attribute, int value)
{
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > sim_capability()->shared_of_block)
            return CUDA_ERROR_INVALID_VALUE;
        k->dynamic_shared = value;
    } else if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        k->carveout = value;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    SIM_CALL(SIM_CONTEXT);
    return get(value, attribute, sim_kernel_of(f));
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return sim_valid_device(device) ? get(value, attribute, sim_kernel_of(kernel))
                                    : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    SIM_CALL(SIM_CONTEXT);
    return set(sim_kernel_of(f), attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    return sim_valid_device(device) ? set(sim_kernel_of(kernel), attribute, value)
                                    : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- how many blocks a multiprocessor runs at once ---- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int blocks_of(int threads, size_t shared)
{
    const struct sim_capability *c = sim_capability();
    int warps = (threads + 31) / 32, reserved = c->shared - c->shared_of_block;
    int by_registers = 65536 / (REGISTERS * 32) / warps;
    int by_shared = (int)((size_t)c->shared / (sim_round(shared, 128) + (size_t)reserved + !reserved));
    return least(least(c->threads / 32 / warps, c->blocks), least(by_registers, by_shared));
}

static CUresult active_blocks(int *blocks, CUfunction f, int threads, size_t shared)
{
    if (!blocks || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_kernel_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *blocks = threads > 1024 ? 0 : blocks_of(threads, shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction f, int threads, size_t shared)
{
    SIM_CALL(SIM_CONTEXT);
    return active_blocks(blocks, f, threads, shared);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction f, int threads,
                                                              size_t shared, unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    return active_blocks(blocks, f, threads, shared);
}

/* The block size with most threads at once on a multiprocessor, the larger of equals. */
static CUresult best_block(int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of, size_t shared,
                           int limit)
{
    int most = 0;
    if (!grid || !block)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_kernel_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    for (int threads = limit > 0 && limit < 1024 ? limit : 1024; threads > 0;
         threads -= threads % 32 ? threads % 32 : 32) {
        int blocks = blocks_of(threads, shared_of ? shared_of(threads) : shared);
        if (blocks * threads <= most)
            continue;
        most = blocks * threads;
        *block = threads;
        *grid = blocks * sim_card()->multiprocessors;
    }
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f, CUoccupancyB2DSize shared_of,
                                          size_t shared, int limit)
{
    SIM_CALL(SIM_CONTEXT);
    return best_block(grid, block, f, shared_of, shared, limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                   unsigned int flags)
{
    SIM_CALL(SIM_CONTEXT);
    return best_block(grid, block, f, shared_of, shared, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks, int threads)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_capability *c = sim_capability();
    if (!bytes || blocks <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_kernel_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    int each = c->shared / blocks - (c->shared - c->shared_of_block);
    *bytes = (size_t)least(each > 0 ? each : 0, c->shared_of_block);
    return CUDA_SUCCESS;
}

static CUresult clusters(int *count, CUfunction f, int answer)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_kernel_of(f))
        return CUDA_ERROR_INVALID_HANDLE;
    *count = sim_card()->capability >= 90 ? answer : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction f, const CUlaunchConfig *config)
{
    SIM_CALL(SIM_CONTEXT);
    return clusters(size, f, 8);
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction f, const CUlaunchConfig *config)
{
    SIM_CALL(SIM_CONTEXT);
    return clusters(count, f, sim_card()->multiprocessors / 2);
}
