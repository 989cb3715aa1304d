/*
 * batch.c - the end of a batch, or of the recording: puts everything that changed into the output.
 */
#include "internal.h"

static void write_live(struct vs_ledger *l)
{
    for (size_t i = 0; i < l->fresh.n; i++) {
        struct vs_alloc *a = &l->entries.at[l->fresh.at[i]].a;
        if (a->op && a->fresh)
            vs_list_push(&l->out->born, l->out->no_memory, *a);
        a->fresh = 0;
    }
    l->fresh.n = 0;
}

void vs_ledger_end_batch(struct vs_ledger *l, struct vs_output *out)
{
    l->out = out;
    vs_ranges_end_batch(l);
    vs_phases_end_batch(l);
    vs_stretch_end_batch(l);
    write_live(l);
}

void vs_ledger_finish(struct vs_ledger *l, struct vs_output *out)
{
    vs_ledger_flush(l, out);
    vs_oom_finish(l);
    if (l->doubt_from) /* ends were lost after the last event */
        vs_doubt_begin(l);
    vs_ranges_finish(l);
    vs_ledger_end_batch(l, out);
}
