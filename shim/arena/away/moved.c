/* moved.c - see moved.h: asks the arena how many bytes of a block are away. */
#include "moved.h"

#include "provider/provider.h"

uint64_t vs_moved_waited_ns;

static void tell(struct vs_served *s, struct vs_arena *arena, uint64_t address, enum vs_away_why why)
{
    vs_provided_moved((int)(s - vs_served), address, vs_arena_block_away(arena, address), why,
                      why == VS_AWAY_SUSPENDED ? VS_BYTES_UNKNOWN : vs_moved_waited_ns);
}

void vs_moved_pieces(const struct vs_pieces *p)
{
    struct vs_arena_block found;
    struct vs_arena_stats stats;
    struct vs_served *s;
    for (size_t i = 0; i < p->blocks; i++) {
        struct vs_arena *arena = vs_served_owner(p->block[i].address, &s, &found);
        if (arena != NULL && found.address == p->block[i].address)
            tell(s, arena, found.address, VS_AWAY_SUSPENDED);
    }
    for (int i = 0; i < VS_SERVED_DEVICES && p->blocks == 0; i++) {
        struct vs_arena *arena = p->arena[i] != NULL ? vs_pieces_arena(p, i) : NULL;
        if (arena == NULL)
            continue;
        vs_arena_stats(arena, &stats);
        vs_provided_moved(i, 0, stats.away != 0 ? stats.allocated : 0, VS_AWAY_SUSPENDED, VS_BYTES_UNKNOWN);
    }
}

/* Tells of the blocks that lie from FROM to TO, in a chunk of another one that moved, if they are parked. */
static void tell_neighbours(uint64_t from, uint64_t to, enum vs_away_why why)
{
    for (struct vs_watched *w; from < to && (w = vs_watched_at(from, to - from)) != NULL; to = w->address)
        if (w->parked)
            tell(w->s, w->arena, w->address, why);
}

/* In its first and last chunk others may lie: these go with the last of them, and come with the first. */
void vs_moved_watched(const struct vs_watched *w, enum vs_away_why why)
{
    uint64_t mask = w->s->cuda.chunk - 1, end = w->address + w->size;
    tell(w->s, w->arena, w->address, why);
    tell_neighbours(w->address & ~mask, w->address, why);
    tell_neighbours(end, (end + mask) & ~mask, why);
}
