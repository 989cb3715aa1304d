/*
 * served.h - what the parts of serve.h share: a device with its arena, and the driver under us.
 */
#ifndef VS_ARENA_SERVED_H
#define VS_ARENA_SERVED_H

#include "arena.h"
#include "backing_cuda.h"
#include "hooks/cuda.h"
#include "hooks/hook.h"
#include "lock.h"

#include <stdatomic.h>

#define VS_SERVED_DEVICES 64

struct vs_served {
    _Atomic(struct vs_arena *) arena; /* published last */
    bool refused;                     /* there can be none */
    struct vs_backing_cuda cuda;
    uint64_t peers; /* devices that asked for access before there was an arena */

    /* serve_tell.c */
    struct vs_lock telling; /* what is read is told before anybody reads again */
    uint64_t told;          /* up to which of vs_arena_changes() what it holds is recorded; atomic */
    uint32_t number;        /* of the device's arenas, this one included */
    uint32_t samples;
    uint64_t sampled;    /* requests at the last sample */
    uint64_t free_waits; /* of cuMemFree for the device; atomic */

    struct vs_lock streams; /* guards the next */
    CUstream stream_of[VS_ARENA_LANES];
    bool used[VS_ARENA_LANES];
};

extern struct vs_served vs_served[VS_SERVED_DEVICES];
extern uint32_t vs_served_captures; /* of streams, under way; atomic */
extern __thread bool vs_serving;    /* this thread's calls of the driver are ours */

/* The driver's own function that a row of ours stands for. */
#define VS_UNDER(symbol) ((__typeof__(&symbol))vs_real_under(VS_API_##symbol))

static inline struct vs_arena *vs_served_arena(struct vs_served *s)
{
    /* acquire: pairs with the release that published it */
    return atomic_load_explicit(&s->arena, memory_order_acquire);
}

/* The arena of the current device, made if need be; NULL: the driver serves. */
struct vs_arena *vs_served_here(struct vs_served **served);
/* The device whose arena has a live block with ADDRESS in it; NULL: the memory is the driver's. */
struct vs_served *vs_served_owner(CUdeviceptr address, struct vs_arena_block *block);

/* serve_tell.c: records what the device's arena holds, if that has changed, and now and then its figures.
 * Before the event of a block that it gave, so that no block is ever told before its memory; and after a
 * free. */
void vs_served_tell(struct vs_served *s);
/* Its arena was made, and is about to be seen; is not seen any more, and about to end. */
void vs_served_tell_begin(struct vs_served *s);
void vs_served_tell_end(struct vs_served *s, struct vs_arena *arena);
void vs_serve_install_tell(void);

/* serve_streams.c: the lane of a stream; VS_ARENA_ANY where it has none.  OPEN: gives it one. */
uint32_t vs_served_lane(struct vs_served *s, CUstream stream, bool open);
void vs_serve_install_streams(void);
void vs_serve_install_asks(void);

#endif
