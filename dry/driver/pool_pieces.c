/*
 * pool_pieces.c - the bytes of a pool: segments of at least 32 MiB, cut into pieces of multiples of 512
 * bytes.
 *
 * Free neighbours are always one piece.  The free pieces of all segments are in one list, the last freed
 * first, and the first that is large enough is taken.
 */
#include "pool.h"
#include "share.h"

#include <stdlib.h>
#include <sys/mman.h>

static void link_free(struct piece *piece)
{
    struct piece **head = &piece->segment->pool->free_pieces;
    piece->used = false;
    piece->previous_free = NULL;
    piece->next_free = *head;
    if (*head)
        (*head)->previous_free = piece;
    *head = piece;
}

static void unlink_free(struct piece *piece)
{
    if (piece->previous_free)
        piece->previous_free->next_free = piece->next_free;
    else
        piece->segment->pool->free_pieces = piece->next_free;
    if (piece->next_free)
        piece->next_free->previous_free = piece->previous_free;
}

bool sim_pool_grow(struct sim_pool *pool, uint64_t size)
{
    if ((pool->max_size && size > pool->max_size - pool->reserved) || !sim_charge(pool->device, size))
        return false;
    struct segment *segment = calloc(1, sizeof *segment);
    struct piece *piece = calloc(1, sizeof *piece);
    uint64_t start = sim_room_take(size, SIM_GRANULARITY, 0, PROT_READ | PROT_WRITE);
    if (!segment || !piece || !start) {
        free(segment);
        free(piece);
        sim_uncharge(pool->device, size);
        return false;
    }
    *piece = (struct piece){.segment = segment, .start = start, .size = size};
    *segment =
        (struct segment){.next = pool->segments, .pool = pool, .pieces = piece, .start = start, .size = size};
    pool->segments = segment;
    link_free(piece);
    pool->reserved += size;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
    return true;
}

struct piece *sim_pool_find(struct sim_pool *pool, uint64_t size)
{
    struct piece *piece = pool->free_pieces;
    while (piece && piece->size < size)
        piece = piece->next_free;
    return piece;
}

/* The first SIZE bytes of a free piece become a used one. */
bool sim_piece_cut(struct piece *piece, uint64_t size)
{
    if (piece->size > size) {
        struct piece *rest = calloc(1, sizeof *rest);
        if (!rest)
            return false;
        *rest = (struct piece){.next = piece->next,
                               .previous = piece,
                               .segment = piece->segment,
                               .start = piece->start + size,
                               .size = piece->size - size};
        if (rest->next)
            rest->next->previous = rest;
        piece->next = rest;
        piece->size = size;
        link_free(rest);
    }
    unlink_free(piece);
    piece->used = true;
    return true;
}

/* NEXT, free and not in the list any more, becomes part of the piece before it. */
static void absorb(struct piece *piece, struct piece *next)
{
    piece->size += next->size;
    piece->next = next->next;
    if (piece->next)
        piece->next->previous = piece;
    free(next);
}

void sim_piece_give_back(struct piece *piece)
{
    struct piece *next = piece->next, *previous = piece->previous;
    if (next && !next->used) {
        unlink_free(next);
        absorb(piece, next);
    }
    if (previous && !previous->used) {
        unlink_free(previous);
        absorb(previous, piece);
        piece = previous;
    }
    link_free(piece);
}

static bool segment_is_free(const struct segment *segment)
{
    return !segment->pieces->used && !segment->pieces->next;
}

void sim_pool_trim(struct sim_pool *pool, uint64_t keep)
{
    for (struct segment **link = &pool->segments, *s; (s = *link);) {
        if (!segment_is_free(s) || pool->reserved <= keep || pool->reserved - s->size < keep) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        sim_unshare(s->start);
        sim_room_give(s->start, s->size);
        sim_uncharge(pool->device, s->size);
        pool->reserved -= s->size;
        unlink_free(s->pieces);
        free(s->pieces);
        free(s);
    }
}
