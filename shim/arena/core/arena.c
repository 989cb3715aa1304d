/*
 * arena.c - the functions of arena.h: the lock, the checks, the figures; policy.c decides.
 */
#define _GNU_SOURCE
#include "core/fork.h"
#include "internal.h"

#include <string.h>
#include <sys/mman.h>

#define DEFAULT_SMALL    (256u << 10)
#define DEFAULT_SLACK    15
#define DEFAULT_WAIT     40
#define DEFAULT_KEEP     4096
#define DEFAULT_MARK     (32u << 20)
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

#define ARRAYS (7 + LEVELS)

static void list_arrays(struct vs_arena *a, struct array list[ARRAYS])
{
    size_t home = a->home_slots, all = a->slots, bits = all;
    struct array arrays[7] = {
        {(void **)&a->starts, all * sizeof *a->starts},    {(void **)&a->used, home},
        {(void **)&a->users, home * sizeof *a->users},     {(void **)&a->seq, home * sizeof *a->seq},
        {(void **)&a->atom_of, home * sizeof *a->atom_of}, {(void **)&a->handle, home * sizeof *a->handle},
        {(void **)&a->aliased, (home / 64 + 1) * 8},
    };
    for (int i = 0; i < LEVELS; i++) {
        bits = (bits + 63) / 64;
        list[7 + i] = (struct array){(void **)&a->starting[i], (bits + 1) * 8};
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
        void *p = mmap(NULL, list[i].bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
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
    c->mark_bytes = c->mark_bytes ? c->mark_bytes : DEFAULT_MARK;
    uint64_t part = c->capacity / DEFAULT_TRIM;
    c->trim_above = c->trim_above ? c->trim_above : part > LEAST_TRIM ? part : LEAST_TRIM;
    c->max_mappings = c->max_mappings ? c->max_mappings : DEFAULT_MAPPINGS;
}

static void begin_heap(struct vs_arena *a, uint32_t heap, uint64_t slots)
{
    a->heap[heap] = (struct heap){.first = (uint32_t)(heap * slots),
                                  .limit = (uint32_t)slots,
                                  .last = NIL,
                                  .free = a->holes[heap],
                                  .vacant = &a->holes[heap][LANES]};
}

/* A window has room for half as much again as the device: places given back leave gaps. */
static void lay_out(struct vs_arena *a)
{
    uint64_t want = a->config.capacity / granule_bytes(a) * 3 / 2, slots = LEAST_SLOTS;
    while (slots < want && slots < MOST_SLOTS)
        slots *= 2;
    a->heap_shift = (unsigned)__builtin_ctzll(slots);
    a->home_slots = (uint32_t)(slots * HEAPS);
    for (uint32_t h = 0; h <= HEAPS; h++)
        begin_heap(a, h, slots);
    for (slots = LEAST_SLOTS; slots < 2 * a->config.max_mappings && slots < MOST_ALIASES;)
        slots *= 2; /* twice what may be mapped: removed views leave gaps, too */
    a->heap[ALIASES].limit = (uint32_t)slots;
    a->slots = a->home_slots + a->heap[ALIASES].limit;
}

int vs_arena_create(struct vs_arena **arena, const struct vs_backing *b, const struct vs_arena_config *c)
{
    if (b->granule < 2 * VS_ARENA_UNIT || b->granule & (b->granule - 1) || c->small >= b->granule)
        return VS_BACKING_INVALID;
    struct vs_arena *a =
        mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a == MAP_FAILED)
        return VS_BACKING_OUT_OF_MEMORY;
    vs_fork_wipes(&a->gate, sizeof a->gate, NULL);
    a->gate.lock = (struct vs_lock)VS_LOCK(ARENA);
    a->gate.here = 1;
    a->backing = *b;
    a->shift = (unsigned)__builtin_ctzll(b->granule);
    a->spare_tiles = a->spare_atoms = a->spare_views = a->oldest_idle = a->youngest_idle = NIL;
    a->oldest_hole = a->newest_hole = NIL;
    a->lane[VS_ARENA_ANY].stream = VS_BACKING_DEVICE;
    fill_config(a, c);
    lay_out(a);
    vs_surplus_begin(a);
    a->lane[VS_ARENA_ANY].plain = c->plain;
    if (map_arrays(a) != 0) {
        unmap_arrays(a);
        munmap(a, sizeof *a);
        return VS_BACKING_OUT_OF_MEMORY;
    }
    *arena = a;
    return 0;
}

static void unmap_views(struct vs_arena *a)
{
    for (uint32_t i = 0; i < a->views; i++) {
        struct view *v = &a->view[i];
        if (!v->count)
            continue;
        a->backing.unmap(a->backing.context, address_of(a, a->tile[v->tile].at), place_of(a, v->count));
        vs_meta_give(&a->meta, v->run, v->run_room * sizeof *v->run);
    }
}

static void release_granules(struct vs_arena *a)
{
    for (uint32_t h = 0; h < HEAPS; h++)
        for (uint32_t g = a->heap[h].first; g < a->heap[h].first + a->heap[h].top; g++)
            if (a->used[g] != ABSENT) {
                a->backing.unmap(a->backing.context, address_of(a, place_of(a, g)), granule_bytes(a));
                a->backing.release(a->backing.context, a->handle[g]);
            }
}

static void forget_marks(struct vs_arena *a)
{
    for (uint32_t i = 0; i < LANES; i++)
        for (struct lane *l = &a->lane[i]; l->marks; l->marks--, l->first_mark = (l->first_mark + 1) % MARKS)
            a->backing.forget(a->backing.context, l->mark[l->first_mark].handle);
}

static void give_books(struct vs_arena *a)
{
    struct vs_meta *m = &a->meta;
    for (uint32_t i = 0; i < a->atoms; i++)
        vs_meta_give(m, a->atom[i].views, a->atom[i].capacity * sizeof *a->atom[i].views);
    for (uint32_t i = 0; i < a->classes; i++) {
        struct view_class *c = &a->class[i];
        vs_meta_give(m, c->views, c->capacity * sizeof *c->views);
        vs_meta_give(m, c->bits, c->words * sizeof *c->bits);
    }
    vs_meta_give(m, a->by_count, a->by_count_room * sizeof *a->by_count);
    vs_meta_give(m, a->tile, a->tile_room * sizeof *a->tile);
    vs_meta_give(m, a->atom, a->atom_room * sizeof *a->atom);
    vs_meta_give(m, a->view, a->view_room * sizeof *a->view);
    vs_meta_give(m, a->class, a->class_room * sizeof *a->class);
    vs_meta_give(m, a->deferred, a->deferred_room * sizeof *a->deferred);
    vs_meta_give(m, a->late, a->late_room * sizeof *a->late);
    vs_meta_give(m, a->cell, a->cell ? (a->cell_mask + 1ull) * sizeof *a->cell : 0);
    vs_meta_destroy(m);
}

void vs_arena_destroy(struct vs_arena *a)
{
    if (!a->gate.here)
        return;
    unmap_views(a);
    release_granules(a);
    forget_marks(a);
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

/* A flag of place_block's own: the device was waited for, and all may be tried.  Without it NOT_SETTLED is
 * the answer where that is needed, and nothing has changed. */
#define AFTER_WAIT 0x100u

static int place_block(struct vs_arena *a, uint32_t lane, unsigned flags, uint64_t asked, uint64_t *address)
{
    uint32_t tile;
    struct vs_arena_stats *s = &a->stats;
    if (lane >= LANES || (lane && !a->lane[lane].open))
        return VS_BACKING_INVALID;
    if (!a->lane[lane].open)
        vs_lane_begin(a, lane);
    if (vs_blocks_reserve(a) != 0 ||
        vs_tiles_reserve(a, s->blocks + 1, a->live_views, a->home_tiles_top) != 0)
        return VS_BACKING_OUT_OF_MEMORY;
    uint64_t size = rounded(asked), peak = s->peak_allocated, wanted = a->wanted;
    s->allocated += size;
    s->peak_allocated = s->allocated > peak ? s->allocated : peak;
    a->wanted = s->allocated > wanted ? s->allocated : wanted;
    int status = vs_policy_place(a, lane, size, flags & AFTER_WAIT, &tile);
    if (status != 0) {
        s->allocated -= size;
        s->peak_allocated = peak;
        a->wanted = wanted;
        return status;
    }
    struct tile *t = &a->tile[tile];
    t->asked = asked;
    t->lane = (uint8_t)lane;
    t->ordered = flags & VS_MALLOC_ORDERED;
    if (t->ordered)
        count_ordered(s, size);
    *address = address_of(a, t->at);
    vs_blocks_put(a, *address, tile);
    if (s->allocated > peak)
        note_peak(a);
    s->blocks++;
    s->mallocs++;
    return 0;
}

int vs_arena_malloc_as(struct vs_arena *a, uint32_t lane, unsigned flags, uint64_t size, uint64_t *address)
{
    if (size > place_of(a, a->heap[0].limit)) /* more than any device has */
        return VS_BACKING_OUT_OF_MEMORY;
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = place_block(a, lane, flags, size, address);
    if (__builtin_expect(status == NOT_SETTLED, 0)) {
        vs_settle_outside(a); /* where it cannot be done now, what is known to be complete has to do */
        status = place_block(a, lane, flags | AFTER_WAIT, size, address);
    }
    vs_leave(a);
    return status;
}

static int defer(struct vs_arena *a, uint32_t tile, uint32_t lanes, bool wait)
{
    if (vs_deferred_add(a, tile, lanes) == 0) {
        if (wait)
            vs_deferred_waiting_free(a);
        else
            vs_deferred_shorten(a, false);
        return 0;
    }
    if (!a->tile[tile].pins && vs_settle(a) == 0) { /* no memory to remember it: wait instead */
        vs_free_block(a, tile);
        return 0;
    }
    a->stats.lost_blocks++;
    a->tile[tile].doomed = true;
    return 0;
}

static int free_block(struct vs_arena *a, uint64_t address, uint32_t lane, unsigned flags)
{
    uint32_t tile = vs_blocks_get(a, address);
    if (tile == NIL || a->tile[tile].doomed || lane >= LANES || (lane && !a->lane[lane].open))
        return VS_BACKING_INVALID;
    const struct tile *t = &a->tile[tile];
    uint32_t others = t->others;
    if (lane != t->lane && lane != VS_ARENA_ANY)
        others |= 1u << lane;
    a->stats.frees++;
    a->stats.allocated -= rounded(t->asked);
    a->stats.ordered -= t->ordered ? rounded(t->asked) : 0;
    if (__builtin_expect(others || t->pins || flags & VS_FREE_DEFER, 0))
        return defer(a, tile, flags & VS_FREE_DEFER ? ALL_LANES : others, flags == VS_FREE_DEFER);
    vs_free_block(a, tile);
    return 0;
}

int vs_arena_free(struct vs_arena *a, uint64_t address, uint32_t lane, unsigned flags)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = free_block(a, address, lane, flags);
    if (__builtin_expect(--a->surplus.left == 0, 0))
        vs_surplus_look(a);
    vs_leave(a);
    return status;
}

int vs_arena_use(struct vs_arena *a, uint64_t address, uint32_t lane)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t tile = vs_live_at(a, address);
    if (lane == VS_ARENA_ANY)
        vs_lane_begin(a, lane); /* work that no lane tells of */
    bool valid = tile != NIL && lane < LANES && a->lane[lane].open;
    if (valid && lane != a->tile[tile].lane)
        a->tile[tile].others |= 1u << lane;
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

int vs_arena_pin(struct vs_arena *a, uint64_t address)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t tile = vs_live_at(a, address);
    bool valid = tile != NIL && a->tile[tile].pins < UINT16_MAX;
    if (valid)
        a->tile[tile].pins++;
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

int vs_arena_unpin(struct vs_arena *a, uint64_t address)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    uint32_t tile = vs_blocks_get(a, address);
    bool valid = tile != NIL && a->tile[tile].pins;
    if (valid && --a->tile[tile].pins == 0 && a->tile[tile].doomed)
        vs_deferred_poll(a);
    vs_leave(a);
    return valid ? 0 : VS_BACKING_INVALID;
}

/* ---- the whole ---- */

uint64_t vs_arena_ticket(struct vs_arena *a)
{
    if (!vs_enter(a))
        return 0;
    uint64_t ticket = a->seq_now;
    vs_leave(a);
    return ticket;
}

void vs_arena_settled(struct vs_arena *a, uint64_t ticket)
{
    if (!vs_enter(a))
        return;
    if (ticket <= a->seq_now)
        vs_settled(a, ticket);
    vs_leave(a);
}

int vs_arena_trim(struct vs_arena *a, uint64_t keep)
{
    if (!vs_enter(a))
        return VS_BACKING_NOT_INITIALIZED;
    int status = vs_settle_outside(a);
    if (status == 0 || status == VS_BACKING_NOT_READY) /* then what is known to be complete has to do */
        vs_supply_give_back(a, keep >> a->shift);
    if (keep == 0)
        a->wanted = a->stats.allocated; /* what comes is not what was */
    vs_leave(a);
    return status;
}

static int grant_heap(struct vs_arena *a, uint32_t heap, uint64_t peers)
{
    const struct heap *h = &a->heap[heap];
    int status = 0;
    for (uint32_t tile = h->top ? h->last : NIL; tile != NIL && status == 0; tile = a->tile[tile].prev) {
        const struct tile *t = &a->tile[tile];
        uint32_t first = slot_of(a, t->at + granule_bytes(a) - 1), end = slot_of(a, t->at + t->size - 1) + 1;
        bool mapped = heap == ALIASES ? t->state == TILE_VIEW && t->view != NIL : t->state != TILE_VACANT;
        if (mapped && first < end) /* a granule belongs to the tile that it begins in */
            status = a->backing.access(a->backing.context, address_of(a, place_of(a, first)),
                                       place_of(a, end - first), peers);
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
    stats->idle = a->idle << a->shift;
    stats->views = a->live_views;
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
    vs_leave(a);
}

uint64_t vs_arena_reserved(const struct vs_arena *a)
{
    return __atomic_load_n(&a->stats.reserved, __ATOMIC_RELAXED); /* a number by itself */
}
