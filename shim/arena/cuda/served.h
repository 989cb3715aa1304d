/*
 * served.h - what the files behind the door share (arena/door.c): a device with its arena, and the driver
 * under us.
 */
#ifndef VS_ARENA_CUDA_SERVED_H
#define VS_ARENA_CUDA_SERVED_H

#include "arena/core/arena.h"
#include "backing_cuda.h"
#include "hooks/driver.h"
#include "core/lock.h"
#include "provider/provider.h"

#include <stdatomic.h>

#define VS_SERVED_DEVICES 64

struct vs_served {
    _Atomic(struct vs_arena *) arena; /* published last */
    _Atomic bool refused;             /* there can be none */
    bool ending;                      /* its context is gone, and somebody may be in the arena still */
    struct vs_backing_cuda cuda;
    _Atomic uint64_t peers; /* devices that have access, also before there is an arena */

    /* holds.c */
    uint32_t number;              /* of the device's arenas, this one included */
    uint64_t changes_before;      /* what the changes of this arena are counted on from */
    uint64_t free_waits;          /* of cuMemFree for the device; atomic */
    _Atomic bool has_ended;       /* the next is of an arena that has ended, and nobody has asked for it */
    uint64_t last[VS_FIGURE_END]; /* under the lock that makes arenas */

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

/* ---- being inside (scope.c) ---- */

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

/* What G says of a request that ARENA was asked for: it may have changed what that holds. */
static inline void vs_served_note(struct vs_given *g, const struct vs_served *s, const struct vs_arena *arena)
{
    g->device = s->cuda.device;
    g->change = s->changes_before + vs_arena_changes(arena);
}
/* ... and the block that it gave. */
static inline void vs_served_gave(struct vs_given *g, CUcontext context)
{
    g->space = VS_SPACE_ARENA;
    g->context = context;
}

/* holds.c: what arenas hold and their figures, as provider.h has them */
bool vs_served_holds(int device, struct vs_holding *h);
bool vs_served_figures(int device, bool at_once, uint64_t figure[VS_FIGURE_END]);
bool vs_served_ended(int device, uint64_t figure[VS_FIGURE_END]);
/* Its arena was made, and is about to be seen; is not seen any more, and about to end. */
void vs_served_holds_begin(struct vs_served *s);
void vs_served_holds_end(struct vs_served *s, struct vs_arena *arena);
/* arenas.c: what makes and ends arenas; `last` of all devices */
extern struct vs_lock vs_served_making;

/* ---- requests, as provider.h has them ---- */

bool vs_served_alloc(struct vs_given *g, CUdeviceptr *out, size_t size); /* arenas.c */
bool vs_served_alloc_rows(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                          unsigned int element);
bool vs_served_shortage(void);
bool vs_served_free(struct vs_given *g, CUdeviceptr address); /* free.c */
bool vs_served_alloc_ordered(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                             CUmemoryPool pool); /* streams.c */
bool vs_served_free_ordered(struct vs_given *g, CUdeviceptr address, CUstream stream);
bool vs_served_block_of(CUdeviceptr address, struct vs_owned *block); /* asks.c */

/* ---- functions in the place of the driver's own, file by file ---- */

extern const struct vs_stand_in vs_stand_ins_primary[]; /* arenas.c */
extern const struct vs_stand_in vs_stand_ins_peers[];
extern const struct vs_stand_in vs_stand_ins_streams[];  /* streams.c */
extern const struct vs_stand_in vs_stand_ins_captures[]; /* captures.c */
extern const struct vs_stand_in vs_stand_ins_pools[];    /* pools.c */
extern const struct vs_stand_in vs_stand_ins_contexts_ended[];
extern const struct vs_stand_in vs_stand_ins_contexts[]; /* contexts.c */
extern const struct vs_stand_in vs_stand_ins_asks[];     /* asks.c */

/* free.c: the program has freed BLOCK on LANE; what was exported of it ends, what is counted of it
 * falls. */
CUresult vs_served_take_back(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                             uint32_t lane, unsigned flags);

/* The devices of MORE may reach what lies on this one, now and later. */
CUresult vs_served_peers(struct vs_served *s, uint64_t more);

/* streams.c: the lane of a stream of the arena's own context, whichever is current; VS_ARENA_ANY where
 * it has none.  OPEN: gives it one. */
uint32_t vs_served_stream_lane(struct vs_served *s, CUstream stream, bool open);
extern uint32_t vs_served_lane_changes; /* which stream has which: how often that changed; atomic */
/* pools.c */
extern const struct vs_stand_in vs_stand_ins_contexts_ended[];
extern const struct vs_stand_in vs_stand_ins_contexts[]; /* contexts.c */
extern const struct vs_stand_in vs_stand_ins_asks[];     /* asks.c */

/* free.c: the program has freed BLOCK on LANE; what was exported of it ends, what is counted of it
 * falls. */
CUresult vs_served_take_back(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                             uint32_t lane, unsigned flags);

/* The devices of MORE may reach what lies on this one, now and later. */
CUresult vs_served_peers(struct vs_served *s, uint64_t more);

/* streams.c: the lane of a stream of the arena's own context, whichever is current; VS_ARENA_ANY where
 * it has none.  OPEN: gives it one. */
uint32_t vs_served_stream_lane(struct vs_served *s, CUstream stream, bool open);
extern uint32_t vs_served_lane_changes; /* which stream has which: how often that changed; atomic */
/* pools.c */
void vs_served_look_at_pool(struct vs_served *s);

/* captures.c: whether any stream is being captured */
static inline bool vs_captures(void)
{
    /* relaxed: who captures and allocates in another thread orders the two himself */
    return __atomic_load_n(&vs_served_captures, __ATOMIC_RELAXED) != 0;
}
/* STREAM is not captured any more; nor is any of CONTEXT */
void vs_capture_ended(CUstream stream);
void vs_captures_forget(CUcontext context);

/* contexts.c: the contexts beside the arena's own whose work may touch its memory. */
extern const struct vs_backing_others vs_reach;
/* CONTEXT, or (NULL) the primary one of DEVICE, is about to end: when this returns nobody uses it.  Then
 * whether it has. */
void vs_reach_ending(CUcontext context, CUdevice device);
void vs_reach_ended(CUcontext context, CUdevice device, bool gone);

/* ---- what is shared with other processes ---- */

/* What has to hear of blocks, arenas and contexts that end, and knows the memory of other processes' that is
 * open here (share/share.c). */
struct vs_sharing {
    /* The block at ADDRESS, which has pins, is about to be freed. */
    void (*block_ends)(struct vs_served *s, struct vs_arena *arena, CUdeviceptr address);
    /* S's arena is seen by nobody any more, and about to end. */
    void (*arena_ends)(struct vs_served *s);
    /* CONTEXT is gone, or (NULL) the primary one of DEVICE. */
    void (*context_ended)(CUcontext context, CUdevice device);
    /* ADDRESS lies in BLOCK, which is another process's. */
    bool (*opened)(CUdeviceptr address, struct vs_arena_block *block);
};
extern const struct vs_sharing vs_sharing;

/* Blocks that others may open now: while there are none, nobody looks whether a block is one; atomic. */
extern uint32_t vs_served_exports;

#endif
