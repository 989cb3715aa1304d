/*
 * vmm.c - events of the virtual memory management functions.
 *
 * Physical memory is named by its handle, address space by its address; the ledger knows that physical memory
 * lives until its references and its mappings are both gone.  Releases, unmaps and frees of address space are
 * recorded before the real call, like every free (alloc.c).
 */
#include "events.h"

#include "caller.h"
#include "meminfo.h"
#include "place.h"
#include "record/record.h"

void vs_after_phys_create(enum vs_api api, uint64_t handle, uint64_t size, const CUmemAllocationProp *prop,
                          const void *caller, CUresult status)
{
    struct vs_event event = {.op = VS_OP_PHYS_CREATE,
                             .space = VS_SPACE_DEVICE,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = handle,
                             .size = size,
                             .arg1 = api | VS_CALLED_BY(vs_caller_of(caller))};
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
    vs_sample_after(status);
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

/* ---- multicast objects: an address for several devices' memory, none of its own ---- */

void vs_after_multicast_create(enum vs_api api, uint64_t handle, const CUmulticastObjectProp *prop,
                               CUresult status)
{
    struct vs_event event = {.op = VS_OP_PHYS_CREATE,
                             .space = VS_SPACE_MULTICAST,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = handle,
                             .size = prop != NULL ? prop->size : 0,
                             .arg1 = api};
    vs_place_prepare(status);
    event.context = vs_place_current().context;
    vs_record(&event);
}

/* One offset of the object has memory of each device. */
uint64_t vs_multicast_key(int device, uint64_t offset)
{
    return (uint64_t)(uint8_t)(device + 1) << 56 ^ offset;
}

int vs_device_of_handle(CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp prop = {.location = {.type = CU_MEM_LOCATION_TYPE_INVALID}};
    if (vs_drv_cuMemGetAllocationPropertiesFromHandle(&prop, handle) != CUDA_SUCCESS ||
        prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return VS_DEVICE_UNKNOWN;
    return prop.location.id;
}

int vs_device_of_address(CUdeviceptr address)
{
    int device = VS_DEVICE_UNKNOWN;
    vs_drv_cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    return device;
}

/* MEMORY: a handle, or an address where memory is mapped: the ledger distinguishes them. */
void vs_after_multicast_bind(uint64_t object, uint64_t offset, int device, uint64_t memory, uint64_t size,
                             CUresult status)
{
    struct vs_event event = {.op = VS_OP_BIND,
                             .space = VS_SPACE_MULTICAST,
                             .device = VS_DEVICE_UNKNOWN,
                             .status = status,
                             .address = object,
                             .size = size,
                             .arg0 = memory,
                             .arg1 = vs_multicast_key(device, offset)};
    vs_record(&event);
}

uint64_t vs_before_multicast_unbind(uint64_t object, int device, uint64_t offset, uint64_t size)
{
    struct vs_event event = {.op = VS_OP_UNBIND,
                             .space = VS_SPACE_MULTICAST,
                             .device = VS_DEVICE_UNKNOWN,
                             .address = object,
                             .size = size,
                             .arg1 = vs_multicast_key(device, offset)};
    return vs_record(&event);
}
