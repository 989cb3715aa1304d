/*
 * holds.c - what the arenas hold, and their figures, as the recording reads them (provider.h).
 *
 * A device's arena may end, with its context, and another one begin: the changes of the second are counted on
 * from those of the first, and the first's last figures are kept until somebody has asked for them.
 */
#include "serving.h"

#include <string.h>

static void fill(uint64_t figure[VS_FIGURE_END], const struct vs_served *s,
                 const struct vs_arena_stats *stats)
{
    const uint64_t values[VS_FIGURE_END] = {
        [VS_FIGURE_NUMBER] = s->number,
        [VS_FIGURE_MALLOCS] = stats->mallocs,
        [VS_FIGURE_FREES] = stats->frees,
        [VS_FIGURE_HITS] = stats->hits,
        [VS_FIGURE_VIEW_HITS] = stats->alias_hits,
        [VS_FIGURE_DRIVER_CALLS] = __atomic_load_n(&s->cuda.memory_calls, __ATOMIC_RELAXED),
        [VS_FIGURE_CREATED] = stats->created,
        [VS_FIGURE_RELEASED] = stats->released,
        [VS_FIGURE_ALIASED] = stats->aliased,
        [VS_FIGURE_UNMAPPED] = stats->unmapped,
        [VS_FIGURE_ORDER_CALLS] = __atomic_load_n(&s->cuda.order_calls, __ATOMIC_RELAXED),
        [VS_FIGURE_FOLLOWS] = stats->stream_waits,
        [VS_FIGURE_SETTLES] = stats->host_waits,
        [VS_FIGURE_FREE_WAITS] = __atomic_load_n(&s->free_waits, __ATOMIC_RELAXED),
        [VS_FIGURE_EVICTED] = stats->evicted,
        [VS_FIGURE_LOST] = stats->lost,
        [VS_FIGURE_LOST_BLOCKS] = stats->lost_blocks,
        [VS_FIGURE_BLOCKS] = stats->blocks,
        [VS_FIGURE_LANES] = stats->queues,
        [VS_FIGURE_VIEWS] = stats->aliases,
        [VS_FIGURE_MAPPINGS] = stats->mappings,
        [VS_FIGURE_PEAK_MAPPINGS] = stats->peak_mappings,
        [VS_FIGURE_GRANULE] = s->cuda.chunk,
        [VS_FIGURE_ALLOCATED] = stats->allocated,
        [VS_FIGURE_RESERVED] = stats->reserved,
        [VS_FIGURE_IDLE] = stats->idle,
        [VS_FIGURE_DEFERRED] = stats->deferred,
        [VS_FIGURE_PEAK_ALLOCATED] = stats->peak_allocated,
        [VS_FIGURE_PEAK_RESERVED] = stats->peak_reserved,
        [VS_FIGURE_AT_PEAK_RESERVED] = stats->at_peak_reserved,
        [VS_FIGURE_AT_PEAK_IDLE] = stats->at_peak_idle,
        [VS_FIGURE_AT_PEAK_DEFERRED] = stats->at_peak_deferred,
    };
    memcpy(figure, values, sizeof values);
}

/* The device has no arena: it holds nothing. */
static bool holds_nothing(struct vs_served *s, struct vs_holding *h)
{
    vs_lock_take(&vs_served_making);
    bool known = !vs_served_arena(s) && !s->ending; /* else it is being taken apart, or was just made */
    if (known)
        *h = (struct vs_holding){.change = s->changes_before};
    vs_lock_give(&vs_served_making);
    return known;
}

bool vs_served_holds(int device, struct vs_holding *h)
{
    struct vs_served *s = &vs_served[device];
    struct vs_arena_stats stats;
    if (!vs_served_in())
        return false;
    struct vs_arena *arena = vs_served_arena(s);
    if (arena) {
        /* before the figures: these may be of a later change, and are asked for again then */
        uint64_t change = s->changes_before + vs_arena_changes(arena);
        vs_arena_stats(arena, &stats);
        *h = (struct vs_holding){change, stats.reserved, stats.idle, stats.deferred,
                                 stats.away + stats.parked};
    }
    vs_served_out();
    return arena || holds_nothing(s, h);
}

bool vs_served_figures(int device, bool at_once, uint64_t figure[VS_FIGURE_END])
{
    struct vs_served *s = &vs_served[device];
    struct vs_arena_stats stats;
    bool known = false, entered = vs_served_in();
    if (!entered && !(at_once && vs_serving)) /* a thread that exits inside is the last to look */
        return false;
    struct vs_arena *arena = vs_served_arena(s);
    if (arena && at_once) {
        known = vs_arena_stats_now(arena, &stats);
    } else if (arena) {
        vs_arena_stats(arena, &stats);
        known = true;
    }
    if (known)
        fill(figure, s, &stats);
    if (entered)
        vs_served_out();
    return known;
}

bool vs_served_ended(int device, uint64_t figure[VS_FIGURE_END])
{
    struct vs_served *s = &vs_served[device];
    /* relaxed: looked at again under the lock */
    if (!atomic_load_explicit(&s->has_ended, memory_order_relaxed) || !vs_served_in())
        return false;
    vs_lock_take(&vs_served_making);
    bool ended = atomic_exchange_explicit(&s->has_ended, false, memory_order_relaxed);
    if (ended)
        memcpy(figure, s->last, sizeof s->last);
    vs_lock_give(&vs_served_making);
    vs_served_out();
    return ended;
}

void vs_served_holds_begin(struct vs_served *s)
{
    s->number++;
    s->free_waits = 0;
}

void vs_served_holds_end(struct vs_served *s, struct vs_arena *arena)
{
    struct vs_arena_stats stats;
    vs_arena_stats(arena, &stats);
    fill(s->last, s, &stats);
    s->changes_before += vs_arena_changes(arena) + 1;
    atomic_store_explicit(&s->has_ended, true, memory_order_relaxed);
}
