/*
 * now.c - where the ledger stands, for whoever watches the process meanwhile.
 */
#include "internal.h"

#include "trace/now.h"

static struct vs_now_device device_now(const struct vs_ledger *l, int index)
{
    const struct device *d = &l->device[index];
    const struct last_sample *said = l->oom.last_sample[index];
    return (struct vs_now_device){.ordinal = index - 1,
                                  .flags = vs_use_unknown(d) ? VS_NOW_USE_UNKNOWN : 0,
                                  .allocated = d->curve[VS_CURVE_ALLOCATED].now,
                                  .reserved = d->curve[VS_CURVE_RESERVED].now,
                                  .peak_allocated = d->curve[VS_CURVE_ALLOCATED].peak,
                                  .peak_reserved = d->curve[VS_CURVE_RESERVED].peak,
                                  .peak_t = d->curve[VS_CURVE_ALLOCATED].peak_t,
                                  .process_used = said[0].used,
                                  .process_used_t = said[0].t,
                                  .device_used = said[1].used,
                                  .device_used_t = said[1].t,
                                  .out_of_memory = d->count[VS_COUNT_OOM],
                                  .driver_refusals = d->count[VS_COUNT_REFUSED]};
}

void vs_ledger_now(const struct vs_ledger *l, struct vs_now *out)
{
    *out = (struct vs_now){.t = l->t,
                           .rows = l->seq,
                           .steps = l->step,
                           .pinned = l->space[VS_SPACE_PINNED].now,
                           .open_ranges = l->open.n};
    for (int i = 1; i < l->devices && out->devices < VS_NOW_DEVICES; i++)
        if (l->device[i].active)
            out->device[out->devices++] = device_now(l, i);
    size_t skip = l->open.n > VS_NOW_RANGES ? l->open.n - VS_NOW_RANGES : 0;
    for (size_t i = skip; i < l->open.n; i++) {
        const struct vs_range_row *r = &l->open.at[i].row;
        out->range[out->ranges++] = (struct vs_now_range){
            .name = r->name, .thread = r->thread, .phase = r->phase, .t_push = r->t_push};
    }
}
