/*
 * imports.c - cuIpcOpenMemHandle of memory that lies in another process's arena, with an arena here or
 * without; handles of the driver's pass through.
 *
 * The other process's chunks are mapped side by side, accessible from the current context's device and from
 * the one that they lie on.  The same handle opened again in the same context is the same address, counted,
 * as the driver does it.
 */
#include "core/log.h"
#include "core/fork.h"
#include "share.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define IMPORTS (1u << 15) /* open at once */

struct import {
    CUdeviceptr address; /* 0: none */
    uint64_t size;
    CUdeviceptr pages; /* what is mapped */
    uint64_t bytes;
    uint64_t name, id; /* of the handle */
    CUcontext context;
    CUdevice primary_of; /* the device whose primary one that is; -1: none's */
    uint32_t references;
};

/* Opening waits for another process, closing for the device: one thread at a time does either, and changes
 * the table.  Who only looks an address up waits for neither.  A thread that the program cancels does not end
 * in the middle. */
static struct vs_lock changing = VS_LOCK(IMPORTING);

static int begin_change(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    vs_lock_take(&changing);
    return cancel;
}

static void end_change(int cancel)
{
    vs_lock_give(&changing);
    pthread_setcancelstate(cancel, NULL);
}

static struct vs_lock lock = VS_LOCK(IMPORTS); /* guards the next variables; `used` is also read without it */
static struct import *table;
static _Atomic uint32_t used;

/* ---- the table ---- */

static uint32_t count_used(void)
{
    return atomic_load_explicit(&used, memory_order_relaxed); /* exact under the lock */
}

static struct import *find_address(CUdeviceptr address)
{
    for (uint32_t i = 0; i < count_used(); i++)
        if (table[i].address && address - table[i].address < table[i].size)
            return &table[i];
    return NULL;
}

static struct import *find_handle(const struct vs_ipc_ticket *t, CUcontext context)
{
    for (uint32_t i = 0; i < count_used(); i++)
        if (table[i].address && table[i].name == t->where.name && table[i].id == t->id &&
            table[i].context == context)
            return &table[i];
    return NULL;
}

static struct import *free_place(void)
{
    table = table ? table : vs_map(IMPORTS * sizeof *table);
    if (!table)
        return NULL;
    for (uint32_t i = 0; i < count_used(); i++)
        if (!table[i].address)
            return &table[i];
    return count_used() < IMPORTS ? &table[count_used()] : NULL;
}

static void enter_table(struct import *place, const struct import *i)
{
    vs_lock_take(&lock);
    *place = *i;
    if (place == &table[count_used()])
        atomic_fetch_add_explicit(&used, 1, memory_order_relaxed); /* a hint for threads without the lock */
    vs_lock_give(&lock);
}

static void leave_table(struct import *i)
{
    vs_lock_take(&lock);
    i->address = 0;
    vs_lock_give(&lock);
}

bool vs_imports_opened(CUdeviceptr address, struct vs_arena_block *block)
{
    if (count_used() == 0 || !vs_served_in())
        return false;
    vs_lock_take(&lock);
    const struct import *i = find_address(address);
    if (i)
        *block = (struct vs_arena_block){.address = i->address, .size = i->size};
    vs_lock_give(&lock);
    vs_served_out();
    return i != NULL;
}

/* ---- mapping ---- */

static CUresult allow(const struct import *i, int device)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return vs_drv_cuMemSetAccess(i->pages, i->bytes, &desc, 1);
}

/* From the current device, and from the memory's own where this process sees that. */
static CUresult allow_both(const struct import *i, int home)
{
    CUdevice here = -1;
    CUresult status = vs_drv_cuCtxGetDevice(&here);
    if (status == CUDA_SUCCESS)
        status = allow(i, here);
    if (status == CUDA_SUCCESS && home >= 0 && home != here)
        allow(i, home);
    return status;
}

static void undo(const struct import *i, uint64_t mapped)
{
    if (mapped)
        vs_drv_cuMemUnmap(i->pages, mapped);
    if (i->pages)
        vs_drv_cuMemAddressFree(i->pages, i->bytes);
}

/* Maps the piece that FILE is at *MAPPED bytes, and closes it.  Its mapping keeps it alive. */
static CUresult map_file(const struct import *i, int file, uint64_t bytes, uint64_t *mapped, int *home)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    CUresult status = CUDA_ERROR_INVALID_HANDLE; /* where the other says one thing and then another */
    if (bytes && bytes <= i->bytes - *mapped)
        status = vs_drv_cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(file);
    if (status != CUDA_SUCCESS)
        return status;
    if (*home < 0 && vs_drv_cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS)
        *home = prop.location.id;
    status = vs_drv_cuMemMap(i->pages + *mapped, bytes, 0, handle, 0);
    vs_drv_cuMemRelease(handle);
    *mapped += status == CUDA_SUCCESS ? bytes : 0;
    return status;
}

static CUresult map_files(const struct import *i, const struct vs_passing_answer *a, const int *files,
                          uint64_t *mapped, int *home)
{
    CUresult status = CUDA_SUCCESS;
    for (uint32_t f = 0; f < a->files; f++)
        if (status == CUDA_SUCCESS)
            status = map_file(i, files[f], a->piece_bytes, mapped, home);
        else
            close(files[f]);
    return status;
}

/* The first answer says how much there is. */
static CUresult reserve(struct import *i, const struct vs_passing_answer *a)
{
    uint64_t whole = a->bytes;
    if (a->offset > whole || !i->size || i->size > whole - a->offset)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult status = vs_drv_cuMemAddressReserve(&i->pages, whole, 0, 0, 0);
    if (status != CUDA_SUCCESS)
        i->pages = 0;
    i->bytes = whole;
    i->address = i->pages + a->offset;
    return status;
}

static void say_unreachable(const struct vs_ipc_ticket *t, int error)
{
    vs_log(
        "cuIpcOpenMemHandle: process %d, in whose arena the memory lies, does not hand it over (%s): %s; or "
        "run without VRAMSCOPE_ALLOCATOR=arena",
        (int)t->pid, strerror(-error),
        error == -EMFILE || error == -ETOOMANYREFS
            ? "raise the limit on open files"
            : "both must run under the shim, in one network namespace");
}

static bool is_gone(const struct vs_ipc_ticket *t)
{
    return kill(t->pid, 0) != 0 && errno == ESRCH;
}

/* What a failed hand-over is to the program.
 *
 * What cannot be had is an error that the driver gives too: INVALID_HANDLE where the exporter is gone, has
 * freed the block or never made such a handle, MAP_FAILED where it is there and cannot be reached, or another
 * one answers in its place, with one line that says what to do. */
static CUresult refused(const struct vs_ipc_ticket *t, int error)
{
    if (error == -EKEYREJECTED || (error == -ECONNREFUSED && is_gone(t)))
        return CUDA_ERROR_INVALID_HANDLE;
    say_unreachable(t, error);
    return CUDA_ERROR_MAP_FAILED;
}

static CUresult import_pieces(struct import *i, const struct vs_ipc_ticket *t, int way, uint64_t *mapped)
{
    struct vs_passing_answer answer = {.pieces = 1};
    int files[VS_PASSING_FILES], home = -1;
    CUresult status = CUDA_SUCCESS;
    for (uint32_t have = 0; have < answer.pieces && status == CUDA_SUCCESS; have += answer.files) {
        struct vs_passing_request ask = {t->id, have, VS_PASSING_FILES};
        int error = vs_passing_request(way, &t->where, &ask, &answer, files);
        if (error != 0)
            return refused(t, error);
        if (answer.status != 0 || answer.files == 0)
            return answer.status != 0 ? (CUresult)answer.status : CUDA_ERROR_INVALID_HANDLE;
        if (have == 0)
            status = reserve(i, &answer);
        if (status == CUDA_SUCCESS)
            status = map_files(i, &answer, files, mapped, &home);
        else
            for (uint32_t f = 0; f < answer.files; f++)
                close(files[f]);
    }
    if (status == CUDA_SUCCESS && *mapped != i->bytes)
        status = CUDA_ERROR_INVALID_HANDLE;
    return status == CUDA_SUCCESS ? allow_both(i, home) : status;
}

static CUresult import(const struct vs_ipc_ticket *t, CUcontext context, CUdeviceptr *out)
{
    struct import i = {
        .size = t->size, .name = t->where.name, .id = t->id, .context = context, .references = 1};
    CUdevice device = -1;
    struct import *place = free_place();
    uint64_t mapped = 0;
    if (!place)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int way = vs_passing_connect(&t->where);
    if (way < 0)
        return refused(t, way);
    CUresult status = import_pieces(&i, t, way, &mapped);
    close(way);
    if (status == CUDA_SUCCESS) {
        vs_drv_cuCtxGetDevice(&device);
        i.primary_of = vs_served_is_primary(context, device) ? device : -1;
        enter_table(place, &i);
        *out = i.address;
    } else {
        undo(&i, mapped);
    }
    return status;
}

/* ---- opening and closing ---- */

static CUresult open_ticket(CUdeviceptr *out, const struct vs_ipc_ticket *t, unsigned int flags)
{
    CUcontext context = NULL;
    CUresult status = vs_drv_cuCtxGetCurrent(&context);
    if (status != CUDA_SUCCESS || !context)
        return status != CUDA_SUCCESS ? status : CUDA_ERROR_INVALID_CONTEXT;
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (vs_ipc_is_own(t))
        return CUDA_ERROR_INVALID_CONTEXT; /* as the driver does: a process cannot open its own block */
    int cancel = begin_change();
    struct import *i = find_handle(t, context);
    if (i) {
        i->references++;
        *out = i->address;
    } else {
        status = import(t, context, out);
    }
    end_change(cancel);
    return status;
}

static bool is_ticket(const CUipcMemHandle *handle, struct vs_ipc_ticket *t)
{
    memcpy(t, handle->reserved, sizeof *t);
    return memcmp(t->magic, VS_IPC_MAGIC, sizeof t->magic) == 0;
}

#define OPEN(symbol)                                                                                         \
    static CUresult open_##symbol(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)               \
    {                                                                                                        \
        struct vs_ipc_ticket t;                                                                              \
        if (!is_ticket(&handle, &t))                                                                         \
            return VS_UNDER(symbol)(out, handle, flags);                                                     \
        vs_served_begin();                                                                                   \
        if (!vs_served_in())                                                                                 \
            return VS_UNDER(symbol)(out, handle, flags);                                                     \
        CUresult status = open_ticket(out, &t, flags);                                                       \
        vs_served_out();                                                                                     \
        return status;                                                                                       \
    }
OPEN(cuIpcOpenMemHandle)
OPEN(cuIpcOpenMemHandle_v2)

/* Work that was given before may still read it: waited for, as the driver does. */
static CUresult close_import(struct import *i)
{
    if (i->references > 1) {
        i->references--;
        return CUDA_SUCCESS;
    }
    vs_drv_cuCtxSynchronize();
    CUresult status = vs_drv_cuMemUnmap(i->pages, i->bytes);
    if (status != CUDA_SUCCESS)
        return status;
    uint64_t pages = i->pages, bytes = i->bytes;
    leave_table(i); /* before another one can be given the addresses */
    vs_drv_cuMemAddressFree(pages, bytes);
    return CUDA_SUCCESS;
}

static CUresult serve_close(CUdeviceptr address)
{
    CUcontext context = NULL;
    CUresult status = CUDA_SUCCESS;
    if (count_used() == 0 || vs_drv_cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context || !vs_served_in())
        return VS_UNDER(cuIpcCloseMemHandle)(address);
    int cancel = begin_change();
    struct import *i = find_address(address);
    bool ours = i && i->address == address;
    if (ours)
        status = close_import(i);
    end_change(cancel);
    vs_served_out();
    return ours ? status : VS_UNDER(cuIpcCloseMemHandle)(address);
}

void vs_imports_context_ended(CUcontext context, CUdevice device)
{
    if (count_used() == 0 || !vs_served_in())
        return;
    int cancel = begin_change();
    for (uint32_t n = 0; n < count_used(); n++)
        if (table[n].address && (context ? table[n].context == context : table[n].primary_of == device)) {
            struct import gone = table[n];
            leave_table(&table[n]);
            undo(&gone, gone.bytes);
        }
    end_change(cancel);
    vs_served_out();
}

const struct vs_stand_in vs_stand_ins_imports[] = {
    {VS_API_cuIpcOpenMemHandle, (void *)open_cuIpcOpenMemHandle},
    {VS_API_cuIpcOpenMemHandle_v2, (void *)open_cuIpcOpenMemHandle_v2},
    {VS_API_cuIpcCloseMemHandle, (void *)serve_close},
    {0}};
