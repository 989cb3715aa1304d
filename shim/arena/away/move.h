/*
 * move.h - copies an arena's chunks to the host and back, and waits for a device to be idle before.
 *
 *      out   copy 3 │ copy 4 │ copy 5          the copy engine
 *            unmap 1│ unmap 2│ unmap 3         this thread
 *
 * So the driver's calls for each chunk cost no time of their own where they are faster than the link.  The
 * caller is inside the arena (vs_served_in), and nothing gives the device work that touches the pieces.
 */
#ifndef VS_ARENA_AWAY_MOVE_H
#define VS_ARENA_AWAY_MOVE_H

#include <stddef.h>

#include "arena/core/arena.h"
#include "arena/device/served.h"

#define VS_PIECE_LONGEST (32ull << 20) /* bytes */

struct vs_piece {
    struct vs_arena_run run;
    uint64_t offset; /* of its contents in the host's store */
    int device;
};

/* Waits until the device has done all that it was given and may touch the memory of S.  NOT_READY: it has not
 * by UNTIL (of vs_clock_ns), or a capture is under way. */
CUresult vs_move_idle(struct vs_served *s, uint64_t until);

/* What the driver says is free on the device of S; 0: it does not say. */
uint64_t vs_move_room(struct vs_served *s);

/* Moves COUNT pieces of one arena to the memory at BASE.  *DONE: so many are away, the first ones; the others
 * are as they were. */
CUresult vs_move_out(struct vs_served *s, struct vs_arena *arena, const struct vs_piece *piece, size_t count,
                     char *base, size_t *done);
/* Moves them back.  After an error all are away as before. */
CUresult vs_move_in(struct vs_served *s, struct vs_arena *arena, const struct vs_piece *piece, size_t count,
                    char *base);
/* Takes them away again after vs_move_in, nothing of them having changed. */
void vs_move_drop(struct vs_arena *arena, const struct vs_piece *piece, size_t count);

#endif
