/*
 * state.h - what the arena is made of: windows, tiles, granules, views, lanes, and places in them.
 *
 * Only the arena's own files include it, and tests that look inside.  internal.h has the functions that these
 * files share.
 *
 * Places.  All windows together are one space of places: place = slot << shift | offset, a slot being room
 * for one granule.  Every heap has slots_per_heap of them; the addresses of all views are one more window.
 * The granule that was created for a slot of a heap bears the slot's number, and is mapped there as long as
 * it exists: its home.
 *
 * Tiles cover a heap from its bottom to its top without gaps: a live block, or a hole.  The window of views
 * is tiled in the same way, by the addresses of views and by addresses that are free.
 */
#ifndef VS_ARENA_CORE_STATE_H
#define VS_ARENA_CORE_STATE_H

#include "arena.h"
#include "core/lock.h"
#include "meta.h"
#include "rules.h"

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
    uint32_t left, right;
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

/* Holes of one kind, by size: so many trees of similar ones.  Zero: there are none. */
#define BINS 64
struct holes {
    uint64_t filled; /* bits of the trees that have any */
    uint32_t root[BINS];
};

struct heap {
    uint64_t base;              /* address; 0 = there is no window yet */
    uint32_t first, top, limit; /* slots: number of the first, how many are tiled, how many fit */
    uint32_t last;              /* topmost tile */
    struct holes *free;         /* of each lane, and of all */
    struct holes *vacant;
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
    uint64_t last_free;      /* sequence of the last free of a block in it */
    uint32_t tile, count;    /* its addresses; granules */
    uint32_t busy;           /* granules in use by others */
    uint32_t class, index;   /* its place in the class */
    uint32_t runs, run_room; /* of `run`; as allocated */
    struct run *run;
    uint32_t older, younger; /* among idle views, by last use */
    uint32_t claimed;        /* granules of the live block in it; 0 = idle */
    uint32_t users;          /* bits of the lanes that had it, and may use it up to `last_free` */
    uint8_t lane;            /* of the live block */
    bool open;               /* neither claimed nor busy */
};

/* Views of one number of granules, in order of creation; NIL where one was removed. */
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
    uint64_t since;         /* bytes freed since the last ebb */
    uint32_t left;          /* frees to the end of the window */
    bool armed; /* more than half of the range has lived since the last ebb: the next low is one */
    bool now;
};

/* How far from each other marks of the device are (deferred.c). */
struct pace {
    uint32_t wide;  /* quarters of what may be in the queue, less one */
    uint32_t left;  /* marks until wider is tried */
    uint32_t again; /* how many there will be after the next wait */
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
    uint64_t changes; /* of stats.reserved; atomic.  Here, where hardly anything is written: all look at it
                         after each call, without the lock */
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
    uint32_t tiles, tile_room, spare_tiles;          /* used so far; allocated; list of unused */
    uint32_t home_tiles_top;                         /* sum of the heaps' tops */
    uint32_t oldest_hole, newest_hole, holes_listed; /* that are left to a lane, by their last free */
    /* by slot: which tile begins last in it, and whether any does (tiles.c) */
    uint32_t *starts;
    uint64_t *starting[LEVELS];

    /* by granule */
    uint8_t *used;   /* 0 idle, 1 used, ABSENT */
    uint32_t *users; /* bits of the lanes of the last uses, which may not be complete */
    uint64_t *seq;   /* of the free that ended them */
    uint32_t *atom_of;
    uint64_t *aliased; /* bits */
    uint64_t *handle;

    struct atom *atom;
    uint32_t atoms, atom_room, spare_atoms;

    struct view *view;
    uint32_t views, view_room, spare_views, live_views;
    uint32_t oldest_idle, youngest_idle;
    struct view_class *class;
    uint32_t classes, class_room;
    uint32_t *by_count, by_count_room; /* numbers of the classes, by count */

    struct deferred *deferred; /* for lanes, and pinned ones */
    uint32_t deferreds, deferred_room;
    struct deferred *late; /* for the device: a queue, its first at first_late */
    uint32_t first_late, lates, late_room;
    uint64_t late_bytes;
    struct ebb ebb;
    struct pace pace;
    uint64_t defer_rest; /* bytes of the others, that the last wait for them left */

    struct cell *cell; /* live blocks by address */
    uint32_t cell_mask, cells;

    uint64_t seq_now;
    uint64_t idle; /* granules */
    struct surplus surplus;
    struct vs_arena_stats stats;
    uint64_t wanted; /* the peak of what lived since all that was idle was given back on request: how much may
                        be held */

    struct holes holes[HEAPS + 1]
                      [LANES + 1]; /* the heaps'; those of heaps that are not used stay untouched */
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

/* Clears the lowest of the bits, and returns its number. */
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

#endif
