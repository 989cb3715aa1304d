/* lanes.c - slices that may overlap, on several tracks (perfetto.h). */
#include "perfetto.h"

#include <stdlib.h>

/* Ends what ended until T. */
static void close_until(struct lane *lane, struct perfetto *w, int64_t t)
{
    while (lane->n && lane->ends[lane->n - 1] <= t) {
        int64_t end = lane->ends[--lane->n];
        lane->now = end > lane->now ? end : lane->now;
        perfetto_end_slice(w, lane->now, lane->track);
    }
}

static struct lane *add_lane(struct lanes *l, struct perfetto *w)
{
    struct lane *lane = PUSH(l->at, l->n);
    bool parent = l->n == 1 && l->first_is_parent;
    *lane =
        (struct lane){.track = parent ? l->parent : perfetto_track(w, l->parent, l->name, PERFETTO_PLAIN)};
    return lane;
}

void lanes_put(struct lanes *l, struct perfetto *w, int64_t begin, int64_t end, const char *name,
               const char *category)
{
    struct lane *lane = NULL;
    end = end < begin ? begin : end;
    for (size_t i = 0; i < l->n && !lane; i++) {
        close_until(&l->at[i], w, begin);
        if (!l->at[i].n || l->at[i].ends[l->at[i].n - 1] >= end)
            lane = &l->at[i];
    }
    if (!lane)
        lane = add_lane(l, w);
    /* clocks of neighbouring events may differ by a microsecond against their order */
    lane->now = begin > lane->now ? begin : lane->now;
    perfetto_begin_slice(w, lane->now, lane->track, name, category);
    *PUSH(lane->ends, lane->n) = end;
}

void lanes_end(struct lanes *l, struct perfetto *w)
{
    for (size_t i = 0; i < l->n; i++) {
        close_until(&l->at[i], w, INT64_MAX - 1);
        free(l->at[i].ends);
    }
    free(l->at);
    *l = (struct lanes){0};
}
