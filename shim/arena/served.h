/*
 * served.h - what the parts of serve.h share: a device with its arena, and the driver under us.
 */
#ifndef VS_ARENA_SERVED_H
#define VS_ARENA_SERVED_H

#include "arena.h"
#include "backing_cuda.h"
#include "hooks/cuda.h"
#include "hooks/hook.h"
#include "core/lock.h"

#include <stdatomic.h>

#define VS_SERVED_DEVICES 64

struct vs_served {
    _Atomic(struct vs_arena *) arena; /* published last */
    _Atomic bool refused;             /* there can be none */
    bool ending;                      /* its context is gone, and somebody may be in the arena still */
    struct vs_backing_cuda cuda;
    _Atomic uint64_t peers; /* devices that have access, also before there is an arena */

    /* serve_tell.c */
    struct vs_lock telling; /* what is read is told before anybody reads again */
    uint64_t told;          /* up to which of vs_arena_changes() what it holds is recorded; atomic */
    uint32_t number;        /* of the device's arenas, this one included */
    uint32_t samples;
    uint64_t sampled;    /* requests at the last sample */
    uint64_t free_waits; /* of cuMemFree for the device; atomic */

    CUmemoryPool pool;       /* the device's default one */
    _Atomic bool other_pool; /* another one is current */
    _Atomic uint64_t pool_reserved_high;

    struct vs_lock streams; /* guards the next */
    CUstream stream_of[VS_ARENA_LANES];
    bool used[VS_ARENA_LANES];
};

extern struct vs_served vs_served[VS_SERVED_DEVICES];
extern _Atomic bool vs_served_any;  /* an arena was made */
extern uint32_t vs_served_captures; /* of streams, under way; atomic */
extern __thread bool vs_serving;    /* this thread's calls of the driver are ours */

/* ---- being inside (serve_scope.c) ---- */

/* Between the two nothing that a thread found in vs_served goes away, and what it calls of the driver is
 * ours. False: nothing of ours may be touched, the driver serves: this thread is inside already (a signal
 * handler, or the driver calling itself), or it is in a fork's child, where neither the arena nor the driver
 * can be used. */
bool vs_served_in(void);
void vs_served_out(void);
/* Before anything is made that vs_served_in guards: a fork's child is told from its parent from then on. */
void vs_served_begin(void);
/* Until nobody is inside who was; false: somebody is for so long that he may never leave. */
bool vs_served_wait(void);
/* The driver may have shut down: exit was called, or no handler could be registered that would say so.  Valid
 * from vs_served_watch_exit on, which is called once a context exists.  Relaxed: a free on another thread at
 * that moment may as well have come before. */
extern _Atomic bool vs_served_exiting;
void vs_served_watch_exit(void);

/* The driver's own function that a row of ours stands for. */
#define VS_UNDER(symbol) ((__typeof__(&symbol))vs_real_under(VS_API_##symbol))

static inline struct vs_arena *vs_served_arena(struct vs_served *s)
{
    /* acquire: pairs with the release that published it */
    return atomic_load_explicit(&s->arena, memory_order_acquire);
}

/* Whether the device can have no arena, as far as is known.  Relaxed: nothing else is read by it. */
static inline bool vs_served_refused(const struct vs_served *s)
{
    return atomic_load_explicit(&s->refused, memory_order_relaxed);
}

/* Looked at only while that context is active, so nothing comes of it. */
bool vs_served_is_primary(CUcontext context, CUdevice device);
/* The arena of the current device, made if need be; NULL: the driver serves. */
struct vs_arena *vs_served_here(struct vs_served **served);
/* The same for CONTEXT, which need not be current. */
struct vs_arena *vs_served_of(CUcontext context, struct vs_served **served);
/* The arena that has a live block with ADDRESS in it; NULL: the memory is the driver's.  It is there until
 * vs_served_out, even if its device has none any more. */
struct vs_arena *vs_served_owner(CUdeviceptr address, struct vs_served **served,
                                 struct vs_arena_block *block);

/* serve_tell.c: records what the device's arena holds, if that has changed, and now and then its figures.
 * Before the event of a block that it gave, so that no block is ever told before its memory; and after a
 * free. */
void vs_served_tell(struct vs_served *s);
/* Inside, after whatever may have changed what ARENA holds: if it did, or figures are due, that is told after
 * this call of the program's (vs_override_after), or after the thread's next one. */
void vs_served_look(const struct vs_served *s, const struct vs_arena *arena);
/* Its arena was made, and is about to be seen; is not seen any more, and about to end. */
void vs_served_tell_begin(struct vs_served *s);
void vs_served_tell_end(struct vs_served *s, struct vs_arena *arena);
void vs_serve_install_tell(void);
/* serve_free.c: the program has freed BLOCK on LANE; what was exported of it ends, what is counted of it
 * falls. */
CUresult vs_served_take_back(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                             uint32_t lane, unsigned flags);
void vs_serve_install_frees(void);

/* The devices of MORE may reach what lies on this one, now and later. */
CUresult vs_served_peers(struct vs_served *s, uint64_t more);

/* serve_streams.c: the lane of a stream of the arena's own context, whichever is current; VS_ARENA_ANY where
 * it has none.  OPEN: gives it one. */
uint32_t vs_served_stream_lane(struct vs_served *s, CUstream stream, bool open);
extern uint32_t vs_served_lane_changes; /* which stream has which: how often that changed; atomic */
/* Stream-ordered memory, of POOL or, where that is NULL, of the device's current one.  *SERVED: not by the
 * driver. */
CUresult vs_served_alloc(CUdeviceptr *out, size_t size, CUstream stream, CUmemoryPool pool, bool *served);
/* serve_pools.c */
void vs_served_look_at_pool(struct vs_served *s);
void vs_serve_install_pools(void);
void vs_serve_install_streams(void);
void vs_serve_install_asks(void);

/* serve_captures.c: whether any stream is being captured */
static inline bool vs_captures(void)
{
    /* relaxed: who captures and allocates in another thread orders the two himself */
    return __atomic_load_n(&vs_served_captures, __ATOMIC_RELAXED) != 0;
}
/* STREAM is not captured any more; nor is any of CONTEXT */
void vs_capture_ended(CUstream stream);
void vs_captures_forget(CUcontext context);
void vs_serve_install_captures(void);

/* serve_reach.c: the contexts beside the arena's own whose work may touch its memory. */
extern const struct vs_backing_others vs_reach;
/* CONTEXT, or (NULL) the primary one of DEVICE, is about to end: when this returns nobody uses it.  Then
 * whether it has. */
void vs_reach_ending(CUcontext context, CUdevice device);
void vs_reach_ended(CUcontext context, CUdevice device, bool gone);
void vs_serve_install_reach(void);

/* ---- memory shared with other processes (serve_ipc.c) ---- */

void vs_serve_install_exports(void);
/* The block at ADDRESS is about to be freed. */
void vs_served_unexport(struct vs_served *s, struct vs_arena *arena, CUdeviceptr address);
extern uint32_t vs_served_exports; /* blocks that others may open now; atomic */
void vs_served_unexport_all(struct vs_served *s);
/* serve_imports.c: what others share with us, wherever the shim is */
void vs_serve_install_imports(void);
bool vs_imported(CUdeviceptr address, struct vs_arena_block *block); /* ADDRESS lies in it */
/* CONTEXT is gone, or (NULL) the primary one of DEVICE. */
void vs_imports_forget(CUcontext context, CUdevice device);

#endif
