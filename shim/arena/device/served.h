/*
 * served.h - the devices with their arenas, being inside one of them, and the driver under us.  Only the
 * arena's own folders include it.
 */
#ifndef VS_ARENA_DEVICE_SERVED_H
#define VS_ARENA_DEVICE_SERVED_H

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
    size_t total;           /* bytes of the device, or of the limit on it */
    _Atomic uint64_t peers; /* devices that have access, also before there is an arena */

    /* arena/cuda/holds.c */
    uint32_t number;              /* of the device's arenas, this one included */
    uint64_t changes_before;      /* changes of the device's earlier arenas, to which this one's are added */
    uint64_t free_waits;          /* of cuMemFree for the device; atomic */
    _Atomic bool has_ended;       /* `last` is of an arena that has ended, and nobody has read it */
    uint64_t last[VS_FIGURE_END]; /* guarded by vs_served_making */

    CUmemoryPool pool;       /* the device's default one */
    _Atomic bool other_pool; /* another one is current */
    _Atomic uint64_t pool_reserved_high;

    struct vs_lock streams; /* guards the next */
    CUstream stream_of[VS_ARENA_QUEUES];
    bool used[VS_ARENA_QUEUES];
};

extern struct vs_served vs_served[VS_SERVED_DEVICES];
extern _Atomic bool vs_served_any; /* an arena was made */
extern __thread bool vs_serving;   /* this thread's calls of the driver are ours */

/* ---- being inside (served.c) ---- */

/* Between the two nothing that a thread found in vs_served goes away, and what it calls of the driver is
 * ours. False: nothing of ours may be touched, the driver serves: this thread is inside already (a signal
 * handler, or the driver calling itself), or it is in a fork's child, where neither the arena nor the driver
 * can be used. */
bool vs_served_in(void);
void vs_served_out(void);
/* Called before anything is made that vs_served_in guards: from then on a fork's child is known from its
 * parent. */
void vs_served_begin(void);
/* Waits until every thread that is inside has left once; false: one has been inside for so long that it may
 * never leave. */
bool vs_served_wait(void);
/* The driver may have shut down: exit was called, or no handler could be registered that would say so.  Valid
 * from vs_served_watch_exit on, which is called once a context exists.  Relaxed: a free on another thread at
 * that moment may as well have come before. */
extern _Atomic bool vs_served_exiting;
void vs_served_watch_exit(void);

/* The driver's own function, in whose place one of ours stands; of the wrapper's type, which is declared
 * whatever the headers have. */
#define VS_UNDER(symbol) ((__typeof__(&vs_hook_##symbol))vs_real_under(VS_API_##symbol))

static inline struct vs_arena *vs_served_arena(struct vs_served *s)
{
    /* acquire: pairs with the release that published it */
    return atomic_load_explicit(&s->arena, memory_order_acquire);
}

/* Whether the device is known to be able to have no arena.  Relaxed: nothing else depends on it. */
static inline bool vs_served_refused(const struct vs_served *s)
{
    return atomic_load_explicit(&s->refused, memory_order_relaxed);
}

/* What makes and ends arenas holds this lock; it guards `last` of all devices, too. */
extern struct vs_lock vs_served_making;
extern uint32_t vs_served_queue_changes; /* which stream has which queue: how often that changed; atomic */

/* Whether CONTEXT is the primary one of DEVICE; it is active, so that asking does not make it. */
bool vs_served_is_primary(CUcontext context, CUdevice device);
/* The arena that has a live block with ADDRESS in it; NULL: the memory is the driver's.  It is there until
 * vs_served_out, even if its device has none any more. */
struct vs_arena *vs_served_owner(CUdeviceptr address, struct vs_served **served,
                                 struct vs_arena_block *block);

/* The devices of MORE may reach what lies on this one, now and later. */
CUresult vs_served_peers(struct vs_served *s, uint64_t more);

#endif
