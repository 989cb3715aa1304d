/*
 * share.c - tensors of the arena in other processes (torch.multiprocessing).
 *
 * torch sends a CUDA tensor to another process as a handle of the allocation that it lies in.  Its class for
 * pluggable allocators throws where it asks for that; complete.c puts these two functions in their place:
 *
 *      shareIpcHandle(address)      {offset of the address in its allocation, the handle as a string}
 *      getIpcDevPtr(string)         std::shared_ptr<void> to the opened allocation; its last owner closes it
 */
#define _GNU_SOURCE
#include "torch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/torch.h"

#define TYPE_MALLOC    'c'
#define TYPE_VERSION   2 /* of the string, up to torch 2.12; a later one has the same bytes behind it */
#define SHARED_BYTES   (2 + sizeof(CUipcMemHandle))
#define CURRENT_DEVICE "_ZN3c104cuda14current_deviceEv"

/* ---- the context ---- */

/* The thread may have no context, as the one in which a queue sends has none: then that of the runtime's
 * current device becomes current, as the runtime's own call would make it. */
static CUresult need_context(CUcontext *context)
{
    signed char (*current_device)(void) = NULL;
    if (vs_drv_cuCtxGetCurrent(context) == CUDA_SUCCESS && *context)
        return CUDA_SUCCESS;
    void *library = vs_torch_library("libc10_cuda");
    if (library)
        *(void **)&current_device = dlsym(library, CURRENT_DEVICE);
    dlerror(); /* the host must not find what was not found here */
    *context = current_device ? vs_torch_primary(current_device()) : NULL;
    return *context ? vs_drv_cuCtxSetCurrent(*context) : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- strings ---- */

/* Of torch's kind; there before torch is given the two functions. */
static struct vs_cxx_strings strings;

/* A table of what owners of a std::shared_ptr share has these functions: see `table` below. */
static bool counts_as_ours(void **table)
{
    return table && vs_cxx_table_words(table) == 7 && vs_cxx_is_code(table + 2, 5);
}

void *vs_torch_share_prove(const char **why)
{
    char name[96];
    *why = "what its std::shared_ptr share has another table";
    if (!counts_as_ours(vs_torch_pluggable("_ZTVSt15_Sp_counted_ptrIP", "ELN9__gnu_cxx12_Lock_policyE2EE")))
        return NULL;
    *why = "its getIpcDevPtr takes no string of a kind that is known";
    for (int kind = 0; kind < 2; kind++) {
        snprintf(name, sizeof name, "12getIpcDevPtrE%s", vs_cxx_kinds[kind].type);
        void *receive = vs_torch_pluggable("_Z", name);
        if (receive && vs_cxx_strings(&strings, vs_torch_library("libc10"), &vs_cxx_kinds[kind]))
            return *why = NULL, receive;
    }
    return NULL;
}

/* ---- sending ----
 *
 * The string is the one that torch's own allocator makes: a version, the letter c, the 64 bytes of the
 * driver's handle.  So a process whose torch keeps its own allocator opens ours, and the other way round, as
 * long as the shim is loaded in both (arena/share/exports.c).  Handles of expandable segments, letter e, are
 * CUDA_ERROR_NOT_SUPPORTED. */

/* c10::cuda::CUDACachingAllocator::ShareableHandle; of the old kind of strings only the first word is there
 */
struct shareable {
    ptrdiff_t offset;
    struct vs_cxx_string handle;
};

static CUresult handle_of(CUdeviceptr address, CUipcMemHandle *handle, ptrdiff_t *offset)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUcontext context = NULL;
    CUresult status = need_context(&context);
    if (status == CUDA_SUCCESS)
        status = vs_hook_cuMemGetAddressRange_v2(&base, &size, address);
    if (status == CUDA_SUCCESS)
        status = vs_hook_cuIpcGetMemHandle(handle, base);
    *offset = (ptrdiff_t)(address - base);
    return status;
}

struct shareable *vs_torch_share(struct shareable *out, void *self, void *address)
{
    char text[SHARED_BYTES] = {TYPE_VERSION, TYPE_MALLOC};
    CUipcMemHandle handle = {0};
    out->offset = 0;
    CUresult status = handle_of((uintptr_t)address, &handle, &out->offset);
    if (status != CUDA_SUCCESS)
        vs_torch_raise(status); /* which does not return: it is torch that calls */
    memcpy(text + 2, &handle, sizeof handle);
    vs_cxx_string(&strings, &out->handle, text, sizeof text);
    return out;
}

/* ---- receiving ----
 *
 * A std::shared_ptr is built as libstdc++ lays it out, which is part of its stable ABI.  A class that is
 * returned by value is written where the hidden first argument points. */

/* What the owners of a std::shared_ptr share: libstdc++'s _Sp_counted_base, and what is to be closed. */
struct control {
    void *const *functions;
    int owners, observers;
    CUdeviceptr address;
    CUcontext context; /* that it was opened in */
};

struct shared_pointer {
    void *address;
    struct control *control;
};

/* The last owner is gone, in whatever thread. */
static void dispose(struct control *c)
{
    CUcontext before = NULL;
    vs_drv_cuCtxGetCurrent(&before);
    if (before != c->context)
        vs_drv_cuCtxSetCurrent(c->context);
    vs_hook_cuIpcCloseMemHandle(c->address);
    if (before != c->context)
        vs_drv_cuCtxSetCurrent(before);
}

static void destroy(struct control *c)
{
    free(c);
}

static void end_in_place(struct control *c) {}

static void *get_deleter(struct control *c, const void *type)
{
    return NULL;
}

/* A virtual table: the offset to the whole object and its type stand before the functions. */
static void *const table[] = {NULL,    NULL,    end_in_place, destroy, /* its two destructors */
                              dispose, destroy, get_deleter};

/* Before torch 2.5 the string is the driver's handle alone. */
static bool handle_in(const struct vs_cxx_string *text, CUipcMemHandle *handle)
{
    const char *bytes = strings.data(text);
    size_t length = strings.size(text), before = length == sizeof *handle ? 0 : 2;
    if (length != before + sizeof *handle || (before && bytes[1] != TYPE_MALLOC))
        return false;
    memcpy(handle, bytes + before, sizeof *handle);
    return true;
}

static CUresult open_shared(struct control *c, const struct vs_cxx_string *text)
{
    CUipcMemHandle handle;
    if (!handle_in(text, &handle))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult status = need_context(&c->context);
    if (status != CUDA_SUCCESS)
        return status;
    return vs_hook_cuIpcOpenMemHandle_v2(&c->address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

struct shared_pointer *vs_torch_receive(struct shared_pointer *out, void *self,
                                        const struct vs_cxx_string *text)
{
    *out = (struct shared_pointer){0};
    struct control *c = malloc(sizeof *c);
    if (!c)
        return vs_torch_raise(CUDA_ERROR_OUT_OF_MEMORY), out;
    *c = (struct control){.functions = table + 2, .owners = 1, .observers = 1};
    CUresult status = open_shared(c, text);
    if (status == CUDA_SUCCESS) {
        *out = (struct shared_pointer){(void *)(uintptr_t)c->address, c};
    } else {
        free(c);
        vs_torch_raise(status);
    }
    return out;
}
