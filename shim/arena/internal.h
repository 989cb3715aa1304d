/*
 * internal.h - what the parts of the arena share.  Who includes it is a part, or a test that looks inside.
 *
 * Places.  All windows together are one space of places: place = slot << shift | offset, a slot being room
 * for one granule.  Every heap has slots_per_heap of them; the addresses of all views are one more window.
 * The granule that was created for a slot of a heap bears the slot's number, and is mapped there as long as
 * it exists: its home.
 *
 * Tiles cover a heap from its bottom to its top without gaps: a live block, or a hole.  The window of views
 * is tiled in the same way, by the addresses of views and by addresses that are free.
 *
 *      part         knows                                                    file
 *      holes        trees of tiles by size                                   holes.c
 *      sharing      whose a hole is, and what must be waited for             sharing.c
 *      tiles        what lies where in a window, cutting and joining         tiles.c
 *      granules     in use or not, last used by whom, aliased by which views granules.c, atoms.c
 *      views        second mappings: finding, making, using, removing        views.c, view_classes.c,
 * view_build.c order        which free is complete for whom                          order.c, deferred.c
 *      supply       creating granules and giving them back                   supply.c, trim.c, surplus.c
 *      policy       which of these a request is served from                  policy.c
 *      arena        the functions of arena.h                                 arena.c, lanes.c
 *
 * Errors.  What can fail (the backing, memory for the books) is done first; from the first change to the last
 * of an operation nothing can fail.
 */
#ifndef VS_ARENA_INTERNAL_H
#define VS_ARENA_INTERNAL_H

#include "arena.h"
#include "lock.h"
#include "meta.h"

#define NIL     UINT32_MAX
#define LANES   VS_ARENA_LANES
#define SHARED  (2 * LANES) /* the heaps of all lanes that have none of their own */
#define HEAPS   (SHARED + 2)
#define ALIASES HEAPS /* the window of views */
#define MARKS   32
#define LEVELS  5 /* of the trees of bits: 64 to the power of it slots */

enum tile_state {
    TILE_USED = 1, /* a block, or what is left of one whose free is deferred */
    TILE_FREE,     /* a hole */
    TILE_SHADOW,   /* whole granules that a view uses */
    TILE_VACANT,   /* slots without granules: they were given back */
    TILE_VIEW,     /* the addresses of a view */
};

/* One cache line.  In a tree while it is FREE or VACANT. */
struct tile {
    uint64_t at, size;
    union {
        uint64_t asked; /* bytes, of a block */
        uint64_t seq;   /* of the last free in a hole */
    };
    uint32_t prev, next; /* neighbours in the window; next: also the list of unused tiles */
    uint32_t left, right, priority;
    union {
        uint32_t view;  /* TILE_VIEW */
        uint32_t newer; /* of a hole that is one lane's */
    };
    union {
        uint32_t others; /* bits of the lanes beside the own one that use the block */
        uint32_t older;
    };
    uint32_t waits; /* of a hole: bits of the lanes whose frees up to `seq` may not be complete */
    uint16_t pins;
    uint8_t state, heap;
    uint8_t lane; /* of a block; of a hole: to whom it is left, VS_ARENA_ANY: to all */
    bool doomed;  /* its free was told and is not carried out yet */
    bool ordered; /* counts as stream-ordered memory */
};

struct heap {
    uint64_t base;              /* address; 0 = there is no window yet */
    uint32_t first, top, limit; /* slots: number of the first, how many are tiled, how many fit */
    uint32_t free[LANES];       /* roots of trees: the holes of each lane, and of all */
    uint32_t vacant;            /* one more */
    uint32_t last;              /* topmost tile */
};

/* A run of granules that the same views alias. */
struct atom {
    uint32_t first, count;
    uint32_t used, capacity;
    uint32_t *views;
};

struct run {
    uint32_t first, count;
};

struct view {
    uint64_t age;            /* order of creation: the older serves first */
    uint64_t last_free;      /* sequence of the last free of a block in it */
    uint32_t tile, count;    /* its addresses; granules */
    uint32_t busy;           /* granules in use by others */
    uint32_t class, index;   /* its place in the class */
    uint32_t runs, run_room; /* of `run`; as allocated */
    struct run *run;
    uint32_t older, younger; /* among idle views, by last use */
    uint32_t claimed;        /* granules of the live block in it; 0 = idle */
    uint8_t lane;
    bool open; /* neither claimed nor busy */
};

/* Views of one lane and one number of granules, in order of creation; NIL where one was removed. */
struct view_class {
    uint32_t count; /* granules */
    uint32_t used, capacity, words;
    uint32_t *views;
    uint64_t *bits;   /* which are open */
    uint32_t members; /* how many */
};

struct mark {
    uint64_t seq, handle;
};

struct lane {
    uint64_t stream;
    bool open, retired;
    bool private; /* its granules are lent to nobody, not even to its own views; and not given back */
    bool plain;   /* nor are this one's, which may be given back */
    uint64_t freed, marked; /* sequence of the last free; of what the last mark covers */
    uint64_t wanted;        /* a deferred free waits for a mark that covers this */
    uint64_t unmarked;      /* bytes freed since */
    uint64_t done;          /* frees up to this sequence are complete */

    struct mark mark[MARKS];
    uint32_t first_mark, marks;
    uint32_t polls, patience; /* since the last look at them; how many until the next */

    uint32_t *class; /* numbers of its view classes, by count */
    uint32_t classes, class_room;
};

/* Idle memory that goes back to the device (surplus.c).  Granules, but for the first line: frees. */
struct surplus {
    uint32_t left, window; /* to the next look; length of a window */
    uint32_t looks;        /* in this window */
    bool regretted;        /* some were created that had been given back */
    uint64_t least;        /* that were idle in this window */
    uint64_t spare;        /* to be given back in this window */
    uint64_t given;        /* were, and have not been created anew */
};

struct deferred {
    uint64_t seq;
    uint32_t tile;
    uint32_t lanes; /* bits */
};
#define ALL_LANES UINT32_MAX

/* When least lives (deferred.c). */
struct ebb {
    uint64_t least, before; /* bytes that lived, in this window of frees and in the last one */
    uint32_t left;          /* frees to the end of the window */
    bool armed;             /* much lived since the last ebb */
    bool now;
};

struct cell {
    uint64_t address;
    uint32_t tile; /* NIL: free */
};

/* A page that the kernel wipes in a child of fork, whoever else held the lock then: there the arena is gone,
 * as the driver is, and nobody waits for a thread that is not there.  A child that was forked in the middle
 * of one of our functions, by a handler of a signal, goes on with a copy of its own. */
union gate {
    struct {
        struct vs_lock lock;
        uint32_t here;
    };
    char page[4096];
};

struct vs_arena {
    union gate gate;
    struct vs_backing backing;
    struct vs_arena_config config;
    struct vs_meta meta;
    unsigned shift;             /* log2 of a granule */
    unsigned heap_shift;        /* log2 of slots per heap */
    uint32_t home_slots, slots; /* of all heaps; with those of views */
    uint64_t peers;

    struct heap heap[HEAPS + 1];
    struct lane lane[LANES + 1]; /* the last stands for all of them: never opened */
    uint32_t lanes;              /* that were ever used: while there is one, nobody waits for anyone */
    uint32_t open;               /* their bits */
    uint64_t seen[LANES][LANES]; /* frees of lane q up to seen[q][s] are complete for lane s */

    struct tile *tile;
    uint32_t tiles, tile_room, spare_tiles; /* used so far; allocated; list of unused */
    uint32_t home_tiles_top;                /* sum of the heaps' tops */
    uint32_t random;
    uint32_t oldest_hole, newest_hole, holes_listed; /* that are left to a lane, by their last free */
    /* by slot: which tile begins last in it, and whether any does (tiles.c) */
    uint32_t *starts;
    uint64_t *starting[LEVELS];

    /* by granule */
    uint8_t *used; /* 0 idle, 1 used, ABSENT */
    uint8_t *picked;
    uint32_t *users; /* bits of the lanes of the last uses, which may not be complete */
    uint64_t *seq;   /* of the free that ended them */
    uint32_t *atom_of;
    uint64_t *aliased; /* bits */
    uint64_t *handle;

    uint32_t *born; /* granules in order of creation */
    uint32_t borns, born_room;
    bool born_stale; /* some were given back */

    struct atom *atom;
    uint32_t atoms, atom_room, spare_atoms;

    struct view *view;
    uint32_t views, view_room, spare_views, live_views;
    uint32_t oldest_idle, youngest_idle;
    uint64_t ages;
    struct view_class *class;
    uint32_t classes, class_room;

    struct deferred *deferred; /* for lanes, and pinned ones */
    uint32_t deferreds, deferred_room;
    struct deferred *late; /* for the device: a queue, its first at first_late */
    uint32_t first_late, lates, late_room;
    uint64_t late_bytes;
    struct ebb ebb;
    uint64_t defer_rest; /* bytes of the others, that the last wait for them left */

    struct cell *cell; /* live blocks by address */
    uint32_t cell_mask, cells;

    uint64_t seq_now;
    uint64_t idle; /* granules */
    struct surplus surplus;
    struct vs_arena_stats stats;
    uint64_t wanted; /* the peak of what lived since all that was idle was given back on request: how much may
                        be held */
    uint64_t changes; /* of stats.reserved; atomic */
};

#define ABSENT 0xff

/* ---- places ---- */

static inline uint64_t granule_bytes(const struct vs_arena *a)
{
    return a->backing.granule;
}

static inline uint32_t slot_of(const struct vs_arena *a, uint64_t place)
{
    return (uint32_t)(place >> a->shift);
}

static inline uint64_t place_of(const struct vs_arena *a, uint32_t slot)
{
    return (uint64_t)slot << a->shift;
}

/* Release: who sees the count may ask for the figure that it is of. */
static inline void vs_reserved_changed(struct vs_arena *a)
{
    __atomic_store_n(&a->changes, a->changes + 1, __ATOMIC_RELEASE);
}

static inline uint32_t granules_for(const struct vs_arena *a, uint64_t bytes)
{
    return (uint32_t)((bytes + granule_bytes(a) - 1) >> a->shift);
}

static inline uint32_t heap_of(const struct vs_arena *a, uint32_t slot)
{
    return slot >> a->heap_shift;
}

/* Whose heap it is in; LANES: all lanes'. */
static inline uint32_t home_lane(const struct vs_arena *a, uint32_t granule)
{
    return heap_of(a, granule) >> 1;
}

static inline bool is_small_heap(uint32_t heap)
{
    return heap & 1;
}

static inline uint64_t address_of(const struct vs_arena *a, uint64_t place)
{
    const struct heap *h =
        &a->heap[slot_of(a, place) >= a->home_slots ? ALIASES : heap_of(a, slot_of(a, place))];
    return h->base + (place - place_of(a, h->first));
}

static inline uint32_t bit_of(uint32_t lane)
{
    return 1u << lane;
}

/* Whose work may go on after its free. */
static inline uint32_t users_of(uint32_t lane)
{
    return lane == VS_ARENA_ANY ? 0 : bit_of(lane);
}

/* Whether lane Q has done what it was given before free SEQ; the end of a stream is the last that it does. */
static inline bool is_done(const struct lane *q, uint64_t seq)
{
    return (seq < q->freed ? seq : q->freed) <= q->done;
}

/* The lowest of some bits, which goes. */
static inline uint32_t next_bit(uint32_t *bits)
{
    uint32_t bit = (uint32_t)__builtin_ctz(*bits);
    *bits &= *bits - 1;
    return bit;
}

static inline uint64_t rounded(uint64_t size)
{
    return size ? (size + VS_ARENA_UNIT - 1) & ~(uint64_t)(VS_ARENA_UNIT - 1) : VS_ARENA_UNIT;
}

/* False: there is no arena here, and no lock is held. */
static inline bool vs_enter(struct vs_arena *a)
{
    vs_lock_take(&a->gate.lock);
    if (__builtin_expect(a->gate.here, 1))
        return true;
    vs_lock_give(&a->gate.lock);
    return false;
}

static inline void vs_leave(struct vs_arena *a)
{
    vs_lock_give(&a->gate.lock);
}

/* Whether others may use the granule, or a view. */
static inline bool is_lent(const struct vs_arena *a, uint32_t granule)
{
    const struct lane *l = &a->lane[home_lane(a, granule)];
    return !l->private && !l->plain;
}

/* ---- holes.c ---- */

void vs_holes_insert(struct vs_arena *a, uint32_t *root, uint32_t tile);
void vs_holes_remove(struct vs_arena *a, uint32_t *root, uint32_t tile);
/* The smallest of at least SIZE bytes, of those the lowest. */
uint32_t vs_holes_fit(const struct vs_arena *a, uint32_t root, uint64_t size);

/* ---- tiles.c ---- */

/* Room for all tiles that any change of now LIVE blocks, VIEWS views and SLOTS heap slots can need. */
int vs_tiles_reserve(struct vs_arena *a, uint64_t blocks, uint64_t views, uint64_t slots);
uint32_t vs_tile_at(const struct vs_arena *a, uint64_t place); /* the tile that holds PLACE */
/* As a hole it joins one of LANE's. */
uint32_t vs_tile_append(struct vs_arena *a, uint32_t heap, uint32_t slots, enum tile_state state,
                        uint32_t lane);
/* A hole of LANE's that joins no other. */
void vs_tile_append_apart(struct vs_arena *a, uint32_t heap, uint32_t slots, uint32_t lane);
uint32_t vs_tile_cut(struct vs_arena *a, uint32_t tile, uint64_t place);         /* what begins at PLACE */
uint32_t vs_tile_give(struct vs_arena *a, uint32_t tile, enum tile_state state); /* holes join it */
void vs_tile_put(struct vs_arena *a, uint32_t tile);  /* as it is: what is left of a hole */
void vs_tile_take(struct vs_arena *a, uint32_t tile); /* out of its tree, and list */
void vs_tile_list(struct vs_arena *a, uint32_t tile); /* as the newest that is one lane's */
/* Whole slots of holes: SHADOW becomes FREE, FREE becomes SHADOW or VACANT, VACANT becomes FREE.  A hole is
 * LANE's from now on. */
void vs_tile_change(struct vs_arena *a, uint32_t slot, uint32_t count, enum tile_state state, uint32_t lane);

/* ---- granules.c ---- */

void vs_granules_claim(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t self);
/* Idle from now on, after frees of USERS (bits) up to SEQ. */
void vs_granules_release(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t users, uint64_t seq,
                         uint32_t self);
/* Two holes were joined at a bound: the granule there may be idle now. */
void vs_granules_joined(struct vs_arena *a, const struct tile *hole, uint64_t bound);
/* Is all work that used it done? */
bool vs_granule_complete(const struct vs_arena *a, uint32_t granule);
struct idle_count {
    uint32_t ready, others; /* which LANE may use at once; which it would have to wait for */
};
struct idle_count vs_granules_count(const struct vs_arena *a, uint32_t lane);

/* ---- atoms.c ---- */

/* Room to add one view to each of the granules; atoms end at FIRST and END afterwards. */
int vs_atoms_prepare(struct vs_arena *a, uint32_t first, uint32_t end);
/* Undoes it, where no view was added. */
void vs_atoms_cancel(struct vs_arena *a, uint32_t first, uint32_t end);
void vs_atoms_add(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t view);
/* FIRST and END are bounds of atoms, or `vs_atoms_prepare` was called for them. */
void vs_atoms_remove(struct vs_arena *a, uint32_t first, uint32_t end, uint32_t view);
int vs_atoms_split(struct vs_arena *a, uint32_t granule); /* an atom begins there, if any is there */
uint32_t vs_atoms_next(const struct vs_arena *a, uint32_t granule,
                       uint32_t end); /* the next aliased one, or END */

/* ---- views.c ---- */

/* The oldest open one that is younger than AGE. */
uint32_t vs_view_find(const struct vs_arena *a, uint32_t lane, uint32_t count, uint64_t age);
/* The live block of SIZE bytes in it: its tile. */
uint32_t vs_view_claim(struct vs_arena *a, uint32_t view, uint64_t size);
void vs_view_release(struct vs_arena *a, uint32_t view);
void vs_view_refresh(struct vs_arena *a, struct view *v);
/* Unmaps all but the first KEEP granules; 0 removes the view. */
int vs_view_shorten(struct vs_arena *a, uint32_t view, uint32_t keep);
/* Removes views until there are addresses for COUNT granules and they can be mapped: the longest unused
 * first, waiting for their work if need be. */
void vs_views_make_room(struct vs_arena *a, uint32_t count);
/* A view of COUNT idle granules, so many there must be; READY: only of those that LANE may use at once. */
int vs_view_build(struct vs_arena *a, uint32_t lane, uint32_t count, bool ready, uint32_t *view);
void vs_view_idle_add(struct vs_arena *a, uint32_t view); /* as the youngest of the idle ones */
void vs_view_idle_remove(struct vs_arena *a, uint32_t view);

/* ---- view_classes.c ---- */

int vs_class_join(struct vs_arena *a, uint32_t lane, uint32_t count,
                  uint32_t *class); /* with room for one more */
void vs_class_add(struct vs_arena *a, uint32_t class, uint32_t view);
void vs_class_remove(struct vs_arena *a, uint32_t view);
void vs_class_flip(struct vs_arena *a, const struct view *v); /* in or out of its bits */

/* ---- order.c ---- */

void vs_order_freed(struct vs_arena *a, uint32_t lane, uint64_t bytes); /* before the granules are released */
/* Adds what LANE must wait for where the frees of USERS (bits) up to SEQ were the last; whether there is any.
 */
bool vs_order_need(const struct vs_arena *a, uint32_t lane, uint32_t users, uint64_t seq,
                   uint64_t need[LANES]);
int vs_order_mark(struct vs_arena *a, uint32_t lane);
void vs_order_poll(struct vs_arena *a, uint32_t lane);               /* what is complete now; LANE is short */
void vs_order_done(struct vs_arena *a, uint32_t lane, uint64_t seq); /* is complete */
/* The stream of LANE waits for the frees of each lane q up to need[q], where they are not complete by now. */
int vs_order_wait(struct vs_arena *a, uint32_t lane, const uint64_t need[LANES]);
int vs_order_settle(struct vs_arena *a); /* the host waits for all */
/* The same, and meanwhile others have the arena: the device may be waiting for one of them, and so for good
 * (cuLaunchHostFunc, and what such a function waits for).  Nothing that was read before holds after it. */
int vs_order_settle_outside(struct vs_arena *a);
bool vs_order_await(struct vs_arena *a); /* for the oldest mark of the device; whether there was one */
void vs_order_settled(struct vs_arena *a, uint64_t seq);

/* ---- lanes.c ---- */

int vs_lane_begin(struct vs_arena *a, uint32_t lane);

/* ---- deferred.c ---- */

int vs_deferred_add(struct vs_arena *a, uint32_t tile, uint32_t lanes); /* bits, or ALL_LANES: the device */
void vs_deferred_poll(struct vs_arena *a);
void vs_deferred_settled(struct vs_arena *a, uint64_t seq); /* the device is done up to SEQ */
/* So many of those for the device are freed that no more than vs_deferred_most are left, as far as they are
 * complete; WAIT: until they are. */
void vs_deferred_shorten(struct vs_arena *a, bool wait);
/* The oldest of them; false: there is none, or none that is complete and can be waited for. */
bool vs_deferred_next(struct vs_arena *a, bool wait);
void vs_deferred_waiting_free(struct vs_arena *a);      /* after one was added for the device */
void vs_deferred_miss(struct vs_arena *a);              /* a request found no hole */
void vs_deferred_ebb(struct vs_arena *a);               /* at a request, where ebb.now says so */
uint64_t vs_deferred_most(const struct vs_arena *a);    /* bytes that may be in the queue */
uint64_t vs_deferred_allowed(const struct vs_arena *a); /* bytes that may be held because of them */

/* ---- supply.c, trim.c ---- */

/* Granules to create for SIZE bytes */
uint32_t vs_supply_need(const struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size);
/* A hole of SIZE bytes that LANE may use; TAIL: together with the one at the top of the heap. */
int vs_supply_grow(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size, bool tail);
int vs_supply_more(struct vs_arena *a, uint32_t heap, uint32_t count); /* COUNT idle granules */
int vs_supply_window(struct vs_arena *a, uint32_t heap);               /* its addresses */
/* Gives back idle granules whose work is done until at most KEEP are idle. */
void vs_supply_give_back(struct vs_arena *a, uint64_t keep);
/* Removes the granules of LANE from all views; NOT_READY where one is in use. */
int vs_trim_views(struct vs_arena *a, uint32_t lane);

/* ---- surplus.c ---- */

void vs_surplus_begin(struct vs_arena *a);
void vs_surplus_look(struct vs_arena *a);                    /* every now and then, after a free */
void vs_surplus_created(struct vs_arena *a, uint32_t count); /* where some had been given */

/* ---- policy.c ---- */

/* SETTLED: the device has been waited for.  Else NOT_SETTLED, where that has to be done first. */
#define NOT_SETTLED (-1)
int vs_policy_place(struct vs_arena *a, uint32_t lane, uint64_t size, bool settled, uint32_t *tile);
void vs_policy_free(struct vs_arena *a, uint32_t tile);

/* ---- sharing.c ---- */

void vs_hole_take(struct vs_arena *a, uint32_t hole, uint64_t size);
void vs_hole_free(struct vs_arena *a, uint32_t tile, uint32_t lane); /* a block becomes one */
/* Holes that were left to their lanes become all lanes': those whose last free was KEEP frees ago. */
void vs_holes_share(struct vs_arena *a, uint64_t keep);
/* The hole that LANE takes for SIZE bytes, waits included; NIL where none fits or none can be waited for. */
uint32_t vs_hole_find(struct vs_arena *a, uint32_t heap, uint32_t lane, uint64_t size);
/* Whether LANE may use the hole at the top of the heap, if there is one; waits included. */
bool vs_hole_at_top(struct vs_arena *a, uint32_t heap, uint32_t lane);

/* ---- blocks.c ---- */

int vs_blocks_reserve(struct vs_arena *a);
void vs_blocks_put(struct vs_arena *a, uint64_t address, uint32_t tile);
uint32_t vs_blocks_get(const struct vs_arena *a, uint64_t address);
void vs_blocks_remove(struct vs_arena *a, uint64_t address);
/* lookup.c: the tile of the live block that begins at ADDRESS, or NIL. */
uint32_t vs_live_at(const struct vs_arena *a, uint64_t address);

#endif
