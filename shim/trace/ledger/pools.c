/*
 * pools.c - what memory pools, graphs and the arena hold of the driver, as reported.
 *
 * ARENA_RESERVED comes before the block that needed it, so that `allocated` is never above `reserved` and
 * what is away together.  A sample of the arena's figures comes in parts, one event each, among other
 * threads' events.  An incomplete one (a part was lost, or the process was killed) is discarded.
 */
#include "internal.h"

void vs_apply_pool(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    uint32_t index = vs_table_get(&l->pools, e->address);
    if (index == VS_TABLE_NONE) {
        uint64_t failed = 0;
        index = (uint32_t)l->pool.n;
        vs_list_push(&l->pool, failed, (struct pool_sample){0, e->device, e->space == VS_SPACE_GRAPH});
        if (failed || vs_table_put(&l->pools, e->address, index) < 0) {
            vs_count(l, e->device, VS_COUNT_NO_MEMORY);
            vs_row_end(l, &r);
            return;
        }
    }
    struct pool_sample *p = &l->pool.at[index];
    struct device *d = vs_device(l, p->device);
    int device = p->device;
    uint64_t old = p->bytes;
    *(p->graph ? &d->graph_sampled : &d->pool_sampled) += e->size - old;
    p->bytes = e->size;
    r.device = (int8_t)device;
    vs_row_end(l, &r);
    vs_context_reserve_reported(l, e, device, old);
}

void vs_apply_arena_reserved(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    struct device *d = vs_device(l, e->device);
    bool moved = d->arena_away != e->address;
    d->arena_reserved = e->size;
    d->arena_away = e->address;
    d->was_away = d->was_away || e->address;
    vs_row_end(l, &r);
    if (moved && !l->restoring)
        vs_list_push(&l->out->aways, l->out->no_memory,
                     (struct vs_away_row){r.seq, d->arena_away, r.t, e->device});
}

static void begin_sample(struct device *d, const struct vs_event *e)
{
    d->arena_sample = e->range;
    d->arena_parts = 0;
    d->arena = (struct vs_arena_row){.device = e->device};
}

void vs_apply_arena_figures(struct vs_ledger *l, const struct vs_event *e)
{
    struct device *d = vs_device(l, e->device);
    uint32_t part = e->stack;
    if (l->restoring || part >= VS_FIGURE_PARTS)
        return;
    if (d->arena_parts == 0 || d->arena_sample != e->range)
        begin_sample(d, e);
    const uint64_t value[4] = {e->address, e->size, e->arg0, e->arg1};
    memcpy(&d->arena.figure[4 * part], value, sizeof value);
    d->arena_parts |= 1u << part;
    if (d->arena_parts != (1u << VS_FIGURE_PARTS) - 1)
        return;
    d->arena.t = (int64_t)e->t_ns - l->config.start_ns;
    d->arena_parts = 0;
    vs_list_push(&l->out->arenas, l->out->no_memory, d->arena);
}
