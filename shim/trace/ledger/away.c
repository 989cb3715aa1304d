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

static struct went *went_of(struct vs_ledger *l, int device, uint64_t why)
{
    return &vs_device(l, device)->went[why < VS_AWAY_WHYS ? why : 0];
}

static void write_row(struct vs_ledger *l, int device, uint64_t alloc_seq, uint64_t bytes, uint8_t why)
{
    const struct went *w = went_of(l, device, why);
    if (!l->restoring)
        vs_list_push(&l->out->away_blocks, l->out->no_memory,
                     (struct vs_away_block_row){.seq = l->seq,
                                                .alloc_seq = alloc_seq,
                                                .bytes = bytes,
                                                .out = w->out,
                                                .back = w->back,
                                                .times = w->times,
                                                .waited_ns = w->waited_ns,
                                                .t = l->t,
                                                .device = device,
                                                .why = why});
}

/* FROM bytes of something become TO. */
static void count(struct went *w, uint64_t from, uint64_t to)
{
    w->times += to > from && w->out == w->back;
    w->out += to > from ? to - from : 0;
    w->back += to < from ? from - to : 0;
}

void vs_apply_block_away(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    struct vs_alloc *a = block_at(l, e->address);
    int device = a != NULL ? a->device : e->device;
    struct device *d = vs_device(l, device);
    uint64_t nowhere = e->size, *away = a != NULL ? &a->away : e->address == 0 ? &d->all_away : &nowhere;
    uint8_t why = e->arg0 < VS_AWAY_WHYS ? (uint8_t)e->arg0 : 0;
    r.mate = a != NULL ? a->seq : 0;
    if (e->size != *away) {
        count(went_of(l, device, why), *away, e->size);
        went_of(l, device, why)->waited_ns = e->arg1;
        if (a != NULL) {
            d->away_of[role_index(a->role)] += e->size - *away;
            a->away_why = why;
        }
        *away = e->size;
        write_row(l, device, r.mate, e->size, why);
    }
    vs_row_end(l, &r);
}

void vs_away_ends(struct vs_ledger *l, const struct vs_alloc *a)
{
    vs_device(l, a->device)->away_of[role_index(a->role)] -= a->away;
    count(went_of(l, a->device, a->away_why), a->away, 0);
    write_row(l, a->device, a->seq, 0, a->away_why);
}

void vs_away_has_role(struct vs_ledger *l, const struct vs_alloc *a, uint8_t role)
{
    struct device *d = vs_device(l, a->device);
    d->away_of[role_index(a->role)] -= a->away;
    d->away_of[role_index(role)] += a->away;
}
