/* arena.c - the functions of arena.h: the lock, the checks, the figures; policy.c decides. */
#define _GNU_SOURCE
#include "core/fork.h"
#include "internal.h"

#include <string.h>
#include <sys/mman.h>

#define DEFAULT_SMALL    (256u << 10)
#define DEFAULT_SLACK    15
#define DEFAULT_WAIT     40
#define DEFAULT_KEEP     4096
#define DEFAULT_RECORD   (32u << 20)
#define DEFAULT_MAPPINGS 450000u
#define DEFAULT_TRIM     64 /* of so many parts of the device, one */
#define LEAST_TRIM       (64u << 20)
#define LEAST_SLOTS      64u
#define MOST_SLOTS       (1u << 19) /* of a heap */
#define MOST_ALIASES     (1u << 21)

/* ---- making and unmaking ---- */

/* Arrays by slot are reserved whole: what is never touched costs nothing, and nothing ever moves. */
struct array {
    void **at;
    size_t bytes;
};

#define FLAT   12 /* arrays with one element of each slot */
#define ARRAYS (FLAT + LEVELS)

static void list_arrays(struct vs_arena *a, struct array list[ARRAYS])
{
    size_t slots = a->primary_slots, all = a->slots, bits = all;
    struct array arrays[FLAT] = {
        {(void **)&a->starts, all * sizeof *a->starts},
        {(void **)&a->used, slots},
        {(void **)&a->users, slots * sizeof *a->users},
        {(void **)&a->seq, slots * sizeof *a->seq},
        {(void **)&a->atom_of, slots * sizeof *a->atom_of},
        {(void **)&a->handle, slots * sizeof *a->handle},
        {(void **)&a->aliased, (slots / 64 + 1) * 8},
        {(void **)&a->watch, slots * sizeof *a->watch},
        {(void **)&a->away, (slots / 64 + 1) * 8},
        {(void **)&a->parked, (slots / 64 + 1) * 8},
        {(void **)&a->hidden, (slots / 64 + 1) * 8},
        {(void **)&a->parked_by, slots * sizeof *a->parked_by},
    };
    for (int i = 0; i < LEVELS; i++) {
        bits = (bits + 63) / 64;
        list[FLAT + i] = (struct array){(void **)&a->starting[i], (bits + 1) * 8};
    }
    memcpy(list, arrays, sizeof arrays);
}

static void unmap_arrays(struct vs_arena *a)
{
    struct array list[ARRAYS];
    list_arrays(a, list);
    for (int i = 0; i < ARRAYS; i++)
        if (*list[i].at)
            munmap(*list[i].at, list[i].bytes);
}

static int map_arrays(struct vs_arena *a)
{
    struct array list[ARRAYS];
    list_arrays(a, list);
    for (int i = 0; i < ARRAYS; i++) {
        void *p = vs_map(list[i].bytes);
        if (!p)
            return VS_BACKING_OUT_OF_MEMORY;
        madvise(p, list[i].bytes, MADV_NOHUGEPAGE); /* each heap touches a little of its part */
        *list[i].at = p;
    }
    return 0;
}

static void fill_config(struct vs_arena *a, const struct vs_arena_config *given)
{
    struct vs_arena_config *c = &a->config;
    *c = *given;
    c->small = c->small ? c->small : DEFAULT_SMALL;
    c->slack = c->slack ? c->slack : DEFAULT_SLACK;
    c->wait_slack = c->wait_slack ? c->wait_slack : DEFAULT_WAIT;
    c->keep_frees = c->keep_frees ? c->keep_frees : DEFAULT_KEEP;
    c->record_bytes = c->record_bytes ? c->record_bytes : DEFAULT_RECORD;
    uint64_t part = c->capacity / DEFAULT_TRIM;
    c->trim_above = c->trim_above ? c->trim_above : part > LEAST_TRIM ? part : LEAST_TRIM;
    c->max_mappings = c->max_mappings ? c->max_mappings : DEFAULT_MAPPINGS;
}

static void begin_heap(struct vs_arena *a, uint32_t heap, uint64_t slots)
{
    a->heap[heap] = (struct heap){.first = (uint32_t)(heap * slots),
                                  .limit = (uint32_t)slots,
                                  .last = NIL,
                                  .free = a->free_extents[heap],
                                  .vacant = &a->free_extents[heap][QUEUES]};
}

/* A window has room for half as much again as the device: places given back leave gaps. */
static void lay_out(struct vs_arena *a)
{
    uint64_t want = a->config.capacity / chunk_bytes(a) * 3 / 2, slots = LEAST_SLOTS;
    while (slots < want && slots < MOST_SLOTS)
        slots *= 2;
    a->heap_shift = (unsigned)__builtin_ctzll(slots);
    a->primary_slots = (uint32_t)(slots * HEAPS);
    for (uint32_t h = 0; h <= HEAPS; h++)
        begin_heap(a, h, slots);
    for (slots = LEAST_SLOTS; slots < 2 * a->config.max_mappings && slots < MOST_ALIASES;)
        slots *= 2; /* twice what may be mapped: removed alias mappings leave gaps, too */
    a->heap[ALIASES].limit = (uint32_t)slots;
    a->slots = a->primary_slots + a->heap[ALIASES].limit;
}

int vs_arena_create(struct vs_arena **arena, const struct vs_backing *b, const struct vs_arena_config *c)
{
    if (b->chunk < 2 * VS_ARENA_UNIT || b->chunk & (b->chunk - 1) || c->small >= b->chunk)
        return VS_BACKING_INVALID;
    struct vs_arena *a = vs_map(sizeof *a);
    if (!a)
        return VS_BACKING_OUT_OF_MEMORY;
    vs_fork_wipes(&a->gate, sizeof a->gate, NULL);
    a->gate.lock = (struct vs_lock)VS_LOCK(ARENA);
    a->gate.here = 1;
    a->backing = *b;
    a->shift = (unsigned)__builtin_ctzll(b->chunk);
    a->spare_extents = a->spare_atoms = a->spare_aliases = a->oldest_idle = a->youngest_idle = NIL;
    a->oldest_free_extent = a->newest_free_extent = NIL;
    a->queue[VS_ARENA_ANY].stream = VS_BACKING_DEVICE;
    fill_config(a, c);
    lay_out(a);
    vs_surplus_begin(a);
    if (map_arrays(a) != 0) {
        unmap_arrays(a);
        munmap(a, sizeof *a);
        return VS_BACKING_OUT_OF_MEMORY;
    }
    *arena = a;
    return 0;
}

static void unmap_aliases(struct vs_arena *a)
{
    for (uint32_t i = 0; i < a->aliases; i++) {
        struct alias *v = &a->alias[i];
        if (!v->count)
            continue;
        uint32_t slot = slot_of(a, a->extent[v->extent].at), end = slot + v->count;
        for (struct run r = {slot, 0}; (r = vs_slots_mapped(a, r.first + r.count, end)).count;)
            a->backing.unmap(a->backing.context, address_of(a, place_of(a, r.first)), place_of(a, r.count));
        vs_meta_give(&a->meta, v->run, v->run_room * sizeof *v->run);
    }
}

static void release_chunks(struct vs_arena *a)
{
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first, n; g < a->heap[h].first + a->heap[h].top; g += n) {
            n = vs_group(a, g).count;
            if (!a->handle[g])
                continue;
            a->backing.unmap(a->backing.context, address_of(a, place_of(a, g)), place_of(a, n));
            a->backing.release(a->backing.context, a->handle[g]);
        }
}

static void forget_events(struct vs_arena *a)
{
    for (uint32_t i = 0; i < QUEUES; i++)
        for (struct queue *l = &a->queue[i]; l->events;
             l->events--, l->first_event = (l->first_event + 1) % EVENTS)
            a->backing.forget(a->backing.context, l->event[l->first_event].handle);
}

static void give_books(struct vs_arena *a)
{
    struct vs_meta *m = &a->meta;
    for (uint32_t i = 0; i < a->atoms; i++)
        vs_meta_give(m, a->atom[i].aliases, a->atom[i].capacity * sizeof *a->atom[i].aliases);
    for (uint32_t i = 0; i < a->classes; i++) {
        struct alias_class *c = &a->class[i];
        vs_meta_give(m, c->aliases, c->capacity * sizeof *c->aliases);
        vs_meta_give(m, c->bits, c->words * sizeof *c->bits);
    }
    vs_meta_give(m, a->by_count, a->by_count_room * sizeof *a->by_count);
    vs_meta_give(m, a->extent, a->extent_room * sizeof *a->extent);
    vs_meta_give(m, a->atom, a->atom_room * sizeof *a->atom);
    vs_meta_give(m, a->alias, a->alias_room * sizeof *a->alias);
    vs_meta_give(m, a->class, a->class_room * sizeof *a->class);
    vs_meta_give(m, a->mapping, a->mapping_room * sizeof *a->mapping);
    vs_meta_give(m, a->renamed, a->renamed_room * sizeof *a->renamed);
    vs_meta_give(m, a->deferred, a->deferred_room * sizeof *a->deferred);
    vs_meta_give(m, a->late, a->late_room * sizeof *a->late);
    vs_meta_give(m, a->cell, a->cell ? (a->cell_mask + 1ull) * sizeof *a->cell : 0);
    vs_meta_destroy(m);
}

void vs_arena_destroy(struct vs_arena *a)
{
    if (!a->gate.here)
        return;
    unmap_aliases(a);
    release_chunks(a);
    forget_events(a);
    for (uint32_t h = 0; h <= HEAPS; h++)
        if (a->heap[h].base)
            a->backing.unreserve(a->backing.context, a->heap[h].base, place_of(a, a->heap[h].limit));
    give_books(a);
    unmap_arrays(a);
    munmap(a, sizeof *a);
}

/* ---- blocks ---- */

static void note_peak(struct vs_arena *a)
{
    a->stats.at_peak_reserved = a->stats.reserved;
    a->stats.at_peak_idle = a->idle << a->shift;
    a->stats.at_peak_deferred = a->stats.deferred;
}

static void count_ordered(struct vs_arena_stats *s, uint64_t size)
{
    s->ordered += size;
    s->high_ordered = s->ordered > s->high_ordered ? s->ordered : s->high_ordered;
}

/* SIZE bytes more are alive, for the policy to count with. */
static void count_live(struct vs_arena *a, uint64_t size)
{
    struct vs_arena_stats *s = &a->stats;
    s->allocated += size;
    if (s->allocated > s->peak_allocated)
        s->peak_allocated = s->allocated;
    if (live_here(a) > a->wanted)
        a->wanted = live_here(a);
}

/* Makes the extent, which was found for it, a block. */
static uint64_t begin_block(struct vs_arena *a, uint32_t extent, uint32_t queue, unsigned flags,
                            uint64_t requested)
{
    struct extent *t = &a->extent[extent];
    uint64_t address = address_of(a, t->at);
    t->requested = requested;
    t->queue = (uint8_t)queue;
    t->ordered = flags & VS_MALLOC_ORDERED;
    if (t->ordered)
        count_ordered(&a->stats, rounded(requested));
    vs_blocks_put(a, address, extent);
    a->stats.blocks++;
    a->stats.mallocs++;
    return address;
}

/* A flag of place_block's own: the device was waited for, so everything may be tried.  Without it the answer
 * may be NOT_SYNCHRONIZED, and then nothing has changed. */
#define AFTER_WAIT 0x100u

static int place_block(struct vs_arena *a, uint32_t queue, unsigned flags, uint64_t requested,
                       uint64_t *address)
{
    uint32_t extent;
    struct vs_arena_stats *s = &a->stats;
    if (a->gate.closed)
        return VS_BACKING_NOT_READY;
    if (queue >= QUEUES || (queue && !a->queue[queue].open))
        return VS_BACKING_INVALID;
    if (!a->queue[queue].open)
        vs_queue_begin(a, queue);
    if (vs_blocks_reserve(a) != 0 ||
        vs_extents_reserve(a, s->blocks + 1, a->live_aliases, a->primary_top) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    uint64_t size = rounded(requested), peak = s->peak_allocated, wanted = a->wanted;
    count_live(a, size);
    int status = vs_policy_place(a, queue, size, flags & AFTER_WAIT, &extent);
    if (status != 0) { /* what was refused never lived */
        s->allocated -= size;
        s->peak_allocated = peak;
        a->wanted = wanted;
        return status;
    }
    *address = begin_block(a, extent, queue, flags, requested);
    if (s->allocated > peak)
        note_peak(a);
    s->high_allocated = s->allocated > s->high_allocated ? s->allocated : s->high_allocated;
    return 0;
}

/* Whether blocks go for the request before the device is waited for: while there is a headroom its caller can
 * send some, whose memory a stream can wait for.  What other frees wait for would not be enough.  A private
 * queue never gets what they leave. */
static bool sends_instead(const struct vs_arena *a, uint32_t queue, uint64_t size)
{
    const struct queue *l = &a->queue[queue];
    bool can_wait = queue != VS_ARENA_ANY && !l->retired && !l->private && !a->config.no_stream_waits;
    return a->config.headroom != 0 && can_wait && a->stats.deferred < size;
}

int vs_arena_malloc_as(struct vs_arena *a, uint32_t queue, unsigned flags, uint64_t size, uint64_t *address)
{
    if (size > place_of(a, a->heap[0].limit)) /* more than any device has */
        return VS_BACKING_OUT_OF_MEMORY;
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = place_block(a, queue, flags, size, address);
    if (__builtin_expect(status == NOT_SYNCHRONIZED && sends_instead(a, queue, size), 0)) {
        status = VS_BACKING_OUT_OF_MEMORY;
    } else if (__builtin_expect(status == NOT_SYNCHRONIZED, 0)) {
        vs_synchronize_outside(a); /* where it cannot be done now, what is known to be complete has to do */
        status = place_block(a, queue, flags | AFTER_WAIT, size, address);
    }
    vs_leave(a);
    return status;
}

static int defer(struct vs_arena *a, uint32_t extent, uint32_t queues, bool wait)
{
    if (vs_deferred_add(a, extent, queues) == 0) {
        if (wait)
            vs_deferred_waiting_free(a);
        else
            vs_deferred_shorten(a, false);
        return 0;
    }
    if (!a->extent[extent].pins && vs_synchronize(a) == 0) { /* no memory to remember it: wait instead */
        vs_free_block(a, extent);
        return 0;
    }
    a->stats.lost_blocks++;
    a->extent[extent].doomed = true;
    return 0;
}

static int free_block(struct vs_arena *a, uint64_t address, uint32_t queue, unsigned flags)
{
    uint32_t extent = vs_blocks_get(a, address);
    if (extent == NIL || a->extent[extent].doomed || queue >= QUEUES || (queue && !a->queue[queue].open))
        return VS_BACKING_INVALID;
    const struct extent *t = &a->extent[extent];
    uint32_t others = t->others;
    if (queue != t->queue && queue != VS_ARENA_ANY)
        others |= 1u << queue;
    a->stats.frees++;
    a->stats.allocated -= rounded(t->requested);
    a->stats.ordered -= t->ordered ? rounded(t->requested) : 0;
    if (__builtin_expect(others || t->pins || flags & VS_FREE_DEFER, 0)) {
        vs_parked_free(a, t);
        return defer(a, extent, flags & VS_FREE_DEFER ? ALL_QUEUES : others, flags == VS_FREE_DEFER);
    }
    vs_free_block(a, extent);
    return 0;
}

int vs_arena_free(struct vs_arena *a, uint64_t address, uint32_t queue, unsigned flags)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = free_block(a, address, queue, flags);
    if (__builtin_expect(--a->surplus.left == 0, 0))
        vs_surplus_look(a);
    vs_leave(a);
    return status;
}

int vs_arena_use(struct vs_arena *a, uint64_t address, uint32_t queue)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t extent = vs_live_at(a, address);
    if (queue == VS_ARENA_ANY)
        vs_queue_begin(a, queue); /* its work is not reported by any queue */
    bool valid = extent != NIL && queue < QUEUES && a->queue[queue].open;
    if (valid && queue != a->extent[extent].queue)
        a->extent[extent].others |= 1u << queue;
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

int vs_arena_pin(struct vs_arena *a, uint64_t address)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t extent = vs_live_at(a, address);
    bool valid = extent != NIL && a->extent[extent].pins < UINT16_MAX && !a->extent[extent].has_left &&
                 !a->gate.closed;
    if (valid)
        a->extent[extent].pins++;
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

int vs_arena_unpin(struct vs_arena *a, uint64_t address)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t extent = vs_blocks_get(a, address);
    bool valid = extent != NIL && a->extent[extent].pins && !a->extent[extent].has_left;
    if (valid && --a->extent[extent].pins == 0 && a->extent[extent].doomed)
        vs_deferred_poll(a);
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

/* ---- the whole ---- */

int vs_arena_trim(struct vs_arena *a, uint64_t keep)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = vs_synchronize_outside(a);
    if (status == 0 && a->gate.closed)
        status = VS_BACKING_NOT_READY;
    if (status == 0 || status == VS_BACKING_NOT_READY) /* then what is known to be complete has to do */
        vs_supply_give_back(a, keep >> a->shift);
    uint64_t rest = keep == 0 ? live_here(a) : held(a);
    if (!a->gate.closed && rest < a->wanted)
        a->wanted = rest; /* what comes is not what was */
    vs_leave(a);
    return status;
}

/* Those that are away get the set that holds when they come back. */
static int grant_slots(struct vs_arena *a, uint32_t first, uint32_t end, uint64_t peers)
{
    int status = 0;
    for (struct run r = {first, 0}; status == 0 && (r = vs_slots_mapped(a, r.first + r.count, end)).count;)
        status = a->backing.access(a->backing.context, address_of(a, place_of(a, r.first)),
                                   place_of(a, r.count), peers);
    return status;
}

static int grant_heap(struct vs_arena *a, uint32_t heap, uint64_t peers)
{
    const struct heap *h = &a->heap[heap];
    int status = 0;
    for (uint32_t extent = h->top ? h->last : NIL; extent != NIL && status == 0;
         extent = a->extent[extent].prev) {
        const struct extent *t = &a->extent[extent];
        uint32_t first = slot_of(a, t->at + chunk_bytes(a) - 1), end = slot_of(a, t->at + t->size - 1) + 1;
        bool mapped =
            heap == ALIASES ? t->state == EXTENT_ALIAS && t->alias != NIL : t->state != EXTENT_VACANT;
        while (shares_handle(a, first)) /* all that one handle has, once more for each extent in it */
            first--;
        while (shares_handle(a, end))
            end++;
        if (mapped && first < end) /* a chunk belongs to the extent that it begins in */
            status = grant_slots(a, first, end, peers);
    }
    return status;
}

int vs_arena_set_peers(struct vs_arena *a, uint64_t peers)
{
    int status = 0;
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    for (uint32_t h = 0; h <= HEAPS && status == 0; h++)
        status = grant_heap(a, h, peers);
    if (status == 0)
        a->peers = peers;
    vs_leave(a);
    return status;
}

static void read_stats(const struct vs_arena *a, struct vs_arena_stats *stats)
{
    *stats = a->stats;
    stats->idle = (a->idle - vs_away_idle(a)) << a->shift;
    stats->aliases = a->live_aliases;
}

void vs_arena_stats(struct vs_arena *a, struct vs_arena_stats *stats)
{
    *stats = (struct vs_arena_stats){0};
    if (!vs_enter(a))
        return;
    read_stats(a, stats);
    vs_leave(a);
}

bool vs_arena_stats_now(struct vs_arena *a, struct vs_arena_stats *stats)
{
    if (!vs_lock_try(&a->gate.lock))
        return false;
    const bool here = a->gate.here;
    if (here)
        read_stats(a, stats);
    vs_leave(a);
    return here;
}

uint64_t vs_arena_changes(const struct vs_arena *a)
{
    return __atomic_load_n(&a->changes, __ATOMIC_ACQUIRE);
}

void vs_arena_high_from_now(struct vs_arena *a, unsigned which)
{
    if (!vs_enter(a))
        return;
    if (which & VS_HIGH_RESERVED)
        a->stats.high_reserved = a->stats.reserved;
    if (which & VS_HIGH_ORDERED)
        a->stats.high_ordered = a->stats.ordered;
    if (which & VS_HIGH_ALLOCATED)
        a->stats.high_allocated = a->stats.allocated;
    vs_leave(a);
}

uint64_t vs_arena_reserved(const struct vs_arena *a)
{
    return __atomic_load_n(&a->stats.reserved, __ATOMIC_RELAXED); /* a number by itself */
}

uint64_t vs_arena_idle(const struct vs_arena *a)
{
    return __atomic_load_n(&a->idle, __ATOMIC_RELAXED) << a->shift; /* likewise */
}
