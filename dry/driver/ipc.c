/*
 * ipc.c - handles of cuMemAlloc's memory, and of events, for other processes.  A handle opened again by the
 * same context is the same address, counted; what is opened costs nothing, as the bytes are the exporter's.
 */
#include "capture.h"
#include "share.h"

#include <string.h>
#include <unistd.h>

CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
    SIM_CALL(SIM_CONTEXT);
    const struct sim_block *block = sim_block_find(address);
    struct sim_ticket ticket;
    uint64_t start, pages;
    if (!out || !block || block->kind != SIM_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    sim_backing_region(block, &start, &pages);
    CUresult result =
        sim_share(&ticket, SIM_TICKET_MEMORY, block->range.start, block->range.size, start, pages);
    if (result != CUDA_SUCCESS)
        return result;
    ticket.device = (uint16_t)block->device;
    memcpy(out->reserved, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

static struct sim_block *opened(const struct sim_ticket *ticket)
{
    for (struct sim_range *r = NULL; (r = sim_map_from(&sim_blocks, r ? r->start + 1 : 0));) {
        struct sim_block *block = (struct sim_block *)r;
        const struct sim_import *import = block->detail;
        if (block->kind == SIM_IMPORTED && import->way == SIM_BY_IPC && block->owner == sim_context_owner() &&
            memcmp(&import->ticket, ticket, sizeof *ticket) == 0)
            return block;
    }
    return NULL;
}

static CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle *handle, unsigned flags)
{
    struct sim_ticket ticket;
    memcpy(&ticket, handle->reserved, sizeof ticket);
    SIM_UNSAFE();
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_is_ticket(&ticket, SIM_TICKET_MEMORY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (ticket.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sim_block *block = opened(&ticket);
    CUresult result = CUDA_SUCCESS;
    if (block)
        ((struct sim_import *)block->detail)->references++;
    else
        result = sim_import_ticket(&ticket, SIM_BY_IPC, &block);
    if (result == CUDA_SUCCESS)
        *out = block->range.start;
    return result;
}

SIM_SAME(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, SIM_CONTEXT,
         (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags), open_handle(out, &handle, flags))

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    SIM_CALL(SIM_CONTEXT);
    struct sim_block *block = sim_block_find(address);
    struct sim_import *import = block && block->kind == SIM_IMPORTED ? block->detail : NULL;
    SIM_UNSAFE();
    if (!import || import->way != SIM_BY_IPC || block->range.start != address)
        return CUDA_ERROR_INVALID_VALUE;
    if (--import->references == 0)
        sim_import_free(block);
    return CUDA_SUCCESS;
}

/* ---- events ---- */

static const char event_magic[] = "simcuda event\n";

CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent event)
{
    SIM_CALL(SIM_CONTEXT);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_event_shareable(event))
        return CUDA_ERROR_INVALID_HANDLE;
    memset(out, 0, sizeof *out);
    memcpy(out->reserved, event_magic, sizeof event_magic);
    return CUDA_SUCCESS;
}

/* Another process's work was done when it was given, so its event is one that there is nothing to wait for.
 */
CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    SIM_CALL(SIM_CONTEXT);
    return memcmp(handle.reserved, event_magic, sizeof event_magic) != 0
               ? CUDA_ERROR_INVALID_HANDLE
               : sim_event_new(out, CU_EVENT_DISABLE_TIMING);
}
