/*
 * vmm.c - events of the virtual memory management functions.
 *
 * Physical memory is named by its handle, address space by its address; the ledger knows that physical memory
 * lives until its references and its mappings are both gone.  Releases, unmaps and frees of address space are
 * recorded before the real call, like every free (alloc.c).
 */
#include "hook.h"

void vs_after_phys_create(enum vs_api api, uint64_t handle, uint64_t size, const CUmemAllocationProp *prop,
                          CUresult status)
{
    struct vs_event event = {.op = VS_OP_PHYS_CREATE,
                             .space = VS_SPACE_DEVICE,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = handle,
                             .size = size,
                             .arg1 = api};
    vs_place_prepare(status);
    event.context = vs_place_current().context;
    if (prop != NULL) {
        event.arg0 = (uint64_t)prop->location.type << 32 | (uint32_t)prop->location.id;
        if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            event.space = VS_SPACE_HOST_VMM;
        else if (prop->location.id >= 0 && prop->location.id <= INT8_MAX)
            event.device = (int8_t)prop->location.id;
    }
    if (status == CUDA_SUCCESS)
        vs_place_announce(event.device);
    vs_record(&event);
    vs_sample_if_asked();
}

void vs_after_phys_retain(enum vs_api api, enum vs_space space, uint64_t handle, uint64_t address,
                          CUresult status)
{
    struct vs_event event = {.op = VS_OP_PHYS_RETAIN,
                             .space = space,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = handle,
                             .arg0 = address,
                             .arg1 = api};
    vs_record(&event);
}

void vs_after_map(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle, CUresult status)
{
    struct vs_event event = {.op = VS_OP_MAP,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg0 = handle,
                             .arg1 = offset};
    vs_record(&event);
}

void vs_after_va_reserve(enum vs_api api, uint64_t address, uint64_t size, CUresult status)
{
    struct vs_event event = {.op = VS_OP_VA_RESERVE,
                             .space = VS_SPACE_ADDRESS,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg1 = api};
    vs_record(&event);
}

void vs_after_set_access(enum vs_api api, uint64_t address, uint64_t size, uint64_t count, CUresult status)
{
    struct vs_event event = {.op = VS_OP_SET_ACCESS,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = address,
                             .size = size,
                             .arg0 = count,
                             .arg1 = api};
    vs_record(&event);
}
