/*
 * arena.c - the memory that the arena holds of the driver, and its figures.
 *
 * ARENA_RESERVED is recorded when the figure has changed, before the block that needed it, so that
 * `allocated` is never above `reserved`.  A sample of the figures comes in parts, one event each, and other
 * threads' events may lie between them.  An incomplete sample (a part was lost, or the process was killed in
 * the middle) is discarded.
 */
#include "internal.h"

void vs_apply_arena_reserved(struct vs_ledger *l, const struct vs_event *e)
{
    struct vs_row r;
    vs_row_begin(l, &r, e);
    vs_device(l, e->device)->arena_reserved = e->size;
    vs_row_end(l, &r);
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
