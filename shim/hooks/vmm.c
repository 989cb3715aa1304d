/*
 * vmm.c - events of the virtual memory management functions.
 *
 * Physical memory is named by its handle, address space by its address; the ledger knows that physical memory
 * lives until its references and its mappings are both gone.
 */
#include "events.h"

#include "meminfo.h"
#include "place.h"
#include "record/record.h"

#define LOCALITY_DOMAIN 6 /* CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, of CUDA 13.4 */

bool vs_on_device(const CUmemLocation *location, int *device)
{
    /* of a part of a device the first byte is the device, the second the part */
    *device = (int)location->type == LOCALITY_DOMAIN ? location->id & 0xff : location->id;
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE || (int)location->type == LOCALITY_DOMAIN;
}

/* Where the memory lies, and the event's word for it; a part of a device counts as the device. */
static void set_location(struct vs_event *event, const CUmemLocation *location)
{
    int device;
    event->arg0 = (uint64_t)location->type << 32 | (uint32_t)location->id;
    if (!vs_on_device(location, &device)) {
        event->space = VS_SPACE_HOST_VMM;
        return;
    }
    event->arg0 = (uint64_t)CU_MEM_LOCATION_TYPE_DEVICE << 32 | (uint32_t)device;
    if (device >= 0 && device <= INT8_MAX)
        event->device = (int8_t)device;
}

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
    if (prop != NULL)
        set_location(&event, &prop->location);
    if (status == CUDA_SUCCESS)
        vs_place_announce(event.device);
    vs_record(&event);
    vs_sample_after(status);
}

/* ---- multicast objects, logical endpoints: an address for several devices' memory, none of its own ---- */

void vs_after_multicast_create(enum vs_api api, uint64_t object, uint64_t size, CUresult status)
{
    vs_place_prepare(status);
    struct vs_place place = {VS_DEVICE_UNKNOWN, vs_place_current().context};
    vs_event(VS_OP_PHYS_CREATE, VS_SPACE_MULTICAST, place, object, size, 0, api, status);
}

/* One offset of the object has memory of each device.  The keys of a device follow each other as their
 * offsets do, which the ledger relies on. */
uint64_t vs_multicast_key(int device, uint64_t offset)
{
    return ((uint64_t)(uint8_t)(device + 1) << 56) + offset;
}

int vs_device_of_handle(CUmemGenericAllocationHandle handle)
{
    CUmemAllocationProp prop = {.location = {.type = CU_MEM_LOCATION_TYPE_INVALID}};
    int device;
    if (vs_drv_cuMemGetAllocationPropertiesFromHandle(&prop, handle) != CUDA_SUCCESS ||
        !vs_on_device(&prop.location, &device))
        return VS_DEVICE_UNKNOWN;
    return device;
}

int vs_device_of_address(CUdeviceptr address)
{
    int device = VS_DEVICE_UNKNOWN;
    vs_drv_cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
    return device;
}
