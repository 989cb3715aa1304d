/*
 * random_imports.c - memory of another process (a fork from before the driver was touched), by IPC handle,
 * and of another API, by file.
 *
 *      open CONTEXT ADDRESS SIZE STATUS     close ADDRESS STATUS
 */
#define _GNU_SOURCE
#include "random.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARED (6 * MIB)

static int peer = -1;
static pid_t other;
static CUipcMemHandle handle;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void be_the_other(void)
{
    CUcontext context;
    CUdeviceptr p;
    CUipcMemHandle own;
    char c;
    unsetenv("SIMCUDA_FAIL");
    if (read(peer, &c, 1) != 1)
        exit(0);
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuMemAlloc(&p, SHARED) != CUDA_SUCCESS ||
        cuIpcGetMemHandle(&own, p) != CUDA_SUCCESS || write(peer, &own, sizeof own) != sizeof own)
        fatal("the other process");
    if (read(peer, &c, 1) == 0)
        cuMemFree(p);
    exit(0);
}

void imports_prepare(void)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || (other = fork()) < 0)
        fatal("no other process");
    peer = ends[other == 0];
    close(ends[other != 0]);
    if (other == 0)
        be_the_other();
}

/* The other one begins only now: the recording that was asked for by name is ours. */
static void greet(void)
{
    if (write(peer, "", 1) != 1 || recv(peer, &handle, sizeof handle, MSG_WAITALL) != sizeof handle)
        fatal("the other process does not answer");
}

static void open_handle(struct task *t, struct object *o)
{
    CUdeviceptr p = 0;
    pthread_once(&once, greet);
    CUresult result = cuIpcOpenMemHandle(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    say(t, "open %llu %llu %llu %d", (unsigned long long)owner(t), (unsigned long long)p,
        (unsigned long long)(result ? 0 : SHARED), result);
    if (result == CUDA_SUCCESS)
        *o = (struct object){OPENED, p, SHARED, owner(t), -1, 0, 0, {{0}}};
}

static void external(struct task *t, struct object *o)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 2 * MIB};
    CUexternalMemory memory = NULL;
    desc.handle.fd = memfd_create("other", MFD_CLOEXEC);
    if (desc.handle.fd < 0 || ftruncate(desc.handle.fd, (off_t)desc.size) != 0)
        return;
    CUresult result = cuImportExternalMemory(&memory, &desc);
    say(t, "alloc imported %d %llu %llu %llu %d", t->device, (unsigned long long)owner(t),
        (unsigned long long)(uintptr_t)memory, (unsigned long long)desc.size, result);
    if (result == CUDA_SUCCESS)
        *o = (struct object){EXTERNAL, (uintptr_t)memory, desc.size, owner(t), -1, 0, 0, {{0}}};
}

void imports_turn(struct task *t)
{
    struct object *o = vacant(t);
    if (o && chance(t, 60))
        open_handle(t, o);
    else if (o)
        external(t, o);
}

void imports_give_back(struct task *t, struct object *o)
{
    CUresult result;
    if (o->kind == OPENED) {
        result = cuIpcCloseMemHandle(o->handle);
        say(t, "close %llu %d", (unsigned long long)o->handle, result);
    } else {
        result = cuDestroyExternalMemory((CUexternalMemory)(uintptr_t)o->handle);
        say(t, "free %llu %d", (unsigned long long)o->handle, result);
    }
    if (result == CUDA_SUCCESS)
        o->kind = NOTHING;
}

void imports_end(void)
{
    int status;
    close(peer);
    if (waitpid(other, &status, 0) != other || status != 0)
        fatal("the other process ended badly");
}
