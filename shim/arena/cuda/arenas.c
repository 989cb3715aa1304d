/*
 * arenas.c - the devices' arenas: how they begin, what cuMemAlloc gets of them, how they end.
 *
 * cuMemAlloc takes from the current device's arena, made at the first request with the current context. Where
 * there can be none (a device without virtual memory management, no room for the books), the driver serves as
 * ever.
 */
#include "core/log.h"
#include "core/options.h"
#include "arena/away/away.h"
#include "arena/away/park.h"
#include "arena/away/spill.h"
#include "arena/share/share.h"
#include "serving.h"

#include <pthread.h>
#include <string.h>

#define PITCH 512u

static bool fill_calls(struct vs_arena_calls *calls)
{
    bool all = true;
#define X(symbol, parameters) all = all && (calls->symbol = vs_cuda_real(#symbol)) != NULL;
    VS_ARENA_CALLS(X)
#undef X
    /* as the program would get them: under a limit */
    *(void **)&calls->cuMemCreate = vs_real_under(VS_API_cuMemCreate);
    *(void **)&calls->cuMemGetInfo_v2 = vs_real_under(VS_API_cuMemGetInfo_v2);
    *(void **)&calls->record_context = vs_cuda_real("cuCtxRecordEvent");
    return all;
}

/* ---- arenas ---- */

/* One line, once: the arena's lock is held. */
static void say_slow(const struct vs_backing_cuda *b)
{
    vs_log(
        "arena: the driver has taken %.1f s for %llu chunks of %llu MiB on device %d, %.1f ms each (0.03 "
        "on "
        "an idle GPU): the program waits for memory, it does not hang; --allocator=off asks the driver less "
        "often",
        (double)b->making_ns / 1e9, (unsigned long long)b->made, (unsigned long long)(b->chunk >> 20),
        b->device, (double)b->making_ns / 1e6 / (double)b->made);
}

static int make_arena(struct vs_served *s, CUdevice device, CUcontext context)
{
    struct vs_backing backing;
    struct vs_arena *arena;
    struct vs_arena_config config = {.trim_above = vs_options.arena_keep,
                                     .plain = !vs_options.arena_views,
                                     .no_stream_waits = !vs_options.arena_waits,
                                     .single = *vs_options.park || *vs_options.spill};
    size_t total = 0, left;
    if (!fill_calls(&s->cuda.call) || vs_drv_cuDeviceTotalMem_v2(&total, device) != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_SUPPORTED;
    s->cuda.context = context;
    s->cuda.device = device;
    s->cuda.captures = &vs_served_captures;
    s->cuda.others = &vs_reach;
    s->cuda.slow = say_slow;
    vs_served_begin();
    vs_served_watch_exit();
    atomic_store_explicit(&vs_served_any, true, memory_order_relaxed); /* never taken back */
    s->total = config.capacity = total;
    if (vs_spill_on() && s->cuda.call.cuMemGetInfo_v2(&left, &s->total) != CUDA_SUCCESS) /* under a limit */
        s->total = total;
    config.headroom = vs_spill_headroom(s->total);
    s->cuda.coarse = vs_spill_chunk(s->total);
    vs_served_look_at_pool(s);
    int status = (int)vs_backing_cuda_init(&s->cuda, &backing);
    if (status == 0)
        status = vs_arena_create(&arena, &backing, &config);
    uint64_t peers = atomic_load_explicit(&s->peers, memory_order_relaxed); /* under the lock */
    if (status == 0 && peers)
        status = vs_arena_set_peers(arena, peers);
    if (status == 0)
        vs_served_holds_begin(s);
    /* release: a thread that sees the pointer sees the arena it points to */
    if (status == 0)
        atomic_store_explicit(&s->arena, arena, memory_order_release);
    return status;
}

static struct vs_arena *first_here(struct vs_served **out, CUcontext context)
{
    CUdevice device = -1;
    if (vs_drv_cuCtxGetDevice(&device) != CUDA_SUCCESS || device < 0 || device >= VS_SERVED_DEVICES)
        return NULL;
    struct vs_served *s = *out = &vs_served[device];
    vs_lock_take(&vs_served_making);
    struct vs_arena *arena =
        atomic_load_explicit(&s->arena, memory_order_relaxed); /* stored under the lock */
    if (!arena && !vs_served_refused(s) && !s->ending && vs_served_is_primary(context, device)) {
        int cancel; /* no thread that the program cancels ends in the middle of it */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        int status = make_arena(s, device, context);
        pthread_setcancelstate(cancel, NULL);
        atomic_store_explicit(&s->refused, status != 0, memory_order_relaxed);
        if (status != 0)
            vs_log("device %d can have no arena (error %d): the driver's own allocator serves it", device,
                   status);
        arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    }
    bool ours = arena && s->cuda.context == context;
    vs_lock_give(&vs_served_making);
    return ours ? arena : NULL;
}

static struct vs_arena *arena_in(CUcontext context, struct vs_served **out)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        if (arena && vs_served[i].cuda.context == context) {
            *out = &vs_served[i];
            return arena;
        }
    }
    return NULL;
}

struct vs_arena *vs_served_here(struct vs_served **out)
{
    CUcontext context = NULL;
    if (vs_drv_cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    struct vs_arena *arena = arena_in(context, out);
    return arena ? arena : first_here(out, context);
}

struct vs_arena *vs_served_of(CUcontext context, struct vs_served **out)
{
    CUcontext current = NULL;
    struct vs_arena *arena = context ? arena_in(context, out) : NULL;
    if (arena || !context || vs_drv_cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context)
        return arena;
    return first_here(out, context);
}

/* ---- what stands in the driver's place ---- */

static int alloc_once(struct vs_given *g, size_t size, uint64_t *address)
{
    struct vs_served *s;
    if (!vs_served_in())
        return CUDA_ERROR_NOT_SUPPORTED;
    struct vs_arena *arena = vs_served_here(&s);
    CUcontext context = arena ? s->cuda.context : NULL;
    int status = CUDA_ERROR_NOT_SUPPORTED;
    unsigned tries = 0;
    if (arena)
        do
            status = vs_arena_malloc(arena, VS_ARENA_ANY, size, address);
        while (vs_park_retries(s, arena, status, size, &tries));
    if (arena && vs_park_is_on())
        vs_park_malloc(s, arena, status == 0 ? *address : 0, size, VS_PARK_NO_STREAM);
    if (arena)
        vs_served_note(g, s, arena);
    vs_served_out();
    if (status == 0)
        vs_served_gave(g, context);
    return status;
}

/* While a graph is being captured the driver serves: it refuses where the capture's mode forbids allocations,
 * and what the graph may come to hold is lent to nobody.
 *
 * Where the arena has nothing to give, whatever the reason, the driver is asked itself: its error is the one
 * that the program would have got without us. */
bool vs_served_alloc(struct vs_given *g, CUdeviceptr *out, size_t size)
{
    uint64_t address = 0;
    uint32_t seen;
    int status;
    if (!out || size == 0 || vs_captures())
        return false;
    do {
        seen = vs_away_before_malloc();
        status = alloc_once(g, size, &address);
    } while (status == VS_BACKING_NOT_READY && vs_away_since(seen));
    if (status == 0)
        *out = address;
    return status == 0;
}

bool vs_served_alloc_rows(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                          unsigned int element)
{
    bool valid = out && pitch && width && height && (element == 4 || element == 8 || element == 16);
    size_t line = (width + PITCH - 1) & ~(size_t)(PITCH - 1), size;
    if (!valid || line < width || __builtin_mul_overflow(line, height, &size) ||
        !vs_served_alloc(g, out, size))
        return false;
    *pitch = line;
    return true;
}

static int device_of_context(CUcontext context)
{
    CUdevice device = -1;
    CUcontext before = NULL;
    vs_drv_cuCtxGetCurrent(&before);
    if (vs_drv_cuCtxSetCurrent(context) == CUDA_SUCCESS)
        vs_drv_cuCtxGetDevice(&device);
    vs_drv_cuCtxSetCurrent(before);
    return device;
}

/* The current device may reach what lies on the peer's: all of its mappings, those to come included. */
static CUresult serve_peer(CUcontext peer, unsigned int flags)
{
    CUdevice from = -1;
    CUresult status = VS_UNDER(cuCtxEnablePeerAccess)(peer, flags);
    if (status != CUDA_SUCCESS || vs_drv_cuCtxGetDevice(&from) != CUDA_SUCCESS)
        return status;
    int device = device_of_context(peer);
    if (device < 0 || device >= VS_SERVED_DEVICES || from < 0 || from >= VS_SERVED_DEVICES)
        return status;
    struct vs_served *s = &vs_served[device];
    return vs_served_peers(s, 1ull << from);
}

/* ---- the driver is short of memory while arenas hold idle chunks ---- */

static uint64_t given_back(struct vs_arena *arena)
{
    struct vs_arena_stats before, after;
    vs_arena_stats(arena, &before);
    if (before.idle + before.deferred == 0)
        return 0;
    vs_arena_trim(arena, 0);
    vs_arena_stats(arena, &after);
    return before.reserved > after.reserved ? before.reserved - after.reserved : 0;
}

/* Whatever the program, or a library, was refused memory for. */
bool vs_served_shortage(void)
{
    uint64_t bytes = 0;
    if (!vs_served_in())
        return false;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        bytes += arena ? given_back(arena) : 0;
    }
    vs_served_out();
    return bytes > 0;
}

/* ---- the end of a primary context: its memory goes with it ---- */

/* No thread finds the arena any more; none can make another one yet. */
static struct vs_arena *hide_arena(struct vs_served *s)
{
    vs_lock_take(&vs_served_making);
    struct vs_arena *arena = atomic_load_explicit(&s->arena, memory_order_relaxed);
    s->ending = s->ending || arena;
    atomic_store_explicit(&s->arena, NULL, memory_order_seq_cst); /* see vs_served_in */
    vs_lock_give(&vs_served_making);
    return arena;
}

/* Nobody is inside any more. */
static void take_apart(struct vs_served *s, struct vs_arena *arena)
{
    vs_serving = true;
    vs_captures_forget(s->cuda.context);
    vs_park_arena_ends(s);
    s->cuda.context = NULL;
    atomic_store_explicit(&s->pool_reserved_high, 0, memory_order_relaxed);
    memset(s->used, 0, sizeof s->used);
    vs_served_holds_end(s, arena);
    __atomic_fetch_add(&vs_served_queue_changes, 1, __ATOMIC_RELAXED); /* threads forget its streams */
    vs_arena_destroy(arena);
    s->cuda.spares = 0; /* events went with the context */
    vs_serving = false;
}

static void end_arena(CUdevice device)
{
    struct vs_served *s = device >= 0 && device < VS_SERVED_DEVICES ? &vs_served[device] : NULL;
    struct vs_arena *arena = s ? hide_arena(s) : NULL;
    if (!arena)
        return;
    bool alone = vs_served_wait();
    vs_exports_arena_ends(s);
    vs_lock_take(&vs_served_making);
    if (alone)
        take_apart(s, arena);
    else /* it stays as it is, and what it holds is lost */
        vs_log("device %d: its context ended while a thread was in the arena and did not leave: the driver's "
               "own allocator serves from here",
               (int)device);
    atomic_store_explicit(&s->refused, !alone, memory_order_relaxed);
    s->ending = false;
    vs_lock_give(&vs_served_making);
}

static void end_primary(CUdevice device)
{
    end_arena(device);
    vs_imports_context_ended(NULL, device);
}

static CUresult after_release(CUresult status, CUdevice device)
{
    unsigned flags;
    int active = 1;
    bool gone = status == CUDA_SUCCESS &&
                vs_drv_cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && !active;
    vs_reach_ended(NULL, device, gone);
    if (gone)
        end_primary(device);
    return status;
}

static CUresult after_reset(CUresult status, CUdevice device)
{
    vs_reach_ended(NULL, device, status == CUDA_SUCCESS);
    if (status == CUDA_SUCCESS)
        end_primary(device);
    return status;
}

#define ENDS(symbol, AFTER)                                                                                  \
    static CUresult serve_##symbol(CUdevice device)                                                          \
    {                                                                                                        \
        vs_reach_ending(NULL, device);                                                                       \
        return AFTER(VS_UNDER(symbol)(device), device);                                                      \
    }
ENDS(cuDevicePrimaryCtxRelease, after_release)
ENDS(cuDevicePrimaryCtxRelease_v2, after_release)
ENDS(cuDevicePrimaryCtxReset, after_reset)
ENDS(cuDevicePrimaryCtxReset_v2, after_reset)

const struct vs_stand_in vs_stand_ins_peers[] = {{VS_API_cuCtxEnablePeerAccess, (void *)serve_peer}, {0}};

const struct vs_stand_in vs_stand_ins_primary[] = {
    {VS_API_cuDevicePrimaryCtxRelease, (void *)serve_cuDevicePrimaryCtxRelease},
    {VS_API_cuDevicePrimaryCtxRelease_v2, (void *)serve_cuDevicePrimaryCtxRelease_v2},
    {VS_API_cuDevicePrimaryCtxReset, (void *)serve_cuDevicePrimaryCtxReset},
    {VS_API_cuDevicePrimaryCtxReset_v2, (void *)serve_cuDevicePrimaryCtxReset_v2},
    {0}};
