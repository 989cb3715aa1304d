/*
 * endpoint.c - logical endpoints: memory of devices under a reserved number, reached over the fabric.
 *
 * What is bound into one stays alive meanwhile.  It is ready for bindings once it was asked whether it is.
 * Another process's endpoint can be opened by its handle, and has no memory here.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define NUMBERS  256u
#define MAX_SIZE (1ull << 40)

struct bound {
    struct bound *next;
    struct sim_phys *phys;
    int device;
    uint64_t offset, size;
};
static struct endpoint {
    bool reserved, made, imported, asked, exportable, member[SIM_MAX_DEVICES];
    unsigned wanted, added;
    uint64_t size;
    struct bound *first;
} endpoints[NUMBERS];

static const char handle_mark[] = "simcuda endpoint";

static struct endpoint *reserved(CUlogicalEndpointId id)
{
    return id < NUMBERS && endpoints[id].reserved ? &endpoints[id] : NULL;
}

static struct endpoint *made(CUlogicalEndpointId id)
{
    struct endpoint *e = reserved(id);
    return e && e->made ? e : NULL;
}

CUresult cuLogicalEndpointIdReserve(CUlogicalEndpointId *base, cuuint32_t count)
{
    SIM_CALL(SIM_INITIALIZED);
    unsigned run = 0;
    if (!base || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < NUMBERS; i++) {
        run = endpoints[i].reserved ? 0 : run + 1;
        if (run < count)
            continue;
        *base = i + 1 - count;
        for (unsigned k = *base; k <= i; k++)
            endpoints[k].reserved = true;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLogicalEndpointIdRelease(CUlogicalEndpointId base, cuuint32_t count)
{
    SIM_CALL(SIM_INITIALIZED);
    for (unsigned i = 0; i < count; i++)
        if (!reserved(base + i) || made(base + i))
            return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        endpoints[base + i].reserved = false;
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_prop(const CUlogicalEndpointProp *prop)
{
    bool unicast = prop && prop->type == CU_LOGICAL_ENDPOINT_TYPE_UNICAST;
    if (!prop || (!unicast && prop->type != CU_LOGICAL_ENDPOINT_TYPE_MULTICAST) || !prop->size ||
        prop->size % SIM_GRANULARITY || prop->size > MAX_SIZE || prop->flags)
        return CUDA_ERROR_INVALID_VALUE;
    return unicast ? (sim_valid_device(prop->unicast.device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)
           : prop->multicast.numDevices && prop->multicast.numDevices <= (unsigned)sim_device_count
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLogicalEndpointGetLimits(cuuint64_t *alignment, cuuint64_t *max_size,
                                    const CUlogicalEndpointProp *prop)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!alignment || !max_size || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *alignment = SIM_GRANULARITY;
    *max_size = MAX_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuLogicalEndpointCreate(CUlogicalEndpointId id, const CUlogicalEndpointProp *prop)
{
    SIM_CALL(SIM_INITIALIZED);
    struct endpoint *e = reserved(id);
    CUresult result = e && !e->made ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    bool unicast = prop->type == CU_LOGICAL_ENDPOINT_TYPE_UNICAST;
    *e = (struct endpoint){.reserved = true,
                           .made = true,
                           .exportable = prop->ipcHandleTypes != 0,
                           .size = prop->size,
                           .wanted = unicast ? 1 : prop->multicast.numDevices,
                           .added = unicast};
    if (unicast)
        e->member[prop->unicast.device] = true;
    return CUDA_SUCCESS;
}

CUresult cuLogicalEndpointAddDevice(CUlogicalEndpointId id, CUdevice device)
{
    SIM_CALL(SIM_INITIALIZED);
    struct endpoint *e = made(id);
    if (!e || !sim_valid_device(device) || e->member[device] || e->added == e->wanted)
        return CUDA_ERROR_INVALID_VALUE;
    e->member[device] = true;
    e->added++;
    return CUDA_SUCCESS;
}

CUresult cuLogicalEndpointQuery(CUlogicalEndpointId id, cuuint32_t count, int *ready)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!ready || !count)
        return CUDA_ERROR_INVALID_VALUE;
    *ready = 1;
    for (unsigned i = 0; i < count; i++) {
        struct endpoint *e = made(id + i);
        if (!e)
            return CUDA_ERROR_INVALID_VALUE;
        e->asked = e->added == e->wanted;
        *ready = *ready && e->asked;
    }
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult bind(struct endpoint *e, int device, uint64_t offset, struct sim_phys *memory, uint64_t from,
                     uint64_t size, unsigned long long flags)
{
    if (!e || !e->asked || e->imported || !memory || flags || memory->multicast || memory->device != device ||
        !e->member[device] || !sim_aligned_within(offset, size, e->size) ||
        !sim_aligned_within(from, size, memory->size))
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct bound *b = e->first; b; b = b->next)
        if (b->device == device && b->offset < offset + size && offset < b->offset + b->size)
            return CUDA_ERROR_INVALID_VALUE;
    struct bound *bound = calloc(1, sizeof *bound);
    if (!bound)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *bound = (struct bound){e->first, memory, device, offset, size};
    e->first = bound;
    memory->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId id, CUdevice device, cuuint64_t offset,
                                  CUmemGenericAllocationHandle memory, cuuint64_t from, cuuint64_t size,
                                  unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!sim_valid_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    return bind(made(id), device, offset, sim_phys_find(memory), from, size, flags);
}

CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId id, CUdevice device, cuuint64_t offset, void *address,
                                   cuuint64_t size, unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_block *block = sim_block_find((uint64_t)address);
    if (!sim_valid_device(device) || !block || block->kind != SIM_MAPPING)
        return CUDA_ERROR_INVALID_VALUE;
    return bind(made(id), device, offset, block->detail, (uint64_t)address - block->range.start, size, flags);
}

static void drop(struct bound **link)
{
    struct bound *bound = *link;
    *link = bound->next;
    bound->phys->mappings--;
    sim_phys_unref(bound->phys);
    free(bound);
}

/* Drops what lies in the range, or says how much that is. */
static uint64_t unbind(struct endpoint *e, int device, uint64_t offset, uint64_t size, bool really)
{
    uint64_t covered = 0;
    for (struct bound **link = &e->first; *link;) {
        const struct bound *b = *link;
        bool inside = b->device == device && b->offset >= offset && b->size <= size &&
                      b->offset - offset <= size - b->size;
        covered += inside ? b->size : 0;
        if (inside && really)
            drop(link);
        else
            link = &(*link)->next;
    }
    return covered;
}

CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId id, CUdevice device, cuuint64_t offset, cuuint64_t size)
{
    SIM_CALL(SIM_INITIALIZED);
    struct endpoint *e = made(id);
    if (!e || !sim_valid_device(device) || !size || unbind(e, device, offset, size, false) != size)
        return CUDA_ERROR_INVALID_VALUE;
    unbind(e, device, offset, size, true);
    return CUDA_SUCCESS;
}

CUresult cuLogicalEndpointDestroy(CUlogicalEndpointId id)
{
    SIM_CALL(SIM_INITIALIZED);
    struct endpoint *e = made(id);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    while (e->first)
        drop(&e->first);
    e->made = false;
    return CUDA_SUCCESS;
}

/* ---- sharing ---- */

CUresult cuLogicalEndpointExport(void *handle, CUlogicalEndpointId id, CUlogicalEndpointIpcHandleType type)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct endpoint *e = made(id);
    if (!handle || !e || type != CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (!e->exportable)
        return CUDA_ERROR_NOT_SUPPORTED;
    memset(handle, 0, sizeof(CUlogicalEndpointFabricHandle));
    memcpy(handle, handle_mark, sizeof handle_mark);
    return CUDA_SUCCESS;
}

CUresult cuLogicalEndpointImport(CUlogicalEndpointId id, const void *handle,
                                 CUlogicalEndpointIpcHandleType type)
{
    SIM_CALL(SIM_INITIALIZED);
    struct endpoint *e = reserved(id);
    if (!e || e->made || !handle || type != CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC ||
        memcmp(handle, handle_mark, sizeof handle_mark) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *e = (struct endpoint){.reserved = true, .made = true, .imported = true};
    return CUDA_SUCCESS;
}
