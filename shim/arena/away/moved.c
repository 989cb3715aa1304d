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

/* Two blocks may lie in the last chunk of W; it goes and comes with the later and the earlier of them. */
static bool share_chunk(const struct vs_watched *w, const struct vs_watched *next)
{
    uint64_t chunk = w->s->cuda.chunk;
    return w->arena == next->arena && (w->address + w->size - 1) / chunk == next->address / chunk;
}

void vs_moved_watched(const struct vs_watched *w, enum vs_away_why why)
{
    const struct vs_watched *end = vs_watched + vs_watched_count;
    tell(w->s, w->arena, w->address, why);
    if (w > vs_watched && w[-1].parked && share_chunk(&w[-1], w))
        tell(w->s, w->arena, w[-1].address, why);
    if (w + 1 < end && w[1].parked && share_chunk(w, w + 1))
        tell(w->s, w->arena, w[1].address, why);
}
