/*
 * internal.h - the functions that the core's files share.  Only these files include it, and tests that look
 * inside.
 *
 * A part calls those above it in this list and none below.
 *
 *      part            does                                                         files
 *      order           says which free is complete for which queue                  order.c
 *      free extents    finds free extents by size                                   free_extents.c
 *      handles         makes, maps and releases the physical memory of chunks       handles.c
 *      chunks          says which are idle, who used them last, which aliases map   chunks.c, atoms.c,
 *                      them                                                         alias_classes.c
 *      extents         cuts and joins what lies in a window                         extents.c
 *      aliases         finds, uses and removes alias mappings                       aliases.c
 *      sharing         says whose a free extent is and what must be waited for      sharing.c
 *      frees           carries frees out, at once or once others are done           deferred.c
 *      waiting         waits for streams and the device                             waiting.c
 *      supply          creates chunks and gives them back, makes alias mappings     supply.c, trim.c,
 *                                                                                   split.c, alias_build.c
 *      away            sends chunks away and fetches them, says which can be        sending.c, away.c
 *      parking         gives others the chunks of blocks that left, and takes them  park.c, replace.c
 *                      back
 *      policy          chooses which of these serves a request                      policy.c
 *      arena           has the functions of arena.h                                 arena.c, queues.c
 *
 * Beside them are the books: meta.c (their memory), blocks.c (live blocks by address).
 *
 * Errors: what can fail (the backing, memory for the books) is done first; from the first change to the last
 * of an operation nothing can fail.
 */
#ifndef VS_ARENA_CORE_INTERNAL_H
#define VS_ARENA_CORE_INTERNAL_H

#include "state.h"

/* ---- free_extents.c ---- */

void vs_free_extents_insert(struct vs_arena *a, struct free_extents *free_extents, uint32_t extent);
void vs_free_extents_remove(struct vs_arena *a, struct free_extents *free_extents, uint32_t extent);
/* The smallest of at least SIZE bytes, of those the lowest. */
uint32_t vs_free_extents_fit(const struct vs_arena *a, const struct free_extents *free_extents,
                             uint64_t size);

/* ---- extents.c ---- */

/* Room for all extents that any change of now BLOCKS live blocks, ALIASES alias mappings and SLOTS heap slots
 * can need. */
int vs_extents_reserve(struct vs_arena *a, uint64_t blocks, uint64_t aliases, uint64_t slots);
uint32_t vs_extent_at(const struct vs_arena *a, uint64_t place); /* the extent that holds PLACE */
/* As a free extent it joins one of QUEUE's. */
uint32_t vs_extent_append(struct vs_arena *a, uint32_t heap, uint32_t slots, enum extent_state state,
                          uint32_t queue);
/* A free extent of QUEUE's that joins no other. */
void vs_extent_append_apart(struct vs_arena *a, uint32_t heap, uint32_t slots, uint32_t queue);
uint32_t vs_extent_cut(struct vs_arena *a, uint32_t extent, uint64_t place); /* what begins at PLACE */
uint32_t vs_extent_give(struct vs_arena *a, uint32_t extent,
                        enum extent_state state); /* free extents join it */
void vs_extent_put(struct vs_arena *a,
                   uint32_t extent); /* puts what is left of a free extent back, without joining it */
void vs_extent_take(struct vs_arena *a, uint32_t extent); /* out of its tree and its list */
void vs_extent_list(struct vs_arena *a,
                    uint32_t extent); /* into the list, as the newest that is left to a queue */
/* Whole slots of free extents: SHADOW becomes FREE, FREE becomes SHADOW or VACANT, VACANT becomes FREE.  A
 * free extent is QUEUE's from now on. */
void vs_extent_change(struct vs_arena *a, uint32_t slot, uint32_t count, enum extent_state state,
                      uint32_t queue);

/* ---- handles.c ---- */

struct run vs_group(const struct vs_arena *a, uint32_t chunk); /* alone: of one */
bool vs_group_idle(const struct vs_arena *a, struct run group);
int vs_handle_create(struct vs_arena *a, struct run group); /* the chunks have one handle */
void vs_handle_enter(struct vs_arena *a, struct run group, uint64_t handle);
uint64_t vs_handle_leave(struct vs_arena *a, struct run group);
/* Of chunks that are mapped nowhere, whole groups.  How many are released: what cannot be is counted as lost.
 */
uint64_t vs_handles_release(struct vs_arena *a, struct run chunks);
/* Maps chunks, whole groups, *DONE bytes behind PLACE, and adds to *DONE what is mapped. */
int vs_handles_map(struct vs_arena *a, uint64_t place, struct run chunks, uint64_t *done);
/* Gives access to the *DONE bytes from PLACE on.  After an error, also if STATUS is one already, they are
 * unmapped; *DONE: what could not be. */
int vs_handles_mapped(struct vs_arena *a, uint64_t place, int status, uint64_t *done);

/* ---- chunks.c ---- */

void vs_chunks_claim(struct vs_arena *a, uint32_t first, uint32_t end);
/* Idle from now on, after frees of USERS (bits) up to SEQ. */
void vs_chunks_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t users, uint64_t seq);
/* Two free extents were joined at BOUND: the chunk around it may be idle now. */
void vs_chunks_joined(struct vs_arena *a, const struct extent *free_extent, uint64_t bound);
/* Whether all work that used the chunk is done. */
bool vs_chunk_complete(const struct vs_arena *a, uint32_t chunk);
/* CHUNK is idle from now on, and maybe some behind it. */
void vs_chunks_idle_from(struct vs_arena *a, uint32_t chunk);
/* The first idle ones at or after CHUNK, in order of their places, that lie side by side in one heap and
 * share no handle with one in use: MOST at most, at least one.  None: the count is 0. */
struct run vs_chunks_next_idle(struct vs_arena *a, uint32_t chunk, uint32_t most);
/* How many of the idle chunks, from the first on, were used last as the first was. */
uint32_t vs_chunks_alike(const struct vs_arena *a, struct run run);
struct idle_count {
    uint32_t ready, others; /* chunks that QUEUE may use at once, and those that it would have to wait for */
};
/* Stops where there are ENOUGH of both, READY: of the former. */
struct idle_count vs_chunks_count(struct vs_arena *a, uint32_t queue, uint32_t enough, bool ready);

/* ---- atoms.c ---- */

/* Room to add one alias mapping to each of the chunks; atoms end at FIRST and END afterwards. */
int vs_atoms_prepare(struct vs_arena *a, uint32_t first, uint32_t end);
/* Undoes it, where no alias mapping was added. */
void vs_atoms_cancel(struct vs_arena *a, uint32_t first, uint32_t end);
void vs_atoms_add(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t alias);
/* FIRST and END are bounds of atoms, or `vs_atoms_prepare` was called for them. */
void vs_atoms_remove(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t alias);
int vs_atoms_split(struct vs_arena *a, uint32_t chunk); /* an atom begins there, if any is there */
/* COUNT chunks from either on have the alias mappings of the others; atoms end where they do. */
void vs_atoms_exchange(struct vs_arena *a, uint32_t first, uint32_t second, uint32_t count);
uint32_t vs_atoms_next(const struct vs_arena *a, uint32_t chunk,
                       uint32_t end); /* the next aliased one, or END */

/* ---- aliases.c ---- */

/* The shortest open one of at least COUNT chunks, the oldest of equal ones; AFTER: the next one
 * after that. */
uint32_t vs_alias_find(struct vs_arena *a, uint32_t count, uint32_t after);
/* The position of the chunk in the alias mapping, which has it. */
uint32_t vs_alias_position(const struct alias *v, uint32_t chunk);
/* The chunks that are mapped at SLOT, of any window, and behind it, as many as have their primary mappings
 * side by side: MOST at most, at least one. */
struct run vs_chunks_mapped_at(const struct vs_arena *a, uint32_t slot, uint32_t most);
/* A live block of SIZE bytes of QUEUE's in it: its extent. */
/* The heap shows that an alias mapping has the chunk. */
void vs_alias_show(struct vs_arena *a, uint32_t chunk);
uint32_t vs_alias_claim(struct vs_arena *a, uint32_t alias, uint32_t queue, uint64_t size);
void vs_alias_release(struct vs_arena *a, uint32_t alias);
/* Chunks of COUNT heaps that are hidden are so no more: where they are idle the heaps have free extents. */
void vs_show_hidden(struct vs_arena *a, uint32_t heap, uint32_t count);
/* Whether all work that used it through its own addresses is done. */
bool vs_alias_complete(struct vs_arena *a, struct alias *v);
/* Unmaps all but the first KEEP chunks; 0 removes the alias mapping. */
int vs_alias_shorten(struct vs_arena *a, uint32_t alias, uint32_t keep);
/* Removes alias mappings until there are addresses for COUNT chunks and they can be mapped: the longest
 * unused first, waiting for their work if need be. */
void vs_aliases_make_room(struct vs_arena *a, uint32_t count);
/* An alias mapping of COUNT idle chunks, so many there must be; READY: only of those that QUEUE may use at
 * once. */
int vs_alias_build(struct vs_arena *a, uint32_t queue, uint32_t count, bool ready, uint32_t *alias);
/* Adds N chunks from FIRST on to the RUNS that RUN (NULL: nowhere) has; how many runs they are then.  LAST:
 * what was added before, or NIL. */
uint32_t vs_run_add(const struct vs_arena *a, struct run *run, uint32_t runs, uint32_t first, uint32_t n,
                    uint32_t last);
void vs_alias_idle_add(struct vs_arena *a, uint32_t alias); /* as the youngest of the idle ones */
void vs_alias_idle_remove(struct vs_arena *a, uint32_t alias);

/* ---- alias_classes.c ---- */

int vs_class_join(struct vs_arena *a, uint32_t count, uint32_t *class); /* with room for one more */
void vs_class_add(struct vs_arena *a, uint32_t class, uint32_t alias);
void vs_class_remove(struct vs_arena *a, uint32_t alias);
/* Closes an open one, which is claimed, or opens it: it may be that no chunk of it is in use. */
void vs_class_flip(struct vs_arena *a, struct alias *v);
void vs_class_idle(struct vs_arena *a, uint32_t chunk); /* to those that watch the chunk */
/* Those that watch the chunk watch the other one, which is idle. */
void vs_class_move(struct vs_arena *a, uint32_t chunk, uint32_t other);

/* ---- order.c ---- */

void vs_order_freed(struct vs_arena *a, uint32_t queue, uint64_t bytes); /* before the chunks are released */
/* Adds what QUEUE must wait for where the frees of USERS (bits) up to SEQ were the last; whether there is
 * any.
 */
bool vs_order_need(const struct vs_arena *a, uint32_t queue, uint32_t users, uint64_t seq,
                   uint64_t need[QUEUES]);
int vs_order_record(struct vs_arena *a, uint32_t queue);
void vs_order_look(struct vs_arena *a, uint32_t queue);               /* at all events; QUEUE is short */
void vs_order_done(struct vs_arena *a, uint32_t queue, uint64_t seq); /* is complete */
void vs_order_all_done(struct vs_arena *a, uint64_t seq);             /* of each queue */
/* The stream of QUEUE waits for the frees of each queue q up to need[q], where they are not complete
 * by now. */
int vs_order_wait(struct vs_arena *a, uint32_t queue, const uint64_t need[QUEUES]);
bool vs_order_await_event(struct vs_arena *a); /* for the oldest of the device; whether there was one */

/* ---- waiting.c ---- */

void vs_synchronize_poll(struct vs_arena *a,
                         uint32_t queue); /* notes what is complete now, where QUEUE is short of memory */
int vs_synchronize(struct vs_arena *a);   /* the host waits for all */
/* The same, and meanwhile others have the arena: the device may be waiting for one of them, and so for good
 * (cuLaunchHostFunc, and what such a function waits for).  Nothing that was read before holds after it. */
int vs_synchronize_outside(struct vs_arena *a);
bool vs_synchronize_event(struct vs_arena *a); /* for the oldest event of the device; whether there was one */
void vs_synchronized(struct vs_arena *a, uint64_t seq); /* somebody has waited: all is complete up to SEQ */

/* ---- queues.c ---- */

void vs_queue_begin(struct vs_arena *a, uint32_t queue);

/* ---- deferred.c ---- */

void vs_free_block(struct vs_arena *a, uint32_t extent); /* at once */
int vs_deferred_add(struct vs_arena *a, uint32_t extent,
                    uint32_t queues); /* bits, or ALL_QUEUES: the device */
void vs_deferred_poll(struct vs_arena *a);
void vs_deferred_synchronized(struct vs_arena *a, uint64_t seq); /* the device is done up to SEQ */
/* Out of the backlog for the device, complete: its oldest. */
void vs_deferred_take_first(struct vs_arena *a);
uint64_t vs_deferred_most(const struct vs_arena *a);    /* bytes that may be in the backlog */
uint64_t vs_deferred_allowed(const struct vs_arena *a); /* bytes that may be held because of them */

/* So many of those for the device are freed that no more than vs_deferred_most are left, as far as they are
 * complete; WAIT: until they are. */
void vs_deferred_shorten(struct vs_arena *a, bool wait);
/* The oldest of them; false: there is none, or none that is complete and can be waited for. */
bool vs_deferred_next(struct vs_arena *a, bool wait);
void vs_deferred_waiting_free(struct vs_arena *a); /* after one was added for the device */
void vs_deferred_miss(struct vs_arena *a);         /* a request found no free extent */
void vs_deferred_trough(struct vs_arena *a);       /* at a request, where trough.now says so */

/* ---- supply.c, trim.c ---- */

/* Chunks to create for SIZE bytes */
uint32_t vs_supply_need(const struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size);
/* A free extent of SIZE bytes that QUEUE may use; TAIL: together with the one at the top of the heap. */
int vs_supply_grow(struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size, bool tail);
int vs_supply_more(struct vs_arena *a, uint32_t heap, uint32_t count); /* COUNT idle chunks */
int vs_supply_again(struct vs_arena *a, struct run chunks); /* those that have just been given back */
int vs_supply_window(struct vs_arena *a, uint32_t heap);    /* its addresses */
/* False: the driver says, or said a few questions ago, that COUNT chunks, with HEADROOM bytes left, are more
 * than it has. */
bool vs_supply_has_room(struct vs_arena *a, uint32_t count, uint64_t headroom);
/* Keeps free chunks out of use, as a block that nobody frees: they are not mapped, or cannot be again. */
void vs_supply_shut_off(struct vs_arena *a, uint32_t slot, uint32_t count);
/* What is mapped there is not what should be: the parked blocks that lie there stay so for good. */
void vs_supply_give_up(struct vs_arena *a, uint64_t place, uint32_t count);
/* Nothing is mapped where the chunk, which is idle, has its primary mapping. */
void vs_supply_lose_home(struct vs_arena *a, uint32_t chunk);
/* Counts so many chunks and mappings of chunks as new. */
void vs_supply_count(struct vs_arena *a, uint64_t count, uint64_t mappings);
/* Gives back idle chunks whose work is done until at most KEEP are idle. */
void vs_supply_give_back(struct vs_arena *a, uint64_t keep);
bool vs_trim_group(struct vs_arena *a, struct run group); /* gives it back; false: it cannot be */
/* Removes the chunks of QUEUE from all alias mappings; NOT_READY where one is in use. */
int vs_trim_aliases(struct vs_arena *a, uint32_t queue);

void vs_surplus_begin(struct vs_arena *a);
void vs_surplus_look(struct vs_arena *a); /* every now and then, after a free */

/* Each of the chunks, which are idle, has a handle of its own from now on.  NOT_COMPLETE: the work of their
 * group is not done.  After an error all is as it was, or chunks were given back. */
#define NOT_COMPLETE (-2)
int vs_split(struct vs_arena *a, struct run chunks);

/* ---- sending.c, away.c ---- */

/* What lies side by side at these slots, of any window, is sent away, or fetched: those chunks that are not
 * away, or are. */
int vs_send_slots(struct vs_arena *a, struct run slots);
int vs_fetch_slots(struct vs_arena *a, struct run slots);
/* Of the slots from SLOT to END, which have chunks, the first that are not away, side by side; none: the
 * count is 0. */
struct run vs_slots_mapped(const struct vs_arena *a, uint32_t slot, uint32_t end);
/* Whether a chunk at the slots is away. */
bool vs_slots_away(const struct vs_arena *a, struct run slots);
uint64_t vs_away_idle(const struct vs_arena *a); /* chunks that are idle and away */

/* The block that begins there and left, or NIL. */
uint32_t vs_left_at(const struct vs_arena *a, uint64_t address);
struct run vs_block_slots(const struct vs_arena *a, const struct extent *t); /* where a block lies */
/* Whether nothing lies in the chunk but blocks that left; PARKED: whether nothing lies but parked blocks
 * where it has its primary mapping. */
bool vs_have_left(const struct vs_arena *a, uint32_t chunk, bool parked);

/* ---- park.c, replace.c ---- */

void vs_parked_free(struct vs_arena *a, const struct extent *t); /* the block's free is asked for */
/* Idle chunks come into the place of those of a parked block in which another block is alive.  NOT_READY:
 * the device is to be waited for.  After an error, too, all is as it should be. */
int vs_replace_taken(struct vs_arena *a, uint32_t extent);

/* ---- policy.c ---- */

/* SYNCHRONIZED: the device has been waited for.  Else NOT_SYNCHRONIZED, where that has to be done first. */
#define NOT_SYNCHRONIZED (-1)
int vs_policy_place(struct vs_arena *a, uint32_t queue, uint64_t size, bool synchronized, uint32_t *extent);

/* ---- sharing.c ---- */

/* A block of SIZE bytes in the free extent: its extent.  What is left of the free extent stays one, above and
 * below. */
uint32_t vs_free_extent_take(struct vs_arena *a, uint32_t free_extent, uint64_t size);
void vs_free_extent_free(struct vs_arena *a, uint32_t extent, uint32_t queue); /* a block becomes one */
/* Free extents that were left to their queues become all queues': those whose last free was KEEP
 * frees ago. */
void vs_free_extents_share(struct vs_arena *a, uint64_t keep);
/* The free extent that QUEUE takes for SIZE bytes, waits included; NIL where none fits or none can be waited
 * for. */
uint32_t vs_free_extent_find(struct vs_arena *a, uint32_t heap, uint32_t queue, uint64_t size);
/* Whether QUEUE may use the free extent at the top of the heap, if there is one; waits included. */
bool vs_free_extent_at_top(struct vs_arena *a, uint32_t heap, uint32_t queue);

/* ---- blocks.c ---- */

int vs_blocks_reserve(struct vs_arena *a);
void vs_blocks_put(struct vs_arena *a, uint64_t address, uint32_t extent);
uint32_t vs_blocks_get(const struct vs_arena *a, uint64_t address);
void vs_blocks_remove(struct vs_arena *a, uint64_t address);
/* The place of an address; false where it is in no window. */
bool vs_place_at(const struct vs_arena *a, uint64_t address, uint64_t *place);
/* The extent of the live block that begins at ADDRESS, or NIL. */
uint32_t vs_live_at(const struct vs_arena *a, uint64_t address);

#endif
