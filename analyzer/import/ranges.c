/*
 * ranges.c - the ranges that a snapshot marks (external_annotations), as far as they lie in its trace.  One
 * that was open when the trace began, and whose begin is not recorded, gets the first entry's time.
 */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define OPEN_MOST 64 /* ranges that were open when a trace began */

static int by_time(const void *a, const void *b)
{
    const struct snapshot_range *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

bool ranges_same(const struct snapshot_range *a, const struct snapshot_range *b)
{
    return a->device == b->device && a->length == b->length && memcmp(a->name, b->name, a->length) == 0;
}

static void read_all(struct snapshot *s, const struct pickle_value *list)
{
    for (size_t i = 0; i < unpickle_items(list); i++) {
        const struct pickle_value *v = unpickle_item(list, i), *name = unpickle_get(v, "name"),
                                  *stage = unpickle_get(v, "stage");
        bool shown_by_stacks =
            unpickle_is(unpickle_get(v, "phase"), "by stacks"); /* an export's: found again */
        if (!name || name->kind != PICKLE_TEXT || !name->length || shown_by_stacks)
            continue;
        *PUSH(s->ranges, s->range_count) =
            (struct snapshot_range){.time_ns = snapshot_time(v),
                                    .name = name->text,
                                    .length = name->length,
                                    .order = (uint32_t)i,
                                    .device = (int)unpickle_int(unpickle_get(v, "device"), 0),
                                    .told = unpickle_is(unpickle_get(v, "phase"), "recorded"),
                                    .begins = unpickle_is(stage, "START")};
        s->told = s->told || s->ranges[s->range_count - 1].told;
    }
    if (s->range_count)
        qsort(s->ranges, s->range_count, sizeof *s->ranges, by_time);
}

static uint64_t hash_of_name(const struct snapshot_range *r)
{
    uint64_t h = UINT64_C(14695981039346656037) ^ (uint64_t)r->device;
    for (uint32_t i = 0; i < r->length; i++)
        h = (h ^ (unsigned char)r->name[i]) * UINT64_C(1099511628211);
    return h;
}

/* A range whose begin was not recorded was open when the trace began, if none of its name was before it. */
static void begin_open_ones(struct snapshot *s, int64_t first)
{
    struct snapshot_range open[OPEN_MOST];
    struct vs_table seen = {0};
    size_t n = 0;
    for (size_t i = 0; i < s->range_count && n < OPEN_MOST; i++) {
        const struct snapshot_range *r = &s->ranges[i];
        uint64_t name = hash_of_name(r);
        if (!r->begins && r->time_ns >= first && vs_table_get(&seen, name) == VS_TABLE_NONE)
            open[n++] = *r;
        vs_table_put(&seen, name, 0); /* without memory: one more is taken as open */
    }
    vs_table_free(&seen);
    if (!n)
        return;
    for (size_t i = 0; i < n; i++)
        (void)PUSH(s->ranges, s->range_count);
    memmove(s->ranges + n, s->ranges, (s->range_count - n) * sizeof *s->ranges);
    for (size_t i = 0; i < n; i++) { /* what ends first began last */
        s->ranges[i] = open[n - 1 - i];
        s->ranges[i].begins = true;
        s->ranges[i].time_ns = first;
    }
}

static int64_t first_time(const struct snapshot *s)
{
    int64_t first = INT64_MAX;
    for (int d = 0; d < s->devices; d++)
        if (s->traces[d].n && s->traces[d].at[0].time_ns < first)
            first = s->traces[d].at[0].time_ns;
    return first;
}

/* What was over before the first entry is no part of the trace; what was open is. */
static void drop_earlier(struct snapshot *s, int64_t first)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->range_count; i++) {
        struct snapshot_range r = s->ranges[i];
        size_t open = kept;
        bool over = !r.begins && r.time_ns < first;
        while (over && open > 0 && kept - open < OPEN_MOST &&
               (!s->ranges[open - 1].begins || !ranges_same(&s->ranges[open - 1], &r)))
            open--;
        bool found = over && open > 0 && s->ranges[open - 1].begins && ranges_same(&s->ranges[open - 1], &r);
        if (!over)
            s->ranges[kept++] = r;
        else if (found) {
            memmove(&s->ranges[open - 1], &s->ranges[open], (kept - open) * sizeof *s->ranges);
            kept--;
        }
    }
    s->range_count = kept;
}

void ranges_read(struct snapshot *s)
{
    read_all(s, s->annotations);
    int64_t first = first_time(s);
    drop_earlier(s, first);
    begin_open_ones(s, first);
}
