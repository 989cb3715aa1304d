/*
 * vmm.c - physical memory of the virtual-memory API: creating, reference counts, sharing.
 *
 * It is a shared mapping without access; vmm_map.c duplicates its pages to where they are mapped.  So two
 * mappings of one handle are the same bytes, and only an exportable handle has a descriptor (a memfd): a
 * program that closes every descriptor does not break its GPU.
 */
#define _GNU_SOURCE /* memfd_create, mremap */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sim_map physical;

struct sim_phys *sim_phys_find(CUmemGenericAllocationHandle handle)
{
    struct sim_phys *phys = (struct sim_phys *)sim_map_at(&physical, handle);
    return phys && phys->references ? phys : NULL;
}

void sim_phys_unref(struct sim_phys *phys)
{
    if (phys->references || phys->mappings)
        return;
    if (phys->multicast)
        sim_multicast_end(phys->multicast);
    if (phys->pages)
        munmap((void *)phys->pages, phys->size);
    if (phys->fd >= 0)
        close(phys->fd);
    if (phys->device >= 0 && !phys->imported)
        sim_uncharge(phys->device, phys->size);
    sim_map_remove(&physical, &phys->range);
    free(phys);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    SIM_CALL(SIM_INITIALIZED);
    if (!granularity || !prop ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

static bool is_host_location(CUmemLocationType type)
{
    return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* A device here has one locality domain, which is all of it. */
static bool of_a_domain(CUmemAllocationProp *prop)
{
    int device = prop->location.id & 0xff, domain = prop->location.id >> 8 & 0xff;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
        return true;
    prop->location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return domain == 0;
}

static CUresult check_prop(const CUmemAllocationProp *prop, uint64_t size, unsigned long long flags)
{
    if (!prop || flags || !size || size % SIM_GRANULARITY || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (is_host_location(prop->location.type))
        return CUDA_SUCCESS;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_valid_device(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* FD -1: memory without a descriptor. */
struct sim_phys *sim_phys_new(uint64_t size, int fd)
{
    struct sim_phys *phys = calloc(1, sizeof *phys);
    int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    int access = sim_dry() ? PROT_READ | PROT_WRITE : PROT_NONE; /* as the room that it is mapped into has */
    void *pages = !phys ? MAP_FAILED : sim_dry() && fd < 0 ? NULL : mmap(NULL, size, access, flags, fd, 0);
    if (pages == MAP_FAILED) {
        free(phys);
        return NULL;
    }
    phys->range.start = (uint64_t)phys;
    phys->range.size = 1;
    phys->size = size;
    phys->pages = (uint64_t)pages;
    phys->fd = fd;
    phys->references = 1;
    sim_map_insert(&physical, &phys->range);
    return phys;
}

int sim_shareable_file(uint64_t size)
{
    int fd = memfd_create("simcuda", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    CUresult result = check_prop(prop, size, flags);
    if (result != CUDA_SUCCESS)
        return result;
    int device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : -1;
    if (device >= 0 && !sim_charge(device, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool shareable = prop->requestedHandleTypes && !sim_dry();
    int fd = shareable ? sim_shareable_file(size) : -1;
    struct sim_phys *phys = shareable && fd < 0 ? NULL : sim_phys_new(size, fd);
    if (!phys) {
        if (fd >= 0)
            close(fd);
        if (device >= 0)
            sim_uncharge(device, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    phys->device = device;
    phys->prop = *prop;
    *out = phys->range.start;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    CUmemAllocationProp whole;
    if (!out || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    whole = *prop;
    return of_a_domain(&whole) ? create(out, size, &whole, flags) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_phys *phys = sim_phys_find(handle);
    if (!phys)
        return CUDA_ERROR_INVALID_VALUE;
    phys->references--;
    sim_phys_unref(phys);
    return CUDA_SUCCESS;
}

/* Also brings a handle back whose last reference was released while it is mapped. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_block *block = sim_block_find((uint64_t)address);
    if (!out || !block || block->kind != SIM_MAPPING)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_phys *phys = block->detail;
    phys->references++;
    *out = phys->range.start;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_phys *phys = sim_phys_find(handle);
    if (!prop || !phys)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = phys->prop;
    return CUDA_SUCCESS;
}

/* ---- sharing ---- */

/* In dry mode only what is exported has a file, because large models have thousands of handles. */
static bool share_late(struct sim_phys *phys)
{
    phys->fd = sim_shareable_file(phys->size);
    void *pages = phys->fd < 0 ? MAP_FAILED
                               : mmap(NULL, phys->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                      phys->fd, 0);
    if (pages == MAP_FAILED)
        return false;
    phys->pages = (uint64_t)pages;
    return sim_mappings_share(phys);
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_phys *phys = sim_phys_find(handle);
    if (!out || flags || !phys || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (phys->fd < 0 && !(sim_dry() && phys->prop.requestedHandleTypes && share_late(phys)))
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(phys->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

static struct sim_phys *phys_of_file(const struct stat *file)
{
    struct stat own;
    for (struct sim_range *r = NULL; (r = sim_map_from(&physical, r ? r->start + 1 : 0));) {
        struct sim_phys *phys = (struct sim_phys *)r;
        if (phys->fd >= 0 && fstat(phys->fd, &own) == 0 && own.st_ino == file->st_ino &&
            own.st_dev == file->st_dev)
            return phys;
    }
    return NULL;
}

/* Memory of this process gets one more reference under the same handle; another's is charged to nobody here.
 */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    SIM_CALL(SIM_INITIALIZED);
    struct stat file;
    int fd = (int)(intptr_t)os_handle;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &file) != 0 || !file.st_size)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_phys *phys = phys_of_file(&file);
    if (phys) {
        phys->references++;
    } else {
        int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        phys = own >= 0 ? sim_phys_new((uint64_t)file.st_size, own) : NULL;
        if (!phys)
            return CUDA_ERROR_OUT_OF_MEMORY;
        phys->imported = true;
        phys->prop = (CUmemAllocationProp){
            .type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        };
    }
    *out = phys->range.start;
    return CUDA_SUCCESS;
}
