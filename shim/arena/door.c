/*
 * door.c - the arena's side of the door (provider.h).
 *
 * Without VRAMSCOPE_ALLOCATOR=arena, memory of another process's arena can be opened all the same, asked
 * about and closed.  It stands alone so that tests/witness can be linked in its place.
 */
#include "arena/away/away.h"
#include "arena/away/gate.h"
#include "arena/cuda/serving.h"
#include "arena/share/share.h"

static const struct vs_stand_in *const always[] = {vs_stand_ins_primary, vs_stand_ins_contexts_ended,
                                                   vs_stand_ins_queries, vs_stand_ins_imports, NULL};
static const struct vs_stand_in *const all[] = {
    vs_stand_ins_primary,  vs_stand_ins_contexts_ended, vs_stand_ins_queries,  vs_stand_ins_imports,
    vs_stand_ins_peers,    vs_stand_ins_streams,        vs_stand_ins_captures, vs_stand_ins_pools,
    vs_stand_ins_contexts, vs_stand_ins_exports,        vs_stand_ins_gate,     NULL};

static const struct vs_provider guest = {.owner = vs_served_block_of, .stand_ins = always};

static const struct vs_provider arena = {.alloc = vs_served_alloc,
                                         .alloc_rows = vs_served_alloc_rows,
                                         .alloc_ordered = vs_served_alloc_ordered,
                                         .free = vs_served_free,
                                         .free_ordered = vs_served_free_ordered,
                                         .shortage = vs_served_shortage,
                                         .owner = vs_served_block_of,
                                         .holds = vs_served_holds,
                                         .figures = vs_served_figures,
                                         .ended = vs_served_ended,
                                         .carry_out = vs_away_carry_out,
                                         .told = vs_away_told,
                                         .stand_ins = all};

const struct vs_provider *vs_arena_provider(bool serves)
{
    return serves ? &arena : &guest;
}
