/* serving.h - what the files share that stand in the driver's place. */
#ifndef VS_ARENA_CUDA_SERVING_H
#define VS_ARENA_CUDA_SERVING_H

#include "arena/device/served.h"

/* The arena of the current device, made if need be; NULL: the driver serves. */
struct vs_arena *vs_served_here(struct vs_served **served);
/* The same for CONTEXT, which need not be current. */
struct vs_arena *vs_served_of(CUcontext context, struct vs_served **served);
/* Fills G with what a request may have changed of what ARENA holds. */
static inline void vs_served_note(struct vs_given *g, const struct vs_served *s, const struct vs_arena *arena)
{
    g->device = s->cuda.device;
    g->change = s->changes_before + vs_arena_changes(arena);
}
/* Adds the block that was given. */
static inline void vs_served_gave(struct vs_given *g, CUcontext context)
{
    g->space = VS_SPACE_ARENA;
    g->context = context;
}

/* holds.c: what arenas hold and their figures, as provider.h has them */
bool vs_served_holds(int device, struct vs_holding *h);
bool vs_served_figures(int device, bool at_once, uint64_t figure[VS_FIGURE_END]);
bool vs_served_ended(int device, uint64_t figure[VS_FIGURE_END]);
/* S's arena was made and is about to be published; is not published any more and about to end. */
void vs_served_holds_begin(struct vs_served *s);
void vs_served_holds_end(struct vs_served *s, struct vs_arena *arena);

/* ---- requests, as provider.h has them ---- */

bool vs_served_alloc(struct vs_given *g, CUdeviceptr *out, size_t size); /* arenas.c */
bool vs_served_alloc_rows(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                          unsigned int element);
bool vs_served_shortage(void);
bool vs_served_free(struct vs_given *g, CUdeviceptr address); /* free.c */
bool vs_served_alloc_ordered(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                             CUmemoryPool pool); /* streams.c */
bool vs_served_free_ordered(struct vs_given *g, CUdeviceptr address, CUstream stream);
bool vs_served_block_of(CUdeviceptr address, struct vs_owned *block); /* queries.c */

/* ---- functions in the place of the driver's own, file by file ---- */

extern const struct vs_stand_in vs_stand_ins_primary[]; /* arenas.c */
extern const struct vs_stand_in vs_stand_ins_peers[];
extern const struct vs_stand_in vs_stand_ins_streams[];  /* streams.c */
extern const struct vs_stand_in vs_stand_ins_captures[]; /* captures.c */
extern const struct vs_stand_in vs_stand_ins_pools[];    /* pools.c */
extern const struct vs_stand_in vs_stand_ins_contexts_ended[];
extern const struct vs_stand_in vs_stand_ins_contexts[]; /* contexts.c */
extern const struct vs_stand_in vs_stand_ins_queries[];  /* queries.c */

/* free.c: frees BLOCK on QUEUE for the program; its export ends, and the figures fall. */
CUresult vs_served_take_back(struct vs_served *s, struct vs_arena *arena, const struct vs_arena_block *block,
                             uint32_t queue, unsigned flags);

/* streams.c: the queue of a stream of the arena's own context, whichever is current; VS_ARENA_ANY where
 * it has none.  OPEN: gives it one. */
uint32_t vs_served_stream_queue(struct vs_served *s, CUstream stream, bool open);
/* pools.c */
void vs_served_look_at_pool(struct vs_served *s);

extern uint32_t vs_served_captures; /* of streams, under way; atomic */
/* captures.c: whether any stream is being captured */
static inline bool vs_captures(void)
{
    /* relaxed: who captures and allocates in another thread orders the two himself */
    return __atomic_load_n(&vs_served_captures, __ATOMIC_RELAXED) != 0;
}
/* The capture of STREAM, or of all streams of CONTEXT, has ended. */
void vs_capture_ended(CUstream stream);
void vs_captures_forget(CUcontext context);

/* contexts.c: the contexts beside the arena's own whose work may touch its memory. */
extern const struct vs_backing_others vs_reach;
/* CONTEXT, or (NULL) the primary one of DEVICE, is about to end: when this returns nobody uses it.  Then
 * whether it has. */
void vs_reach_ending(CUcontext context, CUdevice device);
void vs_reach_ended(CUcontext context, CUdevice device, bool gone);

#endif
