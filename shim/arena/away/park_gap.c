/*
 * park_gap.c - see park_gap.h: four events, of which two stand at the gap's end, as a time is asked for by a
 * pair that then goes.
 */
#include "park_gap.h"

#include <string.h>

#include "park_copy.h"

static struct {
    struct vs_served *s;
    CUevent begun, ended, waits, back; /* NULL: not recorded */
    struct vs_gap is;
} gap; /* whose times are not read */

static uint64_t driver_calls(void)
{
    struct vs_arena_stats stats;
    uint64_t calls = 0;
    for (int i = 0; i < VS_SERVED_DEVICES; i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        if (arena == NULL)
            continue;
        vs_arena_stats(arena, &stats);
        calls += stats.created + stats.released + stats.aliased + stats.unmapped + stats.replaced;
    }
    return calls;
}

static void forget(void)
{
    CUevent all[] = {gap.begun, gap.ended, gap.waits, gap.back};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] != NULL)
            gap.s->cuda.call.cuEventDestroy_v2(all[i]);
    memset(&gap, 0, sizeof gap);
}

void vs_gap_begins(struct vs_served *s, CUstream stream, bool parking)
{
    if (gap.begun != NULL)
        return;
    gap.s = s;
    gap.begun = vs_park_stamp(s, stream);
    gap.is = (struct vs_gap){.parking = parking, .calls = driver_calls()};
}

void vs_gap_ends(CUstream stream)
{
    if (gap.begun == NULL || gap.ended != NULL)
        return;
    VS_WATCHED_EACH(w)
    gap.is.away += w->parked && !w->freed ? w->size : 0;
    gap.ended = vs_park_stamp(gap.s, stream);
    gap.waits = gap.ended != NULL ? vs_park_stamp(gap.s, stream) : NULL;
    if (gap.waits == NULL)
        forget();
}

void vs_gap_waited(CUstream stream)
{
    if (gap.waits == NULL || gap.back != NULL)
        return;
    gap.is.calls = driver_calls() - gap.is.calls;
    gap.back = vs_park_stamp(gap.s, stream);
    if (gap.back == NULL)
        forget();
}

bool vs_gap_read(struct vs_gap *out)
{
    if (gap.back == NULL || !vs_park_reached(gap.s, gap.back))
        return false;
    *out = gap.is;
    out->ms = vs_park_between(gap.s, gap.begun, gap.ended);
    out->wait_ms = vs_park_between(gap.s, gap.waits, gap.back);
    memset(&gap, 0, sizeof gap);
    return out->ms >= 0 && out->wait_ms >= 0;
}

void vs_gap_device_ends(const struct vs_served *s)
{
    if (gap.s == s)
        memset(&gap, 0, sizeof gap); /* its events went with the context */
}
