// link: cuda
/*
 * As prog_faults.c, for arrays, multicast objects, logical endpoints and the memory of other processes,
 * which comes from a child whose driver never fails.
 */
#define _GNU_SOURCE
#include "prog_calls.h"

#include "../../../dry/driver/newer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

/* ---- another process ---- */

struct shared {
    CUipcMemHandle handle;
    CUmemPoolPtrExportData pointer;
    int file; /* its number in the owner */
};
static int peer;

static void owner(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr a, b;
    struct shared shared;
    char c;
    if (read(peer, &c, 1) != 1) /* the parent is first: its recording has the name that was asked for */
        return;
    begin();
    OK(cuMemAlloc(&a, 6 * MIB));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, NULL));
    OK(cuIpcGetMemHandle(&shared.handle, a));
    OK(cuMemPoolExportToShareableHandle(&shared.file, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&shared.pointer, b));
    CHECK(write(peer, &shared, sizeof shared) == sizeof shared);
    CHECK(read(peer, &c, 1) == 0);
}

static pid_t start_owner(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    peer = ends[pid == 0];
    close(ends[pid != 0]);
    if (pid == 0) {
        unsetenv("SIMCUDA_FAIL");
        owner();
        exit(0);
    }
    return pid;
}

static int file_of(pid_t pid, int number)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, number);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static void by_handle(const CUipcMemHandle *handle)
{
    CUdeviceptr p[2] = {0};
    CALL(cuIpcOpenMemHandle, (CUdeviceptr *, CUipcMemHandle, unsigned), &p[0], *handle,
         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    CALL(cuIpcOpenMemHandle_v2, (CUdeviceptr *, CUipcMemHandle, unsigned), &p[1], *handle,
         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    for (int i = 0; i < 2; i++)
        if (p[i])
            TWICE(cuIpcCloseMemHandle, (CUdeviceptr), p[i]);
}

static void by_pool(int fd, CUmemPoolPtrExportData *pointer)
{
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    CALL(cuMemPoolImportFromShareableHandle,
         (CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long), &pool, (void *)(intptr_t)fd,
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (pool != NULL)
        CALL(cuMemPoolImportPointer, (CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *), &p, pool,
             pointer);
    if (p)
        OK(cuMemFreeAsync(p, NULL));
    if (pool != NULL)
        OK(cuMemPoolDestroy(pool));
}

static void other_process(pid_t pid)
{
    struct shared shared;
    int status;
    CHECK(write(peer, "", 1) == 1);
    CHECK(recv(peer, &shared, sizeof shared, MSG_WAITALL) == sizeof shared);
    by_handle(&shared.handle);
    by_pool(file_of(pid, shared.file), &shared.pointer);
    close(peer);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void other_api(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 8 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 2 * MIB, .size = 4 * MIB};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array = {
        .arrayDesc = {.Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4},
        .numLevels = 1};
    CUexternalMemory memory;
    CUdeviceptr a;
    CUmipmappedArray mipmap;
    desc.handle.fd = memfd_create("other", MFD_CLOEXEC);
    CHECK(ftruncate(desc.handle.fd, 8 * MIB) == 0);
    if (CALL(cuImportExternalMemory, (CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *), &memory,
             &desc))
        return;
    if (CALL(cuExternalMemoryGetMappedBuffer,
             (CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *), &a, memory,
             &buffer) == CUDA_SUCCESS)
        OK(cuMemFree(a));
    if (CALL(cuExternalMemoryGetMappedMipmappedArray,
             (CUmipmappedArray *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *),
             &mipmap, memory, &array) == CUDA_SUCCESS)
        TWICE(cuMipmappedArrayDestroy, (CUmipmappedArray), mipmap);
    TWICE(cuDestroyExternalMemory, (CUexternalMemory), memory);
}

/* ---- arrays ---- */

/* as CUDA 2.0 had them: 32-bit sizes */
struct small_array {
    unsigned width, height;
    CUarray_format format;
    unsigned channels;
};
struct small_array_3d {
    unsigned width, height, depth;
    CUarray_format format;
    unsigned channels, flags;
};

static void arrays(void)
{
    const struct small_array small = {256, 128, CU_AD_FORMAT_FLOAT, 1};
    const struct small_array_3d small_3d = {64, 32, 8, CU_AD_FORMAT_HALF, 2, 0};
    const CUDA_ARRAY_DESCRIPTOR flat = {1024, 512, CU_AD_FORMAT_FLOAT, 4};
    const CUDA_ARRAY3D_DESCRIPTOR deep = {
        .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
    CUarray a[4] = {NULL};
    CUmipmappedArray mipmap;
    CALL(cuArrayCreate, (CUarray *, const struct small_array *), &a[0], &small);
    CALL(cuArrayCreate_v2, (CUarray *, const CUDA_ARRAY_DESCRIPTOR *), &a[1], &flat);
    CALL(cuArray3DCreate, (CUarray *, const struct small_array_3d *), &a[2], &small_3d);
    CALL(cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *), &a[3], &deep);
    for (int i = 0; i < 4; i++)
        if (a[i] != NULL)
            TWICE(cuArrayDestroy, (CUarray), a[i]);
    if (CALL(cuMipmappedArrayCreate, (CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned), &mipmap,
             &deep, 3) == CUDA_SUCCESS)
        TWICE(cuMipmappedArrayDestroy, (CUmipmappedArray), mipmap);
}

static CUarrayMapInfo region(CUarray array, unsigned y, CUmemGenericAllocationHandle handle)
{
    return (CUarrayMapInfo){
        .resourceType = CU_RESOURCE_TYPE_ARRAY,
        .resource.array = array,
        .subresource.sparseLevel = {.offsetY = y, .extentWidth = 256, .extentHeight = 128, .extentDepth = 1},
        .memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
        .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
        .memHandle.memHandle = handle,
        .deviceBitMask = 1};
}

static void sparse(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = 1024,
                                          .Height = 1024,
                                          .Format = CU_AD_FORMAT_FLOAT,
                                          .NumChannels = 1,
                                          .Flags = CUDA_ARRAY3D_SPARSE};
    CUmemAllocationProp prop = on_device;
    CUarray array;
    CUmemGenericAllocationHandle pool;
    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    if (CALL(cuArray3DCreate_v2, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *), &array, &desc) != CUDA_SUCCESS)
        return;
    OK(cuMemCreate(&pool, 2 * MIB, &prop, 0));
    CUarrayMapInfo map = region(array, 0, pool), more = region(array, 128, pool), unmap = region(array, 0, 0);
    CALL(cuMemMapArrayAsync, (CUarrayMapInfo *, unsigned, CUstream), &map, 1, NULL);
    CALL(cuMemMapArrayAsync_ptsz, (CUarrayMapInfo *, unsigned, CUstream), &more, 1, NULL);
    OK(cuMemRelease(pool)); /* held by the regions that were mapped */
    TWICE(cuMemMapArrayAsync, (CUarrayMapInfo *, unsigned, CUstream), &unmap, 1, NULL);
    TWICE(cuArrayDestroy, (CUarray), array);
}

static void multicast(void)
{
    const CUmulticastObjectProp prop = {.numDevices = 1, .size = 8 * MIB};
    CUmemGenericAllocationHandle object, memory;
    CUdeviceptr mapped;
    if (CALL(cuMulticastCreate, (CUmemGenericAllocationHandle *, const CUmulticastObjectProp *), &object,
             &prop) != CUDA_SUCCESS)
        return;
    OK(cuMulticastAddDevice(object, 0));
    OK(cuMemCreate(&memory, 2 * MIB, &on_device, 0));
    OK(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(mapped, 2 * MIB, 0, memory, 0));
    CUresult bound = CALL(cuMulticastBindMem,
                          (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t,
                           unsigned long long),
                          object, 0, memory, 0, 2 * MIB, 0);
    CALL(cuMulticastBindAddr, (CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long),
         object, 2 * MIB, mapped, 2 * MIB, 0);
    CALL(cuMulticastBindMem_v2,
         (CUmemGenericAllocationHandle, CUdevice, size_t, CUmemGenericAllocationHandle, size_t, size_t,
          unsigned long long),
         object, 0, 4 * MIB, memory, 0, 2 * MIB, 0);
    CALL(cuMulticastBindAddr_v2,
         (CUmemGenericAllocationHandle, CUdevice, size_t, CUdeviceptr, size_t, unsigned long long), object, 0,
         6 * MIB, mapped, 2 * MIB, 0);
    if (bound == CUDA_SUCCESS)
        TWICE(cuMulticastUnbind, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t), object, 0, 0,
              2 * MIB);
    OK(cuMemUnmap(mapped, 2 * MIB));
    OK(cuMemAddressFree(mapped, 2 * MIB));
    OK(cuMemRelease(memory));
    OK(cuMemRelease(object)); /* and what is bound still */
}

/* Bound by its handle and by its address, let go by the unbind and by the endpoint's end. */
static void bind_to_endpoint(CUlogicalEndpointId id)
{
    CUmemGenericAllocationHandle memory;
    CUdeviceptr mapped;
    int ready;
    OK(cuLogicalEndpointQuery(id, 1, &ready));
    OK(cuMemCreate(&memory, 2 * MIB, &on_device, 0));
    OK(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(mapped, 2 * MIB, 0, memory, 0));
    CUresult bound = CALL(cuLogicalEndpointBindMem,
                          (CUlogicalEndpointId, CUdevice, cuuint64_t, CUmemGenericAllocationHandle,
                           cuuint64_t, cuuint64_t, unsigned long long),
                          id, 0, 0, memory, 0, 2 * MIB, 0);
    CALL(cuLogicalEndpointBindAddr,
         (CUlogicalEndpointId, CUdevice, cuuint64_t, void *, cuuint64_t, unsigned long long), id, 0, 2 * MIB,
         (void *)mapped, 2 * MIB, 0);
    OK(cuMemRelease(memory));
    OK(cuMemUnmap(mapped, 2 * MIB));
    OK(cuMemAddressFree(mapped, 2 * MIB));
    if (bound == CUDA_SUCCESS)
        TWICE(cuLogicalEndpointUnbind, (CUlogicalEndpointId, CUdevice, cuuint64_t, cuuint64_t), id, 0, 0,
              2 * MIB);
}

static void endpoints(void)
{
    const CUlogicalEndpointProp prop = {.type = CU_LOGICAL_ENDPOINT_TYPE_UNICAST,
                                        .size = 4 * MIB,
                                        .ipcHandleTypes = CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC};
    CUlogicalEndpointFabricHandle handle;
    CUlogicalEndpointId id;
    OK(cuLogicalEndpointIdReserve(&id, 2));
    if (CALL(cuLogicalEndpointCreate, (CUlogicalEndpointId, const CUlogicalEndpointProp *), id, &prop) !=
        CUDA_SUCCESS)
        return;
    bind_to_endpoint(id);
    OK(cuLogicalEndpointExport(&handle, id, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC));
    CUresult opened =
        CALL(cuLogicalEndpointImport, (CUlogicalEndpointId, const void *, CUlogicalEndpointIpcHandleType),
             id + 1, &handle, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC);
    TWICE(cuLogicalEndpointDestroy, (CUlogicalEndpointId), id);
    if (opened == CUDA_SUCCESS)
        TWICE(cuLogicalEndpointDestroy, (CUlogicalEndpointId), id + 1);
}

int main(void)
{
    CUdeviceptr first;
    pid_t pid = start_owner();
    begin();
    OK(cuMemAlloc(&first, MIB));
    other_process(pid);
    other_api();
    arrays();
    sparse();
    multicast();
    endpoints();
    OK(cuMemFree(first));
    puts("done");
    return 0;
}
