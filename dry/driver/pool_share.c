/*
 * pool_share.c - pools shared between processes: a pool as a file descriptor, each allocation in it as
 * the 64 bytes of cuMemPoolExportPointer.  Pointers are imported one by one, at addresses of their own, and
 * cost the importer nothing.
 */
#define _GNU_SOURCE /* memfd_create */
#include "pool.h"
#include "share.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int export_file(const struct sim_pool *pool)
{
    struct sim_ticket ticket = {.magic = "simcuda",
                                .pid = getpid(),
                                .kind = SIM_TICKET_POOL,
                                .device = (uint16_t)pool->device,
                                .pool = pool->id};
    ticket.magic[7] = '\n';
    int fd = memfd_create("simcuda pool", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, &ticket, sizeof ticket, 0) != (ssize_t)sizeof ticket) {
        close(fd);
        fd = -1;
    }
    return fd;
}

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle, CUmemAllocationHandleType type,
                                          unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_pool *pool = sim_pool_from(handle);
    if (!out || flags || !pool || !pool->shareable || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->fd < 0)
        pool->fd = export_file(pool);
    int fd = pool->fd >= 0 ? fcntl(pool->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle, CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_ticket ticket;
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread((int)(intptr_t)handle, &ticket, sizeof ticket, 0) != (ssize_t)sizeof ticket ||
        !sim_is_ticket(&ticket, SIM_TICKET_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_pool *pool = sim_pool_new(ticket.device);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->exporter = ticket.pid;
    pool->id = ticket.pool;
    *out = sim_pool_handle(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr address)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_block *block = sim_block_find(address);
    if (!out || !block || block->kind != SIM_POOLED || block->range.start != address)
        return CUDA_ERROR_INVALID_VALUE;
    const struct segment *segment = ((const struct piece *)block->detail)->segment;
    struct sim_ticket ticket;
    if (!segment->pool->shareable)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result =
        sim_share(&ticket, SIM_TICKET_POOL_MEMORY, address, block->range.size, segment->start, segment->size);
    if (result != CUDA_SUCCESS)
        return result;
    ticket.device = (uint16_t)block->device;
    ticket.pool = segment->pool->id;
    memcpy(out->reserved, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle, CUmemPoolPtrExportData *data)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_pool *pool = sim_pool_from(handle);
    struct sim_ticket ticket;
    struct sim_block *block;
    if (!out || !data || !pool || !pool->exporter)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&ticket, data->reserved, sizeof ticket);
    if (!sim_is_ticket(&ticket, SIM_TICKET_POOL_MEMORY) || ticket.pid != pool->exporter ||
        ticket.pool != pool->id)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_import_ticket(&ticket, SIM_BY_POOL, &block);
    if (result == CUDA_SUCCESS)
        *out = block->range.start;
    return result;
}
