/*
 * streams.c - stream-ordered allocations out of the arena: each stream is a queue.
 *
 * A stream's queue is opened when it first allocates, and retired when the stream is destroyed, before its
 * handle can come again for another one.  Not every handle is one stream: the per-thread default stream is
 * another in each thread, and in another context than the arena's the default stream is another as well. Such
 * streams have no queue: they get memory that is complete for all, and what is freed on them waits until the
 * device is known to be done.
 *
 * On a stream that is being captured the driver serves, as a graph's node.
 */
#include "arena/share/share.h"
#include "arena/away/away.h"
#include "arena/away/park.h"
#include "serving.h"

static bool real_stream(CUstream stream)
{
    return stream != NULL && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

/* The context that STREAM is of, which need not be the current one; NULL: the driver has to say what is
 * wrong. */
static CUresult query_context(CUstream stream, CUcontext *context)
{
    *context = NULL;
    return real_stream(stream) ? vs_drv_cuStreamGetCtx(stream, context) : vs_drv_cuCtxGetCurrent(context);
}

static uint32_t find_queue(const struct vs_served *s, CUstream stream)
{
    for (uint32_t queue = 1; queue < VS_ARENA_QUEUES; queue++)
        if (s->used[queue] && s->stream_of[queue] == stream)
            return queue;
    return VS_ARENA_ANY;
}

/* QUEUE is the stream's, unless another thread has opened one for it meanwhile. */
static uint32_t keep_one_queue(struct vs_served *s, struct vs_arena *arena, CUstream stream, uint32_t queue)
{
    vs_lock_take(&s->streams);
    uint32_t other = find_queue(s, stream);
    if (other == VS_ARENA_ANY) {
        s->stream_of[queue] = stream;
        s->used[queue] = true;
    }
    vs_lock_give(&s->streams);
    if (other == VS_ARENA_ANY)
        return queue;
    vs_arena_retire_queue(arena, queue);
    return other;
}

/* Not with the lock held, since opening a queue may wait for the device. */
static uint32_t look_up_queue(struct vs_served *s, CUstream stream, bool open)
{
    uint32_t queue = VS_ARENA_ANY;
    struct vs_arena *arena = vs_served_arena(s); /* NULL: its context has just gone */
    if (!arena || stream == CU_STREAM_PER_THREAD)
        return queue;
    vs_lock_take(&s->streams);
    queue = find_queue(s, stream);
    vs_lock_give(&s->streams);
    bool none = queue == VS_ARENA_ANY && open;
    if (none && vs_arena_open_queue(arena, (uint64_t)(uintptr_t)stream, 0, &queue) == 0)
        queue = keep_one_queue(s, arena, stream, queue);
    return queue;
}

/* The last queue that this thread asked for: nearly always the next one as well. */
static __thread struct {
    struct vs_served *s;
    CUstream stream;
    uint32_t queue, changes;
} last;

static uint32_t queue_changes(void)
{
    /* relaxed: a program that ends a stream and uses its handle for another one in another thread orders the
     * two itself */
    return __atomic_load_n(&vs_served_queue_changes, __ATOMIC_RELAXED);
}

uint32_t vs_served_stream_queue(struct vs_served *s, CUstream stream, bool open)
{
    uint32_t changes = queue_changes();
    if (stream == CU_STREAM_LEGACY)
        stream = NULL; /* two names of one stream */
    if (last.s == s && last.stream == stream && last.changes == changes)
        return last.queue;
    uint32_t queue = look_up_queue(s, stream, open);
    if (queue != VS_ARENA_ANY) {
        last.s = s;
        last.stream = stream;
        last.queue = queue;
        last.changes = changes;
    }
    return queue;
}

/* The device whose queue STREAM has, as far as this thread knows without asking anybody: then STREAM lives,
 * and its context is the arena's.  Handles that name a stream per context are none of these. */
static struct vs_served *last_of(CUstream stream)
{
    bool known = real_stream(stream) && last.stream == stream && last.changes == queue_changes();
    return known && vs_served_arena(last.s) ? last.s : NULL; /* otherwise it is being taken apart */
}

/* The context that STREAM is of, which need not be the current one, and the capture that it is in. */
struct road {
    CUcontext context; /* NULL: none */
    bool captured;
};

/* No query is made for a stream that is known, or about captures while there are none. */
static CUresult ask(CUstream stream, struct road *road)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct vs_served *s = last_of(stream);
    CUresult status = CUDA_SUCCESS;
    if (s)
        road->context = s->cuda.context;
    else
        status = query_context(stream, &road->context);
    if (status == CUDA_SUCCESS && vs_captures())
        status = vs_drv_cuStreamIsCapturing(stream, &capture);
    road->captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
    return status;
}

/* Whether memory of POOL (NULL: of the current one) comes from the arena: that of the default one does. */
static bool is_served(const struct vs_served *s, CUmemoryPool pool)
{
    return pool ? pool == s->pool : !atomic_load_explicit(&s->other_pool, memory_order_relaxed);
}

static int take(struct vs_served *s, struct vs_arena *arena, CUstream stream, size_t size, uint64_t *address)
{
    uint32_t queue = vs_served_stream_queue(s, stream, true);
    unsigned tries = 0;
    int status;
    do
        status = vs_arena_malloc_as(arena, queue, VS_MALLOC_ORDERED, size, address);
    while (vs_park_retries(s, arena, status, size, &tries));
    return status;
}

static int alloc_once(struct vs_given *g, size_t size, CUstream stream, CUmemoryPool pool, uint64_t *address)
{
    struct vs_served *s;
    struct road road;
    int status = CUDA_ERROR_NOT_SUPPORTED;
    if (!vs_served_in())
        return status;
    bool free_road = ask(stream, &road) == CUDA_SUCCESS && !road.captured;
    struct vs_arena *arena = free_road ? vs_served_of(road.context, &s) : NULL;
    if (arena && is_served(s, pool)) {
        status = take(s, arena, stream, size, address);
        if (vs_park_is_on())
            vs_park_malloc(s, arena, status == 0 ? *address : 0, size, stream);
        vs_served_note(g, s, arena);
    }
    vs_served_out();
    if (status == 0)
        vs_served_gave(g, road.context);
    return status;
}

/* Where the arena has nothing to give, the driver gets the request, and its error is the program's. */
bool vs_served_alloc_ordered(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                             CUmemoryPool pool)
{
    uint64_t address = 0;
    uint32_t seen;
    int status;
    if (!out || size == 0)
        return false;
    do {
        seen = vs_away_before_malloc();
        status = alloc_once(g, size, stream, pool, &address);
    } while (status == VS_BACKING_NOT_READY && vs_away_since(seen));
    if (status == 0)
        *out = address;
    return status == 0;
}

/* A stream of another device or context: no wait for the arena's own covers it. */
static CUresult wait_for_stranger(CUstream stream)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    CUresult status = vs_drv_cuStreamSynchronize(stream);
    vs_drv_cuThreadExchangeStreamCaptureMode(&mode);
    return status;
}

static CUresult release_block(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                              CUstream stream, CUcontext context)
{
    bool own = context == s->cuda.context;
    uint32_t queue = own ? vs_served_stream_queue(s, stream, true) : VS_ARENA_ANY;
    unsigned flags = queue == VS_ARENA_ANY ? VS_FREE_DEFER | VS_FREE_NO_WAIT : 0;
    CUresult status = own ? CUDA_SUCCESS : wait_for_stranger(stream);
    if (status != CUDA_SUCCESS)
        return status;
    return vs_served_take_back(s, arena, block, queue, flags);
}

/* The short way of nearly all frees: the block is not exported, and the stream is known and not captured.
 * False: nothing was done. */
static bool release_known(struct vs_given *g, CUdeviceptr address, CUstream stream)
{
    struct vs_served *s = last_of(stream);
    /* relaxed: a program that exports a block and frees it in another thread orders the two itself */
    if (!s || vs_captures() || __atomic_load_n(&vs_served_exports, __ATOMIC_RELAXED) != 0)
        return false;
    struct vs_arena *arena = vs_served_arena(s);
    if (arena && vs_park_is_on())
        vs_park_free(s, arena, address);
    if (!arena || vs_arena_free(arena, address, last.queue, 0) != 0)
        return false;
    vs_served_note(g, s, arena);
    return true;
}

/* Where the driver refuses the query about the stream, its error is the answer to the free as well: the
 * driver does not know the address. */
bool vs_served_free_ordered(struct vs_given *g, CUdeviceptr address, CUstream stream)
{
    struct vs_arena_block block;
    struct vs_served *s;
    struct road road;
    g->status = CUDA_SUCCESS;
    if (!address || !vs_served_in())
        return false;
    if (release_known(g, address, stream)) {
        vs_served_out();
        return true;
    }
    g->status = ask(stream, &road);
    bool by_driver = g->status == CUDA_SUCCESS && (road.captured || !road.context);
    struct vs_arena *arena = by_driver ? NULL : vs_served_owner(address, &s, &block);
    if (arena && g->status == CUDA_SUCCESS)
        g->status = block.address == address ? release_block(s, arena, &block, stream, road.context)
                                             : CUDA_ERROR_INVALID_VALUE;
    if (arena)
        vs_served_note(g, s, arena);
    vs_served_out();
    return arena != NULL;
}

/* ---- streams that end ---- */

static void forget_stream(CUstream stream)
{
    if (!vs_served_in())
        return;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_served *s = &vs_served[i];
        struct vs_arena *arena = vs_served_arena(s);
        if (!arena)
            continue;
        vs_lock_take(&s->streams);
        uint32_t queue = find_queue(s, stream);
        if (queue != VS_ARENA_ANY) {
            s->used[queue] = false;
            __atomic_fetch_add(&vs_served_queue_changes, 1, __ATOMIC_RELAXED);
            vs_arena_retire_queue(arena, queue);
        }
        vs_lock_give(&s->streams);
    }
    vs_served_out();
}

#define DESTROYS(symbol)                                                                                     \
    static CUresult serve_##symbol(CUstream stream)                                                          \
    {                                                                                                        \
        if (real_stream(stream)) {                                                                           \
            vs_capture_ended(stream);                                                                        \
            forget_stream(stream);                                                                           \
        }                                                                                                    \
        return VS_UNDER(symbol)(stream);                                                                     \
    }
DESTROYS(cuStreamDestroy)
DESTROYS(cuStreamDestroy_v2)

const struct vs_stand_in vs_stand_ins_streams[] = {
    {VS_API_cuStreamDestroy, (void *)serve_cuStreamDestroy},
    {VS_API_cuStreamDestroy_v2, (void *)serve_cuStreamDestroy_v2},
    {0}};
