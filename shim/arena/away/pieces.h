/*
 * pieces.h - which runs of chunks go, of all arenas or of some blocks, and where each one's contents lie on
 * the host.
 *
 * The lists lie in pages of their own.  One thread at a time builds or ends them; vs_pieces_touch alone is
 * called by others, who keep the lists from ending by being inside the gate.
 */
#ifndef VS_ARENA_AWAY_PIECES_H
#define VS_ARENA_AWAY_PIECES_H

#include "move.h"
#include "trace/control.h"

struct vs_pieces {
    struct vs_piece *piece; /* by device, and by address */
    size_t count, room;
    struct vs_control_block *block; /* those that left, by address; NULL: the arenas are closed */
    size_t blocks, block_room;
    uint64_t bytes;
    struct vs_arena *arena[VS_SERVED_DEVICES]; /* whose pieces these are, NULL: none */
    uint32_t number[VS_SERVED_DEVICES];        /* struct vs_served: a later arena has another one */
};

/* The arena of DEVICE that P has pieces of, where it is still there.  The caller is inside (vs_served_in). */
struct vs_arena *vs_pieces_arena(const struct vs_pieces *p, int device);

/* Closes every arena and lists all that they hold.  0, or a status of backing.h: then none is closed. */
int vs_pieces_of_all(struct vs_pieces *p);
/* Has those of BLOCKS leave that can, and lists what of them can be away; 0, or OUT_OF_MEMORY: then none
 * left. */
int vs_pieces_of_blocks(struct vs_pieces *p, const struct vs_control_block *blocks, size_t count);
/* The pieces of DEVICE: the first, and how many. */
struct vs_piece *vs_pieces_on(const struct vs_pieces *p, int device, size_t *count);
/* All is on the device again: the arenas are opened, the blocks return.  The lists end. */
void vs_pieces_end(struct vs_pieces *p);

/* Whether SIZE bytes from ADDRESS on (0: ADDRESS itself) lie in a block that left, or in a closed arena. */
bool vs_pieces_touch(const struct vs_pieces *p, uint64_t address, uint64_t size);

#endif
