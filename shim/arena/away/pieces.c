/* pieces.c - see pieces.h. */
#define _GNU_SOURCE
#include "pieces.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/fork.h"

#define TRIES 100 /* to close an arena */

/* ---- lists ---- */

/* Room for one more of SIZE bytes each; NULL: there is none. */
static void *grown(void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return list;
    size_t more = *room != 0 ? 2 * *room : 4096;
    void *moved =
        list == NULL ? vs_map(more * size) : mremap(list, *room * size, more * size, MREMAP_MAYMOVE);
    if (moved == NULL || moved == MAP_FAILED)
        return NULL;
    *room = more;
    return moved;
}

static bool add_piece(struct vs_pieces *p, struct vs_arena_run run, int device)
{
    struct vs_piece *list = grown(p->piece, p->count, &p->room, sizeof *list);
    if (list == NULL)
        return false;
    p->piece = list;
    list[p->count++] = (struct vs_piece){.run = run, .device = device};
    return true;
}

static bool add_block(struct vs_pieces *p, struct vs_control_block block)
{
    struct vs_control_block *list = grown(p->block, p->blocks, &p->block_room, sizeof *list);
    if (list == NULL)
        return false;
    p->block = list;
    list[p->blocks++] = block;
    return true;
}

static void drop_lists(struct vs_pieces *p)
{
    if (p->piece != NULL)
        munmap(p->piece, p->room * sizeof *p->piece);
    if (p->block != NULL)
        munmap(p->block, p->block_room * sizeof *p->block);
    *p = (struct vs_pieces){.piece = NULL};
}

/* ---- arenas ---- */

struct vs_arena *vs_pieces_arena(const struct vs_pieces *p, int device)
{
    struct vs_arena *now = vs_served_arena(&vs_served[device]);
    return now == p->arena[device] && vs_served[device].number == p->number[device] ? now : NULL;
}

static void note_arena(struct vs_pieces *p, int device, struct vs_arena *arena)
{
    p->arena[device] = arena;
    p->number[device] = vs_served[device].number;
}

struct vs_piece *vs_pieces_on(const struct vs_pieces *p, int device, size_t *count)
{
    size_t first = 0, end;
    while (first < p->count && p->piece[first].device != device)
        first++;
    for (end = first; end < p->count && p->piece[end].device == device;)
        end++;
    *count = end - first;
    return p->piece + first;
}

/* ---- what goes ---- */

static int by_place(const void *a, const void *b)
{
    const struct vs_piece *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return (x->run.address > y->run.address) - (x->run.address < y->run.address);
}

static int by_address(const void *a, const void *b)
{
    const struct vs_control_block *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

/* Of runs that begin with the chunk that the last one ended with, since two blocks lie in it, that chunk is
 * left out.  Each piece gets its place on the host. */
static void settle(struct vs_pieces *p)
{
    size_t kept = 0;
    uint64_t end = 0;
    qsort(p->piece, p->count, sizeof *p->piece, by_place);
    for (size_t i = 0; i < p->count; i++) {
        struct vs_piece piece = p->piece[i];
        bool same = kept != 0 && p->piece[kept - 1].device == piece.device;
        uint64_t twice = same && end > piece.run.address ? end - piece.run.address : 0;
        if (twice >= piece.run.size)
            continue;
        piece.run.address += twice;
        piece.run.size -= twice;
        piece.offset = p->bytes;
        end = piece.run.address + piece.run.size;
        p->bytes += piece.run.size;
        p->piece[kept++] = piece;
    }
    p->count = kept;
}

static bool add_all_runs(struct vs_pieces *p, struct vs_arena *arena, int device)
{
    struct vs_arena_run run[64];
    uint64_t at = 0;
    for (uint32_t n; (n = vs_arena_all_runs(arena, &at, VS_PIECE_LONGEST, run, 64)) != 0;)
        for (uint32_t i = 0; i < n; i++)
            if (!add_piece(p, run[i], device))
                return false;
    return true;
}

/* Others may free meanwhile, which the close waits for: it is tried again. */
static int close_one(struct vs_pieces *p, int device)
{
    struct vs_arena *arena = vs_served_arena(&vs_served[device]);
    int status = arena != NULL ? vs_arena_close(arena) : 0;
    for (int tries = 0; status == VS_BACKING_NOT_READY && tries < TRIES; tries++)
        status = vs_arena_close(arena);
    if (arena == NULL || status != 0)
        return status;
    note_arena(p, device, arena);
    return add_all_runs(p, arena, device) ? 0 : VS_BACKING_OUT_OF_MEMORY;
}

int vs_pieces_of_all(struct vs_pieces *p)
{
    int status = 0;
    *p = (struct vs_pieces){.piece = NULL};
    for (int i = 0; i < VS_SERVED_DEVICES && status == 0; i++)
        status = close_one(p, i);
    if (status == 0)
        settle(p);
    else
        vs_pieces_end(p);
    return status;
}

static bool add_run(struct vs_pieces *p, struct vs_arena *arena, struct vs_arena_run run, int device)
{
    for (struct vs_arena_run piece; (piece = vs_arena_piece(arena, &run, VS_PIECE_LONGEST)).size != 0;)
        if (!add_piece(p, piece, device))
            return false;
    return true;
}

/* A block has several runs where its chunks lie on both sides of one that cannot be away. */
static bool add_block_runs(struct vs_pieces *p, struct vs_arena *arena, uint64_t address, int device)
{
    struct vs_arena_run few[16], *run = few;
    uint32_t n = vs_arena_block_runs(arena, address, run, 16);
    size_t bytes = n * sizeof *run;
    bool added = true;
    if (n > 16 && (run = vs_map(bytes)) == NULL)
        return false;
    if (n > 16)
        n = vs_arena_block_runs(arena, address, run, n);
    for (uint32_t i = 0; i < n && added; i++)
        added = add_run(p, arena, run[i], device);
    if (run != few)
        munmap(run, bytes);
    return added;
}

/* A framework's block has its size in such units. */
static uint64_t units(uint64_t bytes)
{
    return (bytes + VS_ARENA_UNIT - 1) / VS_ARENA_UNIT;
}

/* What cannot leave stays: it was freed since, or others hold it. */
static bool leave(struct vs_pieces *p, struct vs_control_block block)
{
    struct vs_arena_block found;
    struct vs_served *s;
    struct vs_arena *arena = vs_served_owner(block.address, &s, &found);
    bool same = arena != NULL && found.address == block.address && units(found.size) == units(block.size);
    if (!same || vs_arena_leave(arena, found.address, found.size) != 0)
        return true;
    note_arena(p, (int)(s - vs_served), arena);
    if (add_block(p, block))
        return true;
    vs_arena_return(arena, block.address);
    return false;
}

static bool list_blocks(struct vs_pieces *p)
{
    struct vs_arena_block found;
    struct vs_served *s;
    bool listed = true;
    for (size_t i = 0; i < p->blocks && listed; i++) {
        struct vs_arena *arena = vs_served_owner(p->block[i].address, &s, &found);
        listed = arena == NULL || add_block_runs(p, arena, p->block[i].address, (int)(s - vs_served));
    }
    return listed;
}

int vs_pieces_of_blocks(struct vs_pieces *p, const struct vs_control_block *blocks, size_t count)
{
    bool listed = true;
    *p = (struct vs_pieces){.piece = NULL};
    for (size_t i = 0; i < count && listed; i++)
        listed = leave(p, blocks[i]);
    if (!listed || !list_blocks(p)) {
        vs_pieces_end(p);
        return VS_BACKING_OUT_OF_MEMORY;
    }
    settle(p);
    if (p->blocks != 0)
        qsort(p->block, p->blocks, sizeof *p->block, by_address);
    return 0;
}

/* The arena of a block that left, also if its free was asked for since. */
static struct vs_arena *arena_of(const struct vs_pieces *p, uint64_t address)
{
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = p->arena[i] != NULL ? vs_pieces_arena(p, i) : NULL;
        if (arena != NULL && vs_arena_covers(arena, address))
            return arena;
    }
    return NULL;
}

void vs_pieces_end(struct vs_pieces *p)
{
    for (size_t i = 0; i < p->blocks; i++) {
        struct vs_arena *arena = arena_of(p, p->block[i].address);
        if (arena != NULL)
            vs_arena_return(arena, p->block[i].address);
    }
    for (int i = 0; i < VS_SERVED_DEVICES && p->blocks == 0; i++)
        if (p->arena[i] != NULL && vs_pieces_arena(p, i) != NULL)
            vs_arena_open(p->arena[i]);
    drop_lists(p);
}

/* ---- what is touched ---- */

/* The last block that begins at ADDRESS or before it; NULL: none. */
static const struct vs_control_block *block_before(const struct vs_pieces *p, uint64_t address)
{
    size_t low = 0, high = p->blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->block[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low != 0 ? &p->block[low - 1] : NULL;
}

/* A context, and its arena with it, may have ended since. */
static bool in_closed_arena(const struct vs_pieces *p, uint64_t address)
{
    bool entered = vs_served_in(), found = arena_of(p, address) != NULL;
    if (entered)
        vs_served_out();
    return found;
}

bool vs_pieces_touch(const struct vs_pieces *p, uint64_t address, uint64_t size)
{
    if (p->blocks == 0)
        return in_closed_arena(p, address);
    const struct vs_control_block *b = block_before(p, address + (size != 0 ? size - 1 : 0));
    return b != NULL && address < b->address + b->size;
}
