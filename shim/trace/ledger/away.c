/*
 * away.c - which blocks of the arena's are on the host, and how many bytes went there and came back.
 *
 * How much the arena holds, and how much of that is away, is ARENA_RESERVED's to say (pools.c): it is in the
 * order of the requests, in whole chunks.  Here each block says how many of its own bytes are away.
 */
#include "internal.h"

static uint8_t role_index(uint8_t role)
{
    unsigned known = vs_role_of(role);
    return known < VS_FRAMEWORK_ROLES ? (uint8_t)known : 0;
}

/* The arena's block that begins at ADDRESS; what a framework carves there out of one does not go alone. */
static struct vs_alloc *block_at(struct vs_ledger *l, uint64_t address)
{
    const struct vs_table *const tables[] = {&l->blocks, &l->allocs};
    for (size_t i = 0; address != 0 && i < sizeof tables / sizeof *tables; i++) {
        uint32_t index = vs_table_get(tables[i], address);
        if (index != VS_TABLE_NONE && l->entries.at[index].a.space == VS_SPACE_ARENA)
            return &l->entries.at[index].a;
    }
    return NULL;
}

static void write_row(struct vs_ledger *l, int device, uint64_t alloc_seq, uint64_t bytes, uint8_t why)
{
    const struct device *d = vs_device(l, device);
    if (!l->restoring)
        vs_list_push(&l->out->away_blocks, l->out->no_memory,
                     (struct vs_away_block_row){.seq = l->seq,
                                                .alloc_seq = alloc_seq,
                                                .bytes = bytes,
                                                .out = d->went,
                                                .back = d->came,
                                                .t = l->t,
                                                .device = device,
                                                .why = why});
}

void vs_apply_block_away(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    struct vs_alloc *a = block_at(l, e->address);
    int device = a != NULL ? a->device : e->device;
    struct device *d = vs_device(l, device);
    uint64_t nowhere = e->size, *away = a != NULL ? &a->away : e->address == 0 ? &d->all_away : &nowhere;
    r.mate = a != NULL ? a->seq : 0;
    if (e->size != *away) {
        d->went += e->size > *away ? e->size - *away : 0;
        d->came += e->size < *away ? *away - e->size : 0;
        if (a != NULL)
            d->away_of[role_index(a->role)] += e->size - *away;
        *away = e->size;
        if (a != NULL)
            a->away_why = (uint8_t)e->arg0;
        write_row(l, device, r.mate, e->size, (uint8_t)e->arg0);
    }
    vs_row_end(l, &r);
}

void vs_away_ends(struct vs_ledger *l, const struct vs_alloc *a)
{
    struct device *d = vs_device(l, a->device);
    d->away_of[role_index(a->role)] -= a->away;
    d->came += a->away;
    write_row(l, a->device, a->seq, 0, a->away_why);
}

void vs_away_has_role(struct vs_ledger *l, const struct vs_alloc *a, uint8_t role)
{
    struct device *d = vs_device(l, a->device);
    d->away_of[role_index(a->role)] -= a->away;
    d->away_of[role_index(role)] += a->away;
}
