// link: cuda
/* Two processes: one allocates, the other opens its memory, by IPC handle and by pool; the opener's is
 * foreign. */
#define _GNU_SOURCE
#include "prog.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int peer;

static void tell(const void *data, size_t size)
{
    CHECK(write(peer, data, size) == (ssize_t)size);
}
static void hear(void *data, size_t size)
{
    CHECK(recv(peer, data, size, MSG_WAITALL) == (ssize_t)size);
}

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};
static void send_file(int fd)
{
    char c = 0;
    struct iovec one = {&c, 1};
    union control control = {
        .header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)}};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    CHECK(sendmsg(peer, &message, 0) == 1);
}
static int receive_file(void)
{
    int fd;
    char c;
    struct iovec one = {&c, 1};
    union control control;
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    CHECK(recvmsg(peer, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

struct shared {
    CUipcMemHandle handle;
    CUmemPoolPtrExportData pointer;
};

static void owner(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool;
    CUdeviceptr a, b, mine;
    struct shared shared;
    int fd;
    begin();
    OK(cuMemAlloc(&a, 6 * MIB));
    OK(cuMemsetD8(a, 1, 6 * MIB));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, NULL));
    OK(cuIpcGetMemHandle(&shared.handle, a));
    IS(cuIpcOpenMemHandle(&mine, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
       CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolExportPointer(&shared.pointer, b));
    send_file(fd);
    tell(&shared, sizeof shared);
    hear(&fd, 1);
    CHECK(*(volatile char *)a == 2 && *(volatile char *)b == 3);
    OK(cuMemFreeAsync(b, NULL));
    OK(cuMemPoolDestroy(pool));
    OK(cuMemFree(a));
}

static void opener(void)
{
    CUdeviceptr a, again, b, own;
    CUmemoryPool pool;
    struct shared shared;
    int fd = receive_file();
    hear(&shared, sizeof shared); /* the owner is first: its recording has the name that was asked for */
    begin();
    OK(cuMemAlloc(&own, 2 * MIB));
    OK(cuIpcOpenMemHandle(&a, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK(cuIpcOpenMemHandle(&again, shared.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(a == again && *(volatile char *)a == 1);
    OK(cuIpcCloseMemHandle(a));
    OK(cuMemsetD8(a, 2, 1));
    OK(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemPoolImportPointer(&b, pool, &shared.pointer));
    OK(cuMemsetD8(b, 3, 1));
    OK(cuMemFreeAsync(b, NULL));
    OK(cuMemPoolDestroy(pool));
    OK(cuIpcCloseMemHandle(a));
    IS(cuIpcCloseMemHandle(a), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(own));
    tell("", 1);
}

int main(void)
{
    int ends[2], status;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t pid = fork();
    peer = ends[pid == 0];
    close(ends[pid != 0]);
    if (pid == 0) {
        opener();
        return 0;
    }
    owner();
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    puts("done");
    return 0;
}
