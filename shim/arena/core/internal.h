/*
 * internal.h - the functions that the arena's own files share.  Only they include it, and tests that look
 * inside.
 *
 * A part knows those above it in this list and none below: no function here calls one of a later part.
 *
 *      part         knows                                                       file
 *      order        which free is complete for whom                             order.c
 *      holes        trees of tiles by size                                      holes.c
 *      granules     in use or not, last used by whom, aliased by which views    granules.c
 *                                                                               atoms.c, view_classes.c
 *      tiles        what lies where in a window, cutting and joining            tiles.c
 *      views        second mappings: finding, using, removing                   views.c
 *      sharing      whose a hole is, and what must be waited for                sharing.c
 *      frees        carried out, at once or once others are done                deferred.c
 *      waiting      for streams and the device, and what that sets free         settle.c, pace.c
 *      supply       creating granules, giving them back                         supply.c, trim.c
 *                   and making views                                            surplus.c, view_build.c
 *      policy       which of these a request is served from                     policy.c
 *      arena        the functions of arena.h                                    arena.c, lanes.c
 *
 * Beside them are the books: meta.c (their memory), blocks.c (live blocks by address).
 *
 * Errors.  What can fail (the backing, memory for the books) is done first; from the first change to the last
 * of an operation nothing can fail.
 */
#ifndef VS_ARENA_CORE_INTERNAL_H
#define VS_ARENA_CORE_INTERNAL_H

#include "state.h"

/* ---- holes.c ---- */

void vs_holes_insert(struct vs_arena *a, struct holes *holes, uint32_t tile);
void vs_holes_remove(struct vs_arena *a, struct holes *holes, uint32_t tile);
/* The smallest of at least SIZE bytes, of those the lowest. */
uint32_t vs_holes_fit(const struct vs_arena *a, const struct holes *holes, uint64_t size);

/* ---- tiles.c ---- */

/* Room for all tiles that any change of now LIVE blocks, VIEWS views and SLOTS heap slots can need. */
int vs_tiles_reserve(struct vs_arena *a, uint64_t blocks, uint64_t views, uint64_t slots);
uint32_t vs_tile_at(const struct vs_arena *a, uint64_t place); /* the tile that holds PLACE */
/* As a hole it joins one of LANE's. */
uint32_t vs_tile_append(struct vs_arena *a, uint32_t heap, uint32_t slots, enum tile_state state,
                        uint32_t lane);
/* A hole of LANE's that joins no other. */
void vs_tile_append_apart(struct vs_arena *a, uint32_t heap, uint32_t slots, uint32_t lane);
uint32_t vs_tile_cut(struct vs_arena *a, uint32_t tile, uint64_t place);         /* what begins at PLACE */
uint32_t vs_tile_give(struct vs_arena *a, uint32_t tile, enum tile_state state); /* holes join it */
void vs_tile_put(struct vs_arena *a, uint32_t tile);  /* as it is: what is left of a hole */
void vs_tile_take(struct vs_arena *a, uint32_t tile); /* out of its tree, and list */
void vs_tile_list(struct vs_arena *a, uint32_t tile); /* as the newest that is one lane's */
/* Whole slots of holes: SHADOW becomes FREE, FREE becomes SHADOW or VACANT, VACANT becomes FREE.  A hole is
 * LANE's from now on. */
void vs_tile_change(struct vs_arena *a, uint32_t slot, uint32_t count, enum tile_state state, uint32_t lane);

/* ---- granules.c ---- */

void vs_granules_claim(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t self);
/* Idle from now on, after frees of USERS (bits) up to SEQ. */
void vs_granules_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t users, uint64_t seq,
                         uint32_t self);
/* Two holes were joined at a bound: the granule there may be idle now. */
void vs_granules_joined(struct vs_arena *a, const struct tile *hole, uint64_t bound);
/* Is all work that used it done? */
bool vs_granule_complete(const struct vs_arena *a, uint32_t granule);
/* The first idle one at or after GRANULE, in order of their places; NIL where there is none. */
uint32_t vs_granules_next_idle(const struct vs_arena *a, uint32_t granule);
struct idle_count {
    uint32_t ready, others; /* which LANE may use at once; which it would have to wait for */
};
struct idle_count vs_granules_count(const struct vs_arena *a, uint32_t lane);

/* ---- atoms.c ---- */

/* Room to add one view to each of the granules; atoms end at FIRST and END afterwards. */
int vs_atoms_prepare(struct vs_arena *a, uint32_t first, uint32_t end);
/* Undoes it, where no view was added. */
void vs_atoms_cancel(struct vs_arena *a, uint32_t first, uint32_t end);
void vs_atoms_add(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t view);
/* FIRST and END are bounds of atoms, or `vs_atoms_prepare` was called for them. */
void vs_atoms_remove(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t view);
int vs_atoms_split(struct vs_arena *a, uint32_t granule); /* an atom begins there, if any is there */
uint32_t vs_atoms_next(const struct vs_arena *a, uint32_t granule,
                       uint32_t end); /* the next aliased one, or END */

/* ---- views.c ---- */

/* The shortest open one of at least COUNT granules, the oldest of equal ones; AFTER: the next one after that.
 */
uint32_t vs_view_find(const struct vs_arena *a, uint32_t count, uint32_t after);
/* A live block of SIZE bytes of LANE's in it: its tile. */
uint32_t vs_view_claim(struct vs_arena *a, uint32_t view, uint32_t lane, uint64_t size);
void vs_view_release(struct vs_arena *a, uint32_t view);
/* Whether all work that used it through its own addresses is done. */
bool vs_view_complete(struct vs_arena *a, struct view *v);
/* Unmaps all but the first KEEP granules; 0 removes the view. */
int vs_view_shorten(struct vs_arena *a, uint32_t view, uint32_t keep);
/* Removes views until there are addresses for COUNT granules and they can be mapped: the longest unused
 * first, waiting for their work if need be. */
void vs_views_make_room(struct vs_arena *a, uint32_t count);
/* A view of COUNT idle granules, so many there must be; READY: only of those that LANE may use at once. */
int vs_view_build(struct vs_arena *a, uint32_t lane, uint32_t count, bool ready, uint32_t *view);
void vs_view_idle_add(struct vs_arena *a, uint32_t view); /* as the youngest of the idle ones */
void vs_view_idle_remove(struct vs_arena *a, uint32_t view);

/* ---- view_classes.c ---- */

int vs_class_join(struct vs_arena *a, uint32_t count, uint32_t *class); /* with room for one more */
void vs_class_add(struct vs_arena *a, uint32_t class, uint32_t view);
void vs_class_remove(struct vs_arena *a, uint32_t view);
void vs_view_refresh(struct vs_arena *a, struct view *v); /* is it open? */

/* ---- order.c ---- */

void vs_order_freed(struct vs_arena *a, uint32_t lane, uint64_t bytes); /* before the granules are released */
/* Adds what LANE must wait for where the frees of USERS (bits) up to SEQ were the last; whether there is any.
 */
bool vs_order_need(const struct vs_arena *a, uint32_t lane, uint32_t users, uint64_t seq,
                   uint64_t need[LANES]);
int vs_order_mark(struct vs_arena *a, uint32_t lane);
void vs_order_look(struct vs_arena *a, uint32_t lane);               /* at all marks; LANE is short */
void vs_order_done(struct vs_arena *a, uint32_t lane, uint64_t seq); /* is complete */
void vs_order_all_done(struct vs_arena *a, uint64_t seq);            /* of each lane */
/* The stream of LANE waits for the frees of each lane q up to need[q], where they are not complete by now. */
int vs_order_wait(struct vs_arena *a, uint32_t lane, const uint64_t need[LANES]);
bool vs_order_await_mark(struct vs_arena *a); /* for the oldest of the device; whether there was one */

/* ---- settle.c ---- */

void vs_settle_poll(struct vs_arena *a, uint32_t lane); /* what is complete now; LANE is short */
int vs_settle(struct vs_arena *a);                      /* the host waits for all */
/* The same, and meanwhile others have the arena: the device may be waiting for one of them, and so for good
 * (cuLaunchHostFunc, and what such a function waits for).  Nothing that was read before holds after it. */
int vs_settle_outside(struct vs_arena *a);
bool vs_settle_await(struct vs_arena *a); /* for the oldest mark of the device; whether there was one */
void vs_settled(struct vs_arena *a, uint64_t seq); /* somebody has waited: all is complete up to SEQ */

/* ---- lanes.c ---- */

int vs_lane_begin(struct vs_arena *a, uint32_t lane);

/* ---- deferred.c ---- */

void vs_free_block(struct vs_arena *a, uint32_t tile);                  /* at once */
int vs_deferred_add(struct vs_arena *a, uint32_t tile, uint32_t lanes); /* bits, or ALL_LANES: the device */
void vs_deferred_poll(struct vs_arena *a);
void vs_deferred_settled(struct vs_arena *a, uint64_t seq); /* the device is done up to SEQ */
/* Out of the queue for the device, complete: its oldest. */
void vs_deferred_take_first(struct vs_arena *a);
uint64_t vs_deferred_most(const struct vs_arena *a);    /* bytes that may be in the queue */
uint64_t vs_deferred_allowed(const struct vs_arena *a); /* bytes that may be held because of them */

/* ---- pace.c ---- */

/* So many of those for the device are freed that no more than vs_deferred_most are left, as far as they are
 * complete; WAIT: until they are. */
void vs_deferred_shorten(struct vs_arena *a, bool wait);
/* The oldest of them; false: there is none, or none that is complete and can be waited for. */
bool vs_deferred_next(struct vs_arena *a, bool wait);
void vs_deferred_waiting_free(struct vs_arena *a); /* after one was added for the device */
void vs_deferred_miss(struct vs_arena *a);         /* a request found no hole */
void vs_deferred_ebb(struct vs_arena *a);          /* at a request, where ebb.now says so */

/* ---- supply.c, trim.c ---- */

/* Granules to create for SIZE bytes */
uint32_t vs_supply_need(const struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size);
/* A hole of SIZE bytes that LANE may use; TAIL: together with the one at the top of the heap. */
int vs_supply_grow(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size, bool tail);
int vs_supply_more(struct vs_arena *a, uint32_t heap, uint32_t count); /* COUNT idle granules */
int vs_supply_window(struct vs_arena *a, uint32_t heap);               /* its addresses */
/* Gives back idle granules whose work is done until at most KEEP are idle. */
void vs_supply_give_back(struct vs_arena *a, uint64_t keep);
/* Removes the granules of LANE from all views; NOT_READY where one is in use. */
int vs_trim_views(struct vs_arena *a, uint32_t lane);

/* ---- surplus.c ---- */

void vs_surplus_begin(struct vs_arena *a);
void vs_surplus_look(struct vs_arena *a); /* every now and then, after a free */

/* ---- policy.c ---- */

/* SETTLED: the device has been waited for.  Else NOT_SETTLED, where that has to be done first. */
#define NOT_SETTLED (-1)
int vs_policy_place(struct vs_arena *a, uint32_t lane, uint64_t size, bool settled, uint32_t *tile);

/* ---- sharing.c ---- */

/* A block of SIZE bytes in the hole: its tile.  What is left of the hole stays one, above and below. */
uint32_t vs_hole_take(struct vs_arena *a, uint32_t hole, uint64_t size);
void vs_hole_free(struct vs_arena *a, uint32_t tile, uint32_t lane); /* a block becomes one */
/* Holes that were left to their lanes become all lanes': those whose last free was KEEP frees ago. */
void vs_holes_share(struct vs_arena *a, uint64_t keep);
/* The hole that LANE takes for SIZE bytes, waits included; NIL where none fits or none can be waited for. */
uint32_t vs_hole_find(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size);
/* Whether LANE may use the hole at the top of the heap, if there is one; waits included. */
bool vs_hole_at_top(struct vs_arena *a, uint32_t heap, uint32_t lane);

/* ---- blocks.c ---- */

int vs_blocks_reserve(struct vs_arena *a);
void vs_blocks_put(struct vs_arena *a, uint64_t address, uint32_t tile);
uint32_t vs_blocks_get(const struct vs_arena *a, uint64_t address);
void vs_blocks_remove(struct vs_arena *a, uint64_t address);
/* lookup.c: the tile of the live block that begins at ADDRESS, or NIL. */
uint32_t vs_live_at(const struct vs_arena *a, uint64_t address);

#endif
