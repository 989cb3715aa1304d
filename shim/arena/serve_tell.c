/*
 * serve_tell.c - the arenas' part of the record: what they hold, and their figures.
 *
 *      thread A: malloc, which grows the arena          told: 40 MiB   block a
 *      thread B:          malloc in what has grown                              block b
 *
 * Before a block's event what its arena holds is told, if it has changed since it was told last.  So whenever
 * a block is in the record, memory for it and all others is: what is told was read after the block was made,
 * and blocks that are recorded as living do live.  Whether it changed is one comparison: the arena counts its
 * changes, and `told` is up to which of them is in the record.  Holding less (after a trim) is told with the
 * next call that the arena serves.
 *
 * The figures of arena.h are sampled by the threads that it serves: after its first request, the 2nd, the
 * 4th, then after each 32nd part more (4 requests at least, 4096 at most), so that any part of a run can be
 * told from another one by a few samples, and what a kill takes away is little.  A thread looks at such a
 * pace of its own whether one is due.
 */
#include "hooks/hook.h"
#include "served.h"

#include <string.h>

#define SAMPLE_LEAST 4u
#define SAMPLE_MOST  4096u
#define SAMPLE_PART  32u

static _Atomic int devices;                /* up to the last one that has had an arena */
static __thread uint64_t calls, next_look; /* of this thread */
static __thread bool due;                  /* it has something to tell */

/* ---- what is held ---- */

static void tell_reserved(struct vs_served *s, uint64_t change, const struct vs_arena_stats *stats)
{
    int device = (int)(s - vs_served);
    vs_place_prepare(CUDA_SUCCESS);
    vs_place_announce(device);
    struct vs_event event = {.op = VS_OP_ARENA_RESERVED,
                             .space = VS_SPACE_ARENA,
                             .device = (int8_t)device,
                             .size = stats->reserved,
                             .arg0 = stats->idle,
                             .arg1 = stats->deferred};
    if (vs_record(&event) != VS_SEQ_NONE)
        __atomic_store_n(&s->told, change, __ATOMIC_RELEASE); /* after the event: who sees it may record */
}

/* Where nothing is recorded there is nobody to tell, and whatever it is stays untold. */
static bool is_untold(const struct vs_served *s, const struct vs_arena *arena)
{
    /* acquire: pairs with the release above */
    return __atomic_load_n(&s->told, __ATOMIC_ACQUIRE) != vs_arena_changes(arena) && vs_record_takes();
}

static void tell_change(struct vs_served *s)
{
    struct vs_arena *arena = vs_served_arena(s);
    struct vs_arena_stats stats;
    if (!arena || !is_untold(s, arena))
        return;
    vs_lock_take(&s->telling);
    uint64_t change =
        vs_arena_changes(arena); /* before the figures: these may be of a later one, told again */
    if (__atomic_load_n(&s->told, __ATOMIC_RELAXED) != change) {
        vs_arena_stats(arena, &stats);
        tell_reserved(s, change, &stats);
    }
    vs_lock_give(&s->telling);
}

/* ---- figures ---- */

static uint64_t until_next(uint64_t done)
{
    uint64_t more = done / SAMPLE_PART;
    if (done < SAMPLE_LEAST)
        return done ? done : 1;
    return more < SAMPLE_LEAST ? SAMPLE_LEAST : more > SAMPLE_MOST ? SAMPLE_MOST : more;
}

static void fill(uint64_t figure[VS_FIGURE_END], const struct vs_served *s,
                 const struct vs_arena_stats *stats)
{
    const uint64_t values[VS_FIGURE_END] = {
        [VS_FIGURE_NUMBER] = s->number,
        [VS_FIGURE_MALLOCS] = stats->mallocs,
        [VS_FIGURE_FREES] = stats->frees,
        [VS_FIGURE_HITS] = stats->hits,
        [VS_FIGURE_VIEW_HITS] = stats->view_hits,
        [VS_FIGURE_DRIVER_CALLS] = __atomic_load_n(&s->cuda.memory_calls, __ATOMIC_RELAXED),
        [VS_FIGURE_CREATED] = stats->created,
        [VS_FIGURE_RELEASED] = stats->released,
        [VS_FIGURE_ALIASED] = stats->aliased,
        [VS_FIGURE_UNMAPPED] = stats->unmapped,
        [VS_FIGURE_ORDER_CALLS] = __atomic_load_n(&s->cuda.order_calls, __ATOMIC_RELAXED),
        [VS_FIGURE_FOLLOWS] = stats->follows,
        [VS_FIGURE_SETTLES] = stats->settles,
        [VS_FIGURE_FREE_WAITS] = __atomic_load_n(&s->free_waits, __ATOMIC_RELAXED),
        [VS_FIGURE_EVICTED] = stats->evicted,
        [VS_FIGURE_LOST] = stats->lost,
        [VS_FIGURE_LOST_BLOCKS] = stats->lost_blocks,
        [VS_FIGURE_BLOCKS] = stats->blocks,
        [VS_FIGURE_LANES] = stats->lanes,
        [VS_FIGURE_VIEWS] = stats->views,
        [VS_FIGURE_MAPPINGS] = stats->mappings,
        [VS_FIGURE_PEAK_MAPPINGS] = stats->peak_mappings,
        [VS_FIGURE_GRANULE] = s->cuda.granule,
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

/* With `telling` held: the parts of two samples of one device never mix. */
static void record_figures(struct vs_served *s, const struct vs_arena_stats *stats, bool last)
{
    uint64_t f[VS_FIGURE_END], requests = stats->mallocs + stats->frees;
    if (requests < s->sampled + (last ? 1 : until_next(s->sampled)))
        return;
    s->sampled = requests;
    s->samples++;
    fill(f, s, stats);
    for (uint32_t part = 0; part < VS_FIGURE_PARTS; part++) {
        struct vs_event event = {.op = VS_OP_ARENA_FIGURES,
                                 .space = VS_SPACE_ARENA,
                                 .device = (int8_t)(s - vs_served),
                                 .range = s->samples,
                                 .stack = part,
                                 .address = f[4 * part],
                                 .size = f[4 * part + 1],
                                 .arg0 = f[4 * part + 2],
                                 .arg1 = f[4 * part + 3]};
        vs_record(&event);
    }
}

static void sample(struct vs_served *s, struct vs_arena *arena, bool last)
{
    struct vs_arena_stats stats;
    vs_lock_take(&s->telling);
    vs_arena_stats(arena, &stats);
    record_figures(s, &stats, last);
    vs_lock_give(&s->telling);
}

static void sample_if_due(struct vs_served *s, struct vs_arena *arena)
{
    sample(s, arena, false);
}

/* At the exit, which may be called by a signal handler that interrupted this very thread within a lock: not
 * where one is held. */
static void sample_unless_held(struct vs_served *s, struct vs_arena *arena)
{
    struct vs_arena_stats stats;
    if (!vs_lock_try(&s->telling))
        return;
    if (vs_arena_stats_now(arena, &stats))
        record_figures(s, &stats, true);
    vs_lock_give(&s->telling);
}

/* Relaxed: a thread that an arena serves has seen it, and with it the count. */
static int known_devices(void)
{
    return atomic_load_explicit(&devices, memory_order_relaxed);
}

/* Within, as in whatever looks at an arena: it must not end meanwhile.  *ENTERED: with a call of
 * vs_served_out to come; else this thread is inside already, or there is nothing to look at. */
static bool inside(bool *entered)
{
    *entered = vs_served_in();
    return *entered || vs_serving;
}

static void sample_all(void (*one)(struct vs_served *, struct vs_arena *))
{
    for (int i = 0; i < known_devices(); i++) {
        struct vs_arena *arena = vs_served_arena(&vs_served[i]);
        if (arena)
            one(&vs_served[i], arena);
    }
}

/* ---- when ---- */

void vs_served_look(const struct vs_served *s, const struct vs_arena *arena)
{
    if (++calls >= next_look || is_untold(s, arena))
        due = true;
}

/* Inside, or with a call of vs_served_out to come. */
static void look_at_figures(void)
{
    if (calls < next_look)
        return;
    next_look = calls + until_next(calls);
    sample_all(sample_if_due);
}

void vs_served_tell(struct vs_served *s)
{
    bool entered;
    if (!inside(&entered))
        return;
    calls++;
    tell_change(s);
    look_at_figures();
    if (entered)
        vs_served_out();
}

/* After a call of the program's, with the record's turn: what that left to tell. */
static void tell_all(void)
{
    bool entered;
    if (!due || !inside(&entered))
        return;
    due = false;
    for (int i = 0; i < known_devices(); i++)
        tell_change(&vs_served[i]);
    look_at_figures();
    if (entered)
        vs_served_out();
}

static void at_exit(void)
{
    bool entered;
    if (!inside(&entered))
        return;
    sample_all(sample_unless_held);
    if (entered)
        vs_served_out();
}

void vs_served_tell_begin(struct vs_served *s)
{
    int end = (int)(s - vs_served) + 1;
    s->number++;
    s->free_waits = 0;
    if (end > known_devices()) /* one at a time: under the lock that makes arenas */
        atomic_store_explicit(&devices, end, memory_order_relaxed);
}

void vs_served_tell_end(struct vs_served *s, struct vs_arena *arena)
{
    static const struct vs_arena_stats nothing;
    sample(s, arena, true);
    vs_lock_take(&s->telling);
    tell_reserved(s, 0, &nothing);
    s->sampled = 0;
    __atomic_store_n(&s->told, 0, __ATOMIC_RELAXED); /* whatever was recorded: the next one begins there */
    vs_lock_give(&s->telling);
}

void vs_serve_install_tell(void)
{
    vs_override_after = tell_all;
    vs_record_at_exit = at_exit;
}
