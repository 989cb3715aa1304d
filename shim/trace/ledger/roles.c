/*
 * roles.c - which allocations a framework means when it says what blocks are for.
 *
 * It says so with the addresses at which its storages begin, of blocks that live at that point of the order.
 * What begins nowhere that is known (memory of another library, an address inside of a block) is nobody's.  A
 * block gets a row where it had none, or another.
 */
#include "internal.h"

/* The living allocation that begins at ADDRESS: a block, or what the driver gave the framework for itself. */
static struct vs_alloc *beginning_at(struct vs_ledger *l, uint64_t address)
{
    uint32_t index = address ? vs_table_get(&l->blocks, address) : VS_TABLE_NONE;
    if (index == VS_TABLE_NONE && address)
        index = vs_table_get(&l->allocs, address);
    struct vs_alloc *a = index == VS_TABLE_NONE ? NULL : &l->entries.at[index].a;
    return a && a->managed == VS_NOT_MANAGED ? a : NULL;
}

/* No row of ev: it changes nothing that is counted here. */
void vs_apply_role(struct vs_ledger *l, const struct vs_event *e)
{
    const uint64_t addresses[] = {e->address, e->size, e->arg0};
    if (l->restoring || l->level >= 2 ||
        (!vs_life_is_rule(e->arg1) && (e->arg1 == 0 || e->arg1 >= VS_FRAMEWORK_ROLES)))
        return; /* level 2: the blocks' own rows are not written either */
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        struct vs_alloc *a = beginning_at(l, addresses[i]);
        if (!a || a->role == e->arg1)
            continue;
        a->role = (uint8_t)e->arg1;
        vs_list_push(&l->out->roles, l->out->no_memory, (struct vs_role_row){a->seq, a->role});
    }
}
