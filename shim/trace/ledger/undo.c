/*
 * undo.c - frees that may still turn out to have failed.
 *
 * A free is recorded before the real call, so it counts at once; FREE_FAILED takes it back (failed.c).  So
 * the last VS_UNDO frees, and older ones whose call may still run, are kept with all that they ended.  They
 * are found by the ring's sequence or, after a recovery, by row or by address and thread.
 */
#include "internal.h"

/* Whether the call of U may still run: its thread has recorded nothing since, or only other ends of the same
 * call.  Meanwhile other threads can free thousands of allocations. */
static bool under_way(const struct vs_ledger *l, const struct undo *u)
{
    const struct progress *p = &l->progress[u->thread];
    return u->op && u->ring_seq && u->ring_seq > p->other && p->ends - u->number < VS_UNDO_CALL;
}

/* The place to reuse: the oldest free whose call has returned, or else the oldest. */
static struct undo *vacant_undo(struct vs_ledger *l)
{
    for (int i = 0; i < VS_UNDO; i++) {
        struct undo *u = &l->undo[l->undo_next++ % VS_UNDO];
        if (!under_way(l, u))
            return u;
    }
    return &l->undo[l->undo_next++ % VS_UNDO];
}

struct undo *vs_undo_add(struct vs_ledger *l, const struct vs_row *r, uint64_t address)
{
    struct undo *u = vacant_undo(l);
    free(u->maps);
    free(u->ended);
    *u = (struct undo){.ring_seq = l->current_ring_seq,
                       .seq = r->seq,
                       .address = address,
                       .number = ++l->progress[r->thread].ends,
                       .thread = r->thread,
                       .op = r->op};
    return u;
}

/* Remembers that ENTRY ended with U, and in which row, in case the call fails. */
void vs_undo_ended(struct vs_ledger *l, struct undo *u, const struct entry *entry, uint64_t seq)
{
    struct ended *more = realloc(u->ended, (u->n_ended + 1) * sizeof *more);
    if (!more) {
        vs_count(l, entry->a.device, VS_COUNT_NO_MEMORY);
        return;
    }
    u->ended = more;
    u->ended[u->n_ended++] = (struct ended){*entry, seq};
}

/* Likewise for a mapping or binding of the physical memory PHYS. */
void vs_undo_map(struct vs_ledger *l, struct undo *u, uint64_t start, uint64_t end, uint32_t phys)
{
    const struct entry *entry = &l->entries.at[phys];
    struct saved_map *more = realloc(u->maps, (u->n_maps + 1) * sizeof *more);
    if (!more) {
        vs_count(l, entry->a.device, VS_COUNT_NO_MEMORY);
        return;
    }
    u->maps = more;
    u->maps[u->n_maps++] = (struct saved_map){start, end, *entry};
}

static bool undo_matches(const struct undo *u, uint64_t ring_seq, uint64_t seq, uint64_t address,
                         uint16_t thread)
{
    if (!u->op)
        return false;
    if (seq)
        return u->seq == seq;
    /* replayed frees (after a kill) have no ring sequence: the newest free of that address on its thread is
     * meant
     */
    return u->ring_seq ? u->ring_seq == ring_seq : u->address == address && u->thread == thread;
}

/* Frees that were kept because their call was running are out of order, so among several of one address the
 * one with the highest row is the newest. */
struct undo *vs_undo_find(struct vs_ledger *l, uint64_t ring_seq, uint64_t seq, uint64_t address,
                          uint16_t thread)
{
    uint64_t oldest = l->undo_next > VS_UNDO ? l->undo_next - VS_UNDO : 0;
    struct undo *found = NULL;
    for (uint64_t i = l->undo_next; i-- > oldest;) {
        struct undo *u = &l->undo[i % VS_UNDO];
        if (!undo_matches(u, ring_seq, seq, address, thread))
            continue;
        if (seq || u->ring_seq)
            return u;
        if (!found || u->seq > found->seq)
            found = u;
    }
    return found;
}

/* A free of an address that the ledger does not know: allocated before the recording, in a closed window, or
 * never.  The driver refuses a free of the last kind, which then does not count; so it is remembered too,
 * without an entry. */
struct undo *vs_unknown_free(struct vs_ledger *l, struct vs_row *r, uint64_t address)
{
    r->size = 0;
    vs_count(l, r->device, VS_COUNT_UNKNOWN_FREE);
    return vs_undo_add(l, r, address);
}
