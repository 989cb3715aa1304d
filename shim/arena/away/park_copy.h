/*
 * park_copy.h - a block's way to the host and back on a stream of its device's own, ordered by events alone.
 *
 * The caller holds the lock of back.h and is inside the arenas (vs_served_in).
 */
#ifndef VS_ARENA_AWAY_PARK_COPY_H
#define VS_ARENA_AWAY_PARK_COPY_H

#include "watched.h"

/* Makes the device's copy stream and its queue in the arena; false: it cannot have them, and nothing is
 * parked. */
bool vs_park_copies(struct vs_served *s, struct vs_arena *arena);
/* The context of S has ended, and its stream with it. */
void vs_park_copies_end(struct vs_served *s);

/* What is copied out of S from now on waits for all that its context was given so far. */
bool vs_park_fence(struct vs_served *s);

/* Blocks that are parked now, in all and those whose free was asked for; that are back, and whose copies may
 * not be done. */
extern uint32_t vs_park_parked, vs_park_freed, vs_park_coming;

/* Copies W to the store, and parks it.  False: it stays where it is. */
bool vs_park_out(struct vs_watched *w);
/* Takes W back, and copies in what of it the store has; `back` says when it is there.  As vs_arena_unpark,
 * and NOT_READY for one whose free was asked for until it is there: then it can be tried again. */
int vs_park_in(struct vs_watched *w);
/* The free of W, which is here and about to be freed, waits for its copy, unless its own stream does. */
void vs_park_before_free(struct vs_watched *w);
/* Nobody needs the contents of W: the store keeps only those of chunks that are its neighbours' too. */
void vs_park_drop(struct vs_watched *w);
/* W is not watched any more; nothing of it is kept. */
void vs_park_forget(struct vs_watched *w);
/* Whether the device has made all copies so far. */
bool vs_park_is_idle(struct vs_served *s);
struct vs_host_store;
/* As vs_host_unlock, in the context of S. */
void vs_park_unlock(struct vs_served *s, struct vs_host_store *part);
/* Locks so much of the host's memory for S beforehand.  NULL, or why not (in the caller's WHY). */
const char *vs_park_room(struct vs_served *s, uint64_t bytes, char *why, size_t room);
/* What STREAM is given next waits until W is there.  False: no stream can, and it is not there yet. */
bool vs_park_wait(struct vs_watched *w, CUstream stream);

/* ---- time, by the device ---- */

/* An event of S, recorded on STREAM now; NULL: none can be. */
CUevent vs_park_stamp(struct vs_served *s, CUstream stream);
/* Whether the device is there.  Does not wait. */
bool vs_park_reached(struct vs_served *s, CUevent event);
/* Milliseconds from FROM to TO, which are destroyed; waits for both.  Below 0: unknown. */
float vs_park_between(struct vs_served *s, CUevent from, CUevent to);
/* Bytes in a second from W to the store, which has room, tried with up to MOST bytes; 0: unknown. */
double vs_park_rate(const struct vs_watched *w, uint64_t most);

#endif
