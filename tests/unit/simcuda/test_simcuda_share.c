/* test_simcuda_share.c - memory between two processes of the simulated driver, and memory of other APIs. */
#define _GNU_SOURCE /* memfd_create */
#include "simcuda_kit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* ---- two processes ---- */

static int peer; /* each one's end of a socket pair */

static void tell(const void *data, size_t size)
{
    CHECK(write(peer, data, size) == (ssize_t)size);
}

static void hear(void *data, size_t size)
{
    CHECK(recv(peer, data, size, MSG_WAITALL) == (ssize_t)size);
}

static void step(void)
{
    char c = 0;
    tell(&c, 1);
}

static void await(void)
{
    char c;
    hear(&c, 1);
}

static void send_file(int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {
        .header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)}};
    char c = 0;
    struct iovec one = {&c, 1};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(sendmsg(peer, &message, 0) == 1);
}

static int receive_file(void)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char c;
    int fd;
    struct iovec one = {&c, 1};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(peer, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

/* Both begin before either has called the driver. */
static void run_both(void (*exporter)(void), void (*importer)(void))
{
    int ends[2], status;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        peer = ends[1];
        close(ends[0]);
        alarm(20);
        importer();
        _exit(0);
    }
    peer = ends[0];
    close(ends[1]);
    exporter();
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- IPC handles ---- */

static void export_memory(void)
{
    CUdeviceptr small, large, own;
    CUipcMemHandle handle[2];
    begin();
    OK(cuMemAlloc(&small, 1000));
    OK(cuMemAlloc(&large, 5 * MIB));
    OK(cuMemcpyHtoD(small, "small", 6));
    OK(cuMemcpyHtoD(large + 4 * MIB, "large", 6));
    size_t before = used();
    OK(cuIpcGetMemHandle(&handle[0], small));
    OK(cuIpcGetMemHandle(&handle[1], large + MIB));                 /* of the whole allocation */
    CHECK(used() == before && strcmp((char *)small, "small") == 0); /* where it was */
    IS(cuIpcOpenMemHandle(&own, handle[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
    IS(cuIpcGetMemHandle(&handle[0], (CUdeviceptr)&own), CUDA_ERROR_INVALID_VALUE);
    tell(handle, sizeof handle);
    await();
    CHECK(strcmp((char *)large, "answer") == 0);
    OK(cuMemFree(large));
    step();
    await();
    OK(cuMemFree(small));
}

static void import_memory(void)
{
    CUipcMemHandle handle[2];
    CUdeviceptr small, large, again;
    begin();
    size_t before = used();
    hear(handle, sizeof handle);
    IS(cuIpcOpenMemHandle(&small, handle[0], 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcOpenMemHandle(&small, handle[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle(&large, handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(strcmp((char *)small, "small") == 0 && strcmp((char *)large + 4 * MIB, "large") == 0);
    CHECK(used() == before); /* the exporter's */
    CUdeviceptr base;
    size_t size;
    OK(cuMemGetAddressRange(&base, &size, large + MIB));
    CHECK(base == large && size == 5 * MIB);
    OK(cuIpcOpenMemHandle(&again, handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(again == large);
    OK(cuIpcCloseMemHandle(large));
    OK(cuMemcpyHtoD(large, "answer", 7)); /* still open once */
    IS(cuMemFree(large), CUDA_ERROR_INVALID_VALUE);
    step();
    await();
    OK(cuIpcCloseMemHandle(large));
    IS(cuIpcCloseMemHandle(large), CUDA_ERROR_INVALID_VALUE);
    IS(cuIpcOpenMemHandle(&large, handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
    memset(&handle[1], 1, sizeof handle[1]);
    IS(cuIpcOpenMemHandle(&large, handle[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_HANDLE);
    OK(cuDevicePrimaryCtxReset(0)); /* closes what is open */
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    IS(cuIpcCloseMemHandle(small), CUDA_ERROR_INVALID_VALUE);
    step();
}

SIM_TEST(an_ipc_handle_is_the_same_bytes_in_another_process)
{
    run_both(export_memory, import_memory);
}

/* ---- shared pools ---- */

static void export_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool, plain;
    CUmemPoolPtrExportData data;
    CUdeviceptr a, b;
    int fd;
    begin();
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&a, 3 * MIB, pool, NULL));
    OK(cuMemcpyHtoD(a, "pooled", 7));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&data, a));
    OK(cuDeviceGetDefaultMemPool(&plain, 0));
    IS(cuMemPoolExportToShareableHandle(&fd, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
       CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocAsync(&b, 4096, NULL));
    CUmemPoolPtrExportData none;
    IS(cuMemPoolExportPointer(&none, b), CUDA_ERROR_INVALID_VALUE);
    send_file(fd);
    tell(&data, sizeof data);
    await();
    CHECK(strcmp((char *)a, "edited") == 0);
    OK(cuMemFreeAsync(a, NULL));
    OK(cuMemPoolDestroy(pool));
}

static void import_pool(void)
{
    CUmemPoolPtrExportData data;
    CUmemoryPool pool, own;
    CUdeviceptr a;
    begin();
    size_t before = used();
    int fd = receive_file();
    hear(&data, sizeof data);
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    IS(cuMemAllocFromPoolAsync(&a, 4096, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    IS(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGetDefaultMemPool(&own, 0));
    IS(cuMemPoolImportPointer(&a, own, &data), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolImportPointer(&a, pool, &data));
    CHECK(strcmp((char *)a, "pooled") == 0 && used() == before);
    OK(cuMemcpyHtoD(a, "edited", 7));
    OK(cuMemFreeAsync(a, NULL));
    IS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolDestroy(pool));
    step();
}

SIM_TEST(a_pool_is_shared_pointer_by_pointer)
{
    run_both(export_pool, import_pool);
}

/* ---- external memory ---- */

SIM_TEST(external_memory_is_the_files_bytes_and_costs_nothing)
{
    CUexternalMemory memory;
    CUdeviceptr a;
    CUmipmappedArray mipmap;
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 4 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = MIB, .size = MIB};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array = {
        .arrayDesc = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4},
        .numLevels = 2};
    begin();
    size_t before = used();
    int fd = memfd_create("other", 0), mine = dup(fd);
    CHECK(ftruncate(fd, 4 * MIB) == 0 && pwrite(fd, "foreign", 8, MIB) == 8);
    desc.handle.fd = fd;
    desc.size = 8 * MIB;
    IS(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_INVALID_HANDLE); /* more than there is */
    desc.size = 4 * MIB;
    desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
    IS(cuImportExternalMemory(&memory, &desc), CUDA_ERROR_NOT_SUPPORTED);
    desc.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    OK(cuImportExternalMemory(&memory, &desc));
    OK(cuExternalMemoryGetMappedBuffer(&a, memory, &buffer));
    CHECK(strcmp((char *)a, "foreign") == 0 && used() == before);
    OK(cuExternalMemoryGetMappedMipmappedArray(&mipmap, memory, &array));
    buffer.size = 4 * MIB;
    CUdeviceptr b;
    IS(cuExternalMemoryGetMappedBuffer(&b, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
    OK(cuDestroyExternalMemory(memory));
    CHECK(fcntl(fd, F_GETFD) == -1); /* the descriptor was the driver's */
    IS(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemsetD8(a, 'x', 1)); /* outlives the import */
    char c;
    CHECK(pread(mine, &c, 1, MIB) == 1 && c == 'x');
    OK(cuMemFree(a));
    OK(cuMipmappedArrayDestroy(mipmap));
    CHECK(used() == before);
}
