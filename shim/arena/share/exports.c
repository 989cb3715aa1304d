/*
 * exports.c - cuIpcGetMemHandle for blocks of an arena: the exporter's half (imports.c is the other).
 *
 * The driver makes such handles for memory of its own only.  Ours names this process and the block, and who
 * opens it asks for the descriptors of what the block lies on (passing.h), maps them side by side
 * and has the same bytes.  It is the key, too: all that names a block is random, so nobody opens one whose
 * handle he was not given.
 */
#include "arena/away/away.h"
#include "core/log.h"
#include "core/fork.h"
#include "share.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define EXPORTS (1u << 16) /* at once */

struct shared {
    uint64_t id; /* random; 0: none */
    uint64_t address, size;
    struct vs_served *of;
};

uint32_t vs_served_exports;
static struct vs_lock lock = VS_LOCK(EXPORTS); /* guards the next two */
static struct shared *table;
static uint32_t used; /* of the table, gaps included */

/* ---- the table ---- */

static bool have_table(void)
{
    table = table ? table : vs_map(EXPORTS * sizeof *table);
    return table != NULL;
}

static struct shared *find_block(const struct vs_served *s, uint64_t address)
{
    for (uint32_t i = 0; i < used; i++)
        if (table[i].id && table[i].of == s && table[i].address == address)
            return &table[i];
    return NULL;
}

static struct shared *find_id(uint64_t id)
{
    for (uint32_t i = 0; id && i < used; i++)
        if (table[i].id == id)
            return &table[i];
    return NULL;
}

static struct shared *free_place(void)
{
    for (uint32_t i = 0; i < used; i++)
        if (!table[i].id)
            return &table[i];
    return used < EXPORTS ? &table[used++] : NULL;
}

/* A new name for a block, which cannot be guessed from another block's; 0: none can be made. */
static uint64_t new_id(void)
{
    uint64_t id;
    return getrandom(&id, sizeof id, GRND_NONBLOCK) == sizeof id && !find_id(id) ? id : 0;
}

/* The block's id; 0: there is no room.
 *
 * A block that was exported bears a pin, so that the free of one that was not costs nothing; the free ends
 * the handle: who opens it after that is told that it is invalid. */
static uint64_t export_block(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block)
{
    uint64_t id = 0;
    vs_lock_take(&lock);
    struct shared *e = have_table() ? find_block(s, block->address) : NULL;
    if (e) {
        id = e->id;
    } else if (table && vs_arena_pin(arena, block->address) == 0) {
        id = new_id();
        e = id ? free_place() : NULL;
        if (e) {
            *e = (struct shared){id, block->address, block->size, s};
            __atomic_fetch_add(&vs_served_exports, 1, __ATOMIC_RELAXED); /* frees read it */
        } else {
            vs_arena_unpin(arena, block->address);
            id = 0;
        }
    }
    vs_lock_give(&lock);
    return id;
}

void vs_exports_block_ends(struct vs_served *s, struct vs_arena *arena, CUdeviceptr address)
{
    vs_lock_take(&lock);
    struct shared *e = find_block(s, address);
    if (e) {
        e->id = 0;
        __atomic_fetch_sub(&vs_served_exports, 1, __ATOMIC_RELAXED);
        vs_arena_unpin(arena, address);
    }
    vs_lock_give(&lock);
}

void vs_exports_arena_ends(struct vs_served *s)
{
    vs_lock_take(&lock);
    for (uint32_t i = 0; i < used; i++)
        if (table[i].id && table[i].of == s) {
            table[i].id = 0;
            __atomic_fetch_sub(&vs_served_exports, 1, __ATOMIC_RELAXED);
        }
    vs_lock_give(&lock);
}

/* ---- giving descriptors ---- */

/* Makes descriptors of the handles, one after the other.  An error counts only if no descriptor was made
 * before it. */
static CUresult describe(const struct vs_served *s, const uint64_t *handles, uint32_t count, int *files,
                         uint32_t *made)
{
    CUresult status = CUDA_SUCCESS;
    vs_drv_cuCtxSetCurrent(s->cuda.context);
    for (*made = 0; *made < count && status == CUDA_SUCCESS; *made += status == CUDA_SUCCESS)
        status = vs_drv_cuMemExportToShareableHandle(&files[*made], handles[*made],
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    vs_drv_cuCtxSetCurrent(NULL);
    return *made ? CUDA_SUCCESS : status;
}

/* The block that has the id; that of none where it is not exported any more. */
static struct shared look_up(uint64_t id)
{
    vs_lock_take(&lock);
    const struct shared *found = find_id(id);
    struct shared e = found ? *found : (struct shared){0};
    vs_lock_give(&lock);
    return e;
}

static void give_chunks(const struct shared *e, struct vs_arena *arena, const struct vs_passing_request *ask,
                        struct vs_passing_answer *answer, int *files)
{
    uint64_t handles[VS_PASSING_FILES];
    struct vs_arena_ground on = vs_arena_handles(arena, e->address, ask->first, handles, ask->most);
    answer->pieces = on.handles;
    answer->piece_bytes = on.each;
    answer->bytes = on.bytes;
    answer->offset = on.offset;
    if (on.handles)
        answer->status = (int)describe(e->of, handles, on.given, files, &answer->files);
}

static void take_away(struct vs_passing_answer *answer, const int *files)
{
    for (uint32_t i = 0; i < answer->files; i++)
        close(files[i]);
    *answer = (struct vs_passing_answer){.status = CUDA_ERROR_INVALID_HANDLE};
}

/* Runs in the thread that answers.  No lock is held while the driver makes descriptors, so the block may be
 * freed meanwhile and its address be given to another block.  A free removes the id before anything else, and
 * an id is never used twice: if it still is the block's at the end, it was throughout. */
static void give(const struct vs_passing_request *ask, struct vs_passing_answer *answer, int *files)
{
    answer->status = CUDA_ERROR_INVALID_HANDLE;
    if (!vs_served_in())
        return;
    struct shared e = look_up(ask->id);
    struct vs_arena *arena = e.id ? vs_served_arena(e.of) : NULL;
    if (arena) {
        give_chunks(&e, arena, ask, answer, files);
        if (look_up(ask->id).id == 0)
            take_away(answer, files);
    }
    vs_served_out();
}

/* ---- cuIpcGetMemHandle ----
 *
 * The contract is CUDA's: the handle is of the whole allocation whatever address of it was given, and freeing
 * exported memory while others have it open is undefined.  Here these go on seeing the chunks, which may by
 * then be another block's.  As with the driver's own handles, who opens one reaches others' bytes of the same
 * chunk (2 MiB), and after a resume of the same group (8 MiB).  Who must not show them allocates multiples of
 * it. */

static CUresult make_handle(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                            CUipcMemHandle *handle)
{
    struct vs_ipc_ticket ticket = {
        .magic = VS_IPC_MAGIC, .pid = getpid(), .device = (int32_t)(s - vs_served), .size = block->size};
    int error = vs_passing_serve(give, &ticket.where);
    if (error != 0) {
        vs_log("cuIpcGetMemHandle: no socket and thread to hand the memory over (%s): raise the limits on "
               "open files and threads, or run without VRAMSCOPE_ALLOCATOR=arena",
               strerror(-error));
        return CUDA_ERROR_MAP_FAILED;
    }
    ticket.id = export_block(s, arena, block);
    if (!ticket.id)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(handle->reserved, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

static CUresult handle_of(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct vs_arena_block block;
    struct vs_served *s;
    CUresult status = CUDA_ERROR_INVALID_VALUE;
    CUcontext current = NULL;
    int cancel;
    if (!handle || vs_drv_cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current || !vs_served_in())
        return VS_UNDER(cuIpcGetMemHandle)(handle, address);
    struct vs_arena *arena = vs_served_owner(address, &s, &block);
    bool ours = arena && s->cuda.prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (ours) {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* no thread ends with our locks */
        status = make_handle(s, arena, &block, handle);
        pthread_setcancelstate(cancel, NULL);
    }
    vs_served_out();
    return ours ? status : VS_UNDER(cuIpcGetMemHandle)(handle, address);
}

static CUresult serve_handle(CUipcMemHandle *handle, CUdeviceptr address)
{
    vs_away_give(address);
    CUresult status = handle_of(handle, address);
    vs_away_asked();
    return status;
}

bool vs_ipc_is_own(const struct vs_ipc_ticket *ticket)
{
    return ticket->pid == getpid() && vs_passing_name() == ticket->where.name;
}

const struct vs_stand_in vs_stand_ins_exports[] = {{VS_API_cuIpcGetMemHandle, (void *)serve_handle}, {0}};
