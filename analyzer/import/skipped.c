/*
 * skipped.c - entries that a snapshot lacks because its recording was told to skip them (skip_actions, from
 * PyTorch 2.11 on). Without free_requested the free of a block is its completion alone, which is put right
 * here.  What else was skipped shows, if at all, as entries that do not fit to the end.
 */
#include "snapshot.h"

#include <stdlib.h>

#include "base/base.h"

enum { ALLOCATED, REQUESTED }; /* what was the last of an address */

/* Follows E; whether it is a completion without a request, and in *PROOF whether it must have had one. */
static bool is_lone(struct vs_table *last, const struct snapshot_event *e, bool *proof)
{
    if (e->action == SNAPSHOT_ALLOC || e->action == SNAPSHOT_FREE_REQUESTED) {
        if (vs_table_put(last, e->address, e->action == SNAPSHOT_ALLOC ? ALLOCATED : REQUESTED) < 0)
            exit(complain("out of memory"));
        return false;
    }
    if (e->action != SNAPSHOT_FREE_COMPLETED)
        return false;
    uint32_t was = vs_table_remove(last, e->address);
    *proof = *proof || was == ALLOCATED;
    return was != REQUESTED;
}

static size_t count_lone(const struct snapshot_trace *t, bool *proof)
{
    struct vs_table last = {0};
    size_t lone = 0;
    for (size_t i = 0; i < t->n; i++)
        lone += is_lone(&last, &t->at[i], proof);
    vs_table_free(&last);
    return lone;
}

bool skipped_requests(struct snapshot_trace *t)
{
    bool proof = false;
    size_t lone = count_lone(t, &proof), n = 0;
    if (!proof)
        return false;
    struct snapshot_event *at = xrealloc(NULL, (t->n + lone) * sizeof *at);
    struct vs_table last = {0};
    for (size_t i = 0; i < t->n; i++) {
        if (is_lone(&last, &t->at[i], &proof)) {
            at[n] = t->at[i];
            at[n++].action = SNAPSHOT_FREE_REQUESTED;
        }
        at[n++] = t->at[i];
    }
    vs_table_free(&last);
    free(t->at);
    t->at = at;
    t->n = n;
    return true;
}
