// link: cuda
/* Memory of another API: imported as a file, seen through buffers and an array; and a handle imported. */
#define _GNU_SOURCE
#include "prog.h"

#include <sys/mman.h>
#include <unistd.h>

static void external(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 8 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 2 * MIB, .size = 4 * MIB};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array = {
        .arrayDesc = {.Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4},
        .numLevels = 1};
    CUexternalMemory memory, none;
    CUdeviceptr a;
    CUmipmappedArray mipmap;
    desc.handle.fd = memfd_create("other", MFD_CLOEXEC);
    CHECK(ftruncate(desc.handle.fd, 8 * MIB) == 0);
    OK(cuImportExternalMemory(&memory, &desc));
    OK(cuExternalMemoryGetMappedBuffer(&a, memory, &buffer));
    OK(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &array));
    OK(cuMemFree(a));
    OK(cuMipmappedArrayDestroy(mipmap));
    OK(cuDestroyExternalMemory(memory));
    desc.size = 1ull << 40;
    desc.handle.fd = -1;
    IS(cuImportExternalMemory(&none, &desc), CUDA_ERROR_INVALID_HANDLE);
}

/* One's own handle again: one more reference to memory that is counted already. */
static void own_handle(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle, again;
    int fd;
    OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemRelease(handle));
    OK(cuMemRelease(again));
    /* and one that is somebody else's: any file will do */
    int foreign = memfd_create("foreign", MFD_CLOEXEC);
    CHECK(ftruncate(foreign, 4 * MIB) == 0);
    OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)foreign,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemRelease(again));
}

int main(void)
{
    begin();
    external();
    own_handle();
    puts("done");
    return 0;
}
