/*
 * state.h - what the arena is made of: windows, extents, chunks, alias mappings, queues, and places in them.
 *
 * Only the arena's own files include it, and tests that look inside.
 */
#ifndef VS_ARENA_CORE_STATE_H
#define VS_ARENA_CORE_STATE_H

#include "arena.h"
#include "core/lock.h"
#include "rules.h"

#include <stddef.h>

/* ---- memory for the arena's own books, out of mmap alone (meta.c) ---- */

#define VS_META_LARGE   (64u << 10)
#define VS_META_CLASSES 17

struct vs_meta {
    void *vacant[VS_META_CLASSES]; /* lists of free pieces of 1 << class bytes */
    void *slabs;                   /* all slabs: the first word of each points to the next */
    char *at;                      /* what is left of the newest */
    size_t left;
    uint64_t held;       /* bytes of slabs and large pieces */
    uint64_t fail_after; /* tests: the call after so many fails; 0 = never */
};

/* A piece of NEW bytes with what stood in OLD (of OLD_BYTES bytes, NULL = none), the rest zero; the old piece
 * is gone. NULL where the host has no memory: then OLD is as it was. */
void *vs_meta_resize(struct vs_meta *m, void *old, size_t old_bytes, size_t new_bytes);
void vs_meta_give(struct vs_meta *m, void *piece, size_t bytes);
/* All small pieces at once; large ones must have been given back. */
void vs_meta_destroy(struct vs_meta *m);

/* Room for COUNT elements in an array whose capacity stands in *CAPACITY: grown by doubling.  0 or -1. */
int vs_meta_fit(struct vs_meta *m, void **array, uint32_t *capacity, size_t element, uint32_t count);

/* ---- the arena ----
 *
 * Places.  All windows together are one space of places: place = slot << shift | offset, a slot being room
 * for one chunk. Every heap has 1 << heap_shift of them; the addresses of all alias mappings are one more
 * window.  The chunk that was created for a slot of a heap bears the slot's number, and is mapped there as
 * long as it exists: its primary mapping.
 *
 * Extents cover a heap from its bottom to its top without gaps: a live block, or a free extent.  The window
 * of alias mappings is tiled in the same way, by the addresses of alias mappings and by addresses that are
 * free. */

#define NIL     UINT32_MAX
#define QUEUES  VS_ARENA_QUEUES
#define SHARED  (2 * QUEUES) /* the heaps of all queues that have none of their own */
#define HEAPS   (SHARED + 2)
#define ALIASES HEAPS /* the window of alias mappings */
#define EVENTS  32
#define GROUP                                                                                                \
    4 /* chunks in a group at most: with 8 MiB a call, copies over the link are what takes the time */
#define LEVELS 5 /* of the trees of bits: 64 to the power of it slots */

enum extent_state {
    EXTENT_USED = 1, /* a block, also while its free is deferred */
    EXTENT_FREE,     /* a free extent */
    EXTENT_SHADOW,   /* whole chunks that an alias mapping uses */
    EXTENT_VACANT,   /* slots without chunks: they were given back */
    EXTENT_ALIAS,    /* the addresses of an alias mapping */
};

/* One cache line.  In a tree while it is FREE or VACANT. */
struct extent {
    uint64_t at, size;
    union {
        uint64_t requested; /* bytes, of a block */
        uint64_t seq;       /* of the last free in a free extent */
    };
    uint32_t prev, next; /* neighbours in the window; next: also the list of unused extents */
    uint32_t left, right;
    union {
        uint32_t alias; /* EXTENT_ALIAS */
        uint32_t newer; /* of a free extent that is one queue's */
    };
    union {
        uint32_t others; /* bits of the queues beside the own one that use the block */
        uint32_t older;
    };
    uint32_t waits; /* of a free extent: bits of the queues whose frees up to `seq` may not be complete */
    uint16_t pins;
    uint8_t state, heap;
    uint8_t queue;  /* of a block; of a free extent: to whom it is left, VS_ARENA_ANY: to all */
    bool doomed;    /* its free was asked for and is not carried out yet */
    bool ordered;   /* counts as stream-ordered memory */
    bool has_left;  /* bears a pin until it returns: its chunks can be away */
    bool is_parked; /* others may have the chunks in which nothing lies but such blocks */
    bool is_broken; /* parked for good: a mapping of it could not be restored */
};

/* Free extents of one kind, by size: so many trees of similar ones.  Zero: there are none. */
#define BIN_WORDS 8
#define BINS      (BIN_WORDS * 64)
struct free_extents {
    uint64_t words;             /* bits of the words below that have any */
    uint64_t filled[BIN_WORDS]; /* bits of the trees that have any */
    uint32_t root[BINS];
};

struct heap {
    uint64_t base;              /* address; 0 = there is no window yet */
    uint32_t first, top, limit; /* slots: number of the first, how many are tiled, how many fit */
    uint32_t last;              /* topmost extent */
    struct free_extents *free;  /* of each queue, and of all */
    struct free_extents *vacant;
};

/* A run of chunks that the same alias mappings alias. */
struct atom {
    uint32_t first, count;
    uint32_t used, capacity;
    uint32_t *aliases;
};

struct run {
    uint32_t first, count;
};

struct alias {
    uint64_t last_free;      /* sequence of the last free of a block in it */
    uint32_t extent, count;  /* its addresses; chunks */
    uint32_t class, index;   /* its place in the class */
    uint32_t runs, run_room; /* of `run`; as allocated */
    struct run *run;
    uint32_t older, younger; /* among idle alias mappings, by last use */
    uint32_t watched;        /* a chunk of it that is in use, while it is closed and not claimed */
    uint32_t before, behind; /* among those that watch the same chunk */
    uint32_t claimed;        /* chunks of the live block in it; 0 = idle */
    uint32_t users;          /* bits of the queues that had it, and may use it up to `last_free` */
    uint8_t queue;           /* of the live block */
    bool listed;             /* among those that get other chunks just now (replace.c) */
    bool open;               /* not claimed, and no chunk of it is known to be in use */
};

/* Alias mappings of one number of chunks, in order of creation; NIL where one was removed. */
struct alias_class {
    uint32_t count; /* chunks */
    uint32_t used, capacity, words;
    uint32_t *aliases;
    uint64_t *bits;   /* which are open */
    uint32_t members; /* how many */
};

struct event {
    uint64_t seq, handle;
};

struct queue {
    uint64_t stream;
    bool open, retired;
    bool private; /* its chunks are in no alias mapping, not even one of its own, and are not given back */
    uint64_t freed, recorded; /* numbers of the last free, and of the last free that an event covers */
    uint64_t wanted;          /* the last deferred free that waits for an event of this queue */
    uint64_t unrecorded;      /* bytes freed since */
    uint64_t done;            /* frees up to this sequence are complete */

    struct event event[EVENTS];
    uint32_t first_event, events;
    uint32_t polls, patience; /* since the events were last queried; how many until they are again */
};

/* Idle memory that goes back to the device (trim.c).  Chunks, but for the first line: frees. */
struct surplus {
    uint32_t left, window; /* to the next look; length of a window */
    uint32_t looks;        /* in this window */
    bool regretted;        /* some were created that had been given back */
    bool parked;           /* a block was parked in this window */
    uint64_t least;        /* that were idle in this window */
    uint64_t spare;        /* to be given back in this window */
    uint64_t given;        /* chunks that were given back and have not been created anew */
};

struct deferred {
    uint64_t seq;
    uint32_t extent;
    uint32_t queues; /* bits */
};
#define ALL_QUEUES UINT32_MAX

/* The least of live memory in each round of a program that repeats itself (waiting.c). */
struct trough {
    uint64_t least, before; /* the fewest bytes alive in this window of frees, and in the last one */
    uint64_t since;         /* bytes freed since the last trough */
    uint32_t left;          /* frees to the end of the window */
    bool armed; /* more than half of the range was alive since the last trough: the next low is a trough */
    bool now;
};

/* How far from each other events of the device are recorded (waiting.c). */
struct pace {
    uint32_t wide;  /* quarters of what may be in the backlog, less one */
    uint32_t left;  /* events until a greater distance is tried */
    uint32_t again; /* what `left` becomes after the next wait */
};

/* What the device had left when it was asked last and that was too little (supply.c). */
struct full {
    uint64_t left, released; /* bytes; of the arena's chunks up to then */
    uint32_t answers;        /* for which it holds still, unless chunks are released */
};

/* COUNT chunks from CHUNK on, as they are mapped side by side from PLACE on. */
struct mapping {
    uint64_t place;
    uint32_t chunk, count;
};

/* What an alias mapping has once chunks have other numbers. */
struct renamed {
    uint32_t alias, runs;
    struct run *run;
};

struct cell {
    uint64_t address;
    uint32_t extent; /* NIL: free */
};

/* A page that the kernel wipes in a child of fork.  The child finds no arena, as it has no driver, and does
 * not wait for a lock that a thread of its parent held.  A child that a signal handler forks in the middle of
 * one of our functions goes on with a copy of its own. */
union gate {
    struct {
        struct vs_lock lock;
        uint32_t here;
        uint32_t closed; /* no memory is given out; atomic.  Here, in the line of the lock that who asks has
                            just taken */
    };
    char page[4096];
};

struct vs_arena {
    union gate gate;
    struct vs_backing backing;
    struct vs_arena_config config;
    uint64_t changes; /* of stats.reserved, away and parked; atomic.  Here, where hardly anything is written:
                         all look at it after each call, without the lock */
    struct vs_meta meta;
    unsigned shift;                /* log2 of a chunk */
    unsigned heap_shift;           /* log2 of slots per heap */
    uint32_t primary_slots, slots; /* of all heaps; with those of alias mappings */
    uint64_t peers;

    struct heap heap[HEAPS + 1];
    struct queue queue[QUEUES + 1]; /* the last stands for all of them: never opened */
    uint32_t queues;                /* how many were ever used; while there is one, nothing is waited for */
    uint32_t open;                  /* their bits */
    uint64_t seen[QUEUES][QUEUES];  /* frees of queue q up to seen[q][s] are complete for queue s */

    struct extent *extent;
    uint32_t extents, extent_room, spare_extents; /* used so far; allocated; list of unused */
    uint32_t primary_top;                         /* sum of the heaps' tops */
    uint32_t oldest_free_extent, newest_free_extent,
        free_extents_listed; /* that are left to a queue, by their last free */
    /* by slot: the last extent that begins in it, and bits for the slots that have one (extents.c) */
    uint32_t *starts;
    uint64_t *starting[LEVELS];

    /* by chunk */
    uint32_t first_idle; /* none below it is idle */
    uint8_t *used;       /* 0 idle, 1 used, ABSENT */
    uint32_t *users;     /* bits of the queues of the last uses, which may not be complete */
    uint64_t *seq;       /* of the free that ended them */
    uint32_t *atom_of;
    uint64_t *aliased;   /* bits */
    uint32_t *watch;     /* the first of the alias mappings that watch it, + 1 */
    uint64_t *handle;    /* 0: none.  Neighbours with the same are a group (handles.c) */
    uint64_t *away;      /* bits */
    uint64_t *parked;    /* bits: nothing lies where it has its primary mapping but parked blocks */
    uint16_t *parked_by; /* parked blocks that have it through alias mappings */
    uint64_t *hidden;    /* bits */
    uint32_t hiddens;

    struct atom *atom;
    uint32_t atoms, atom_room, spare_atoms;

    struct alias *alias;
    uint32_t aliases, alias_room, spare_aliases, live_aliases;
    uint32_t oldest_idle, youngest_idle;
    struct alias_class *class;
    uint32_t classes, class_room;
    uint32_t *by_count, by_count_room; /* numbers of the classes, by count */

    struct deferred *deferred; /* for queues, and pinned ones */
    uint32_t deferreds, deferred_room;
    struct deferred *late; /* for the device: a backlog, its first at first_late */
    uint32_t first_late, lates, late_room;
    uint64_t late_bytes;
    struct trough trough;
    struct pace pace;
    uint64_t defer_rest; /* bytes of the others, that the last wait for them left */

    struct cell *cell; /* live blocks by address */
    uint32_t cell_mask, cells;

    struct mapping *mapping; /* of the chunks that are sent or fetched just now (sending.c) */
    uint32_t mappings, mapping_room;
    uint64_t away_mappings; /* chunks mapped, where those that are away come back */

    struct renamed *renamed; /* just now (replace.c) */
    uint32_t renameds, renamed_room;

    uint64_t seq_now;
    uint64_t idle;        /* chunks; atomic */
    uint32_t grouped;     /* chunks that share a handle */
    uint64_t parked_live; /* of stats.allocated, in chunks that are parked */
    struct surplus surplus;
    struct full full;
    struct vs_arena_stats stats;
    uint64_t wanted; /* the peak of what lived since all that was idle was given back on request: how much may
                        be held */

    struct free_extents
        free_extents[HEAPS + 1][QUEUES + 1]; /* the heaps'; those of heaps that are not used stay untouched */
};

#define ABSENT 0xff

/* ---- places ---- */

static inline uint64_t chunk_bytes(const struct vs_arena *a)
{
    return a->backing.chunk;
}

static inline uint32_t slot_of(const struct vs_arena *a, uint64_t place)
{
    return (uint32_t)(place >> a->shift);
}

static inline uint64_t place_of(const struct vs_arena *a, uint32_t slot)
{
    return (uint64_t)slot << a->shift;
}

static inline bool is_away(const struct vs_arena *a, uint32_t chunk)
{
    return a->away[chunk >> 6] >> (chunk & 63) & 1;
}

static inline bool is_parked_at_home(const struct vs_arena *a, uint32_t chunk)
{
    return a->parked[chunk >> 6] >> (chunk & 63) & 1;
}

static inline bool is_parked(const struct vs_arena *a, uint32_t chunk)
{
    return is_parked_at_home(a, chunk) || a->parked_by[chunk];
}

/* The heap shows no free extent there, though the chunk may be idle: only alias mappings have it. */
static inline bool is_hidden(const struct vs_arena *a, uint32_t chunk)
{
    return a->hidden[chunk >> 6] >> (chunk & 63) & 1;
}

static inline void hide(struct vs_arena *a, uint32_t chunk, bool hidden)
{
    a->hiddens += hidden - is_hidden(a, chunk);
    a->hidden[chunk >> 6] ^= (uint64_t)(hidden != is_hidden(a, chunk)) << (chunk & 63);
}

/* What lives on the device: what is parked the caller has. */
static inline uint64_t live_here(const struct vs_arena *a)
{
    return a->stats.allocated - a->parked_live;
}

/* Whether the chunk has the handle of the one before it. */
static inline bool shares_handle(const struct vs_arena *a, uint32_t chunk)
{
    return chunk && chunk < a->primary_slots && a->handle[chunk] && a->handle[chunk] == a->handle[chunk - 1];
}

/* Bytes of all chunks, also those that are away: their blocks live and come back, so what is decided by how
 * much is held is decided as if all were here. */
static inline uint64_t held(const struct vs_arena *a)
{
    return a->stats.reserved + a->stats.away;
}

/* Release: a thread that sees the count also sees the figure that it counts changes of. */
static inline void vs_reserved_changed(struct vs_arena *a)
{
    __atomic_store_n(&a->changes, a->changes + 1, __ATOMIC_RELEASE);
}

/* Under the lock.  Relaxed: who reads it without (vs_arena_idle) wants the number alone. */
static inline void vs_idle_changed(struct vs_arena *a, uint64_t by)
{
    __atomic_store_n(&a->idle, a->idle + by, __ATOMIC_RELAXED);
}

static inline uint32_t chunks_for(const struct vs_arena *a, uint64_t bytes)
{
    return (uint32_t)((bytes + chunk_bytes(a) - 1) >> a->shift);
}

static inline uint32_t heap_of(const struct vs_arena *a, uint32_t slot)
{
    return slot >> a->heap_shift;
}

/* The heap, or ALIASES. */
static inline uint32_t window_of(const struct vs_arena *a, uint32_t slot)
{
    return slot < a->primary_slots ? heap_of(a, slot) : ALIASES;
}

/* The queue whose heap has the chunk's primary mapping; QUEUES: the heap that all queues share. */
static inline uint32_t primary_queue(const struct vs_arena *a, uint32_t chunk)
{
    return heap_of(a, chunk) >> 1;
}

static inline bool is_small_heap(uint32_t heap)
{
    return heap & 1;
}

static inline uint64_t address_of(const struct vs_arena *a, uint64_t place)
{
    const struct heap *h = &a->heap[window_of(a, slot_of(a, place))];
    return h->base + (place - place_of(a, h->first));
}

static inline uint32_t bit_of(uint32_t queue)
{
    return 1u << queue;
}

/* The queues whose work may still use a block of QUEUE after its free. */
static inline uint32_t users_of(uint32_t queue)
{
    return queue == VS_ARENA_ANY ? 0 : bit_of(queue);
}

/* Whether queue Q has done what it was given before free SEQ.  The end of its stream counts as its last free.
 */
static inline bool is_done(const struct queue *q, uint64_t seq)
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

/* Whether others may use the chunk, or an alias mapping. */
static inline bool is_lent(const struct vs_arena *a, uint32_t chunk)
{
    return !a->config.plain && !a->queue[primary_queue(a, chunk)].private;
}

#endif
