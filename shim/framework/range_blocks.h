/*
 * range_blocks.h - the stack of open ranges that each thread has, in a block that outlives the thread.  For
 * ranges.c and range_blocks.c alone.
 *
 *      thread block:  [forward, automatic] [conv1, NVTX "torch"] [logits, marker]      current = logits
 *      lead:          the block of the thread that last opened a phase or ended a step; threads without a
 *                     phase use its `current`
 *
 * Only the pointer to the block is in thread-local storage, so that the shim can also be loaded late.  A fork
 * child starts over (core/fork.h): ranges that are open on the forking thread stay open and are written again
 * into the child's own recording.
 */
#ifndef VS_FRAMEWORK_RANGE_BLOCKS_H
#define VS_FRAMEWORK_RANGE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "pending.h"
#include "core/fork.h"
#include "core/hot.h"

enum { VS_RANGE_DEPTH = 64, VS_RANGE_KINDS_OVER = 8 };

struct vs_range_entry {
    uint32_t key; /* source << 28 | domain index; 0: an empty entry */
    uint32_t id, parent, flags;
    uint32_t depth; /* open ranges of the same key below it */
    struct vs_name *name, *domain;
    uint64_t ticket; /* of the push, while it waits (pending.h) */
    uint32_t layer;  /* the path of ranges from the outermost to this one (layers.h); 0: none */
    uint32_t module; /* the module whose call was open when it opened */
    int32_t task;    /* the backward that ran then */
};

struct vs_range_block {
    _Alignas(64) uint32_t used; /* atomic: taken by a thread */
    uint32_t generation;        /* of the process that the entries belong to */
    uint32_t count;
    uint32_t current; /* atomic: the result of vs_range_current; 0: this thread has none of its own */
    uint32_t over_total;
    struct vs_range_entry entries[VS_RANGE_DEPTH];
    struct {
        uint32_t key, count;
    } over[VS_RANGE_KINDS_OVER]; /* pushes that found the stack full, by kind; `over_total` is their sum */
};

extern __thread struct vs_range_block *vs_range_own;
/* The block of threads for which no block was left: their ranges are lost, and their events have no phase,
 * not even the lead thread's. */
extern struct vs_range_block vs_range_none_left;
extern uint32_t vs_ranges_process; /* atomic: vs_fork_number() of the process that this state belongs to */

/* Before any thread can fork, and early enough to get a low-numbered key. */
void vs_range_blocks_init(void);

/* ---- rare: in range_blocks.c ---- */

/* The calling thread is the only one of a fork child, whose number is NOW. */
void vs_range_become_child(uint32_t now);
/* After a fork: writes the ranges that the forking thread had open into the child's recording. */
void vs_range_reopen(struct vs_range_block *b, uint32_t now);
/* A block for the calling thread; NULL: none is left, or there is no memory. */
struct vs_range_block *vs_range_claim(uint32_t now);

/* ---- at every push and pop, and where an event asks ---- */

static inline uint32_t vs_range_generation(void)
{
    uint32_t now = vs_fork_number();

    if (__builtin_expect(__atomic_load_n(&vs_ranges_process, __ATOMIC_RELAXED) != now, 0))
        vs_range_become_child(now);
    return now;
}

static inline void vs_range_set_lead(const struct vs_range_block *b)
{
    /* Relaxed: the pointer only leads to a block, and blocks are never unmapped. */
    if (atomic_load_explicit(&vs_hot.lead, memory_order_relaxed) != &b->current)
        atomic_store_explicit(&vs_hot.lead, &b->current, memory_order_relaxed);
}

/* Copies the current range of the calling thread's block B (NULL: none) to where reports of blocks read
 * it. */
static inline void vs_range_update_self(const struct vs_range_block *b)
{
    uint32_t range = b ? b->current : 0;

    vs_self.range = range == 0 && b && b->over_total ? VS_RANGE_UNKNOWN : range;
}

static inline void vs_range_set_current(struct vs_range_block *b, uint32_t range)
{
    /* Atomic, because threads that this one leads read it; relaxed, because the id is complete by itself. */
    __atomic_store_n(&b->current, range, __ATOMIC_RELAXED);
    vs_range_update_self(b);
}

/* E's words come as arguments: if they were read back from E the compiler would merge the loads, and a wider
 * load has to wait for the narrower stores before it. */
static inline uint64_t vs_range_write_push(uint32_t id, uint32_t parent, uint32_t flags,
                                           struct vs_range_names names)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_PUSH,
                                   .id = id,
                                   .parent = parent,
                                   .flags = flags,
                                   .names = names,
                                   .owner = &vs_range_own};

    return vs_pending_write(&event);
}

static inline void vs_range_write_pop(uint32_t id, uint64_t ticket)
{
    struct vs_range_event event = {.op = VS_OP_RANGE_POP, .id = id, .owner = &vs_range_own};

    if (!ticket || !vs_pending_cancel(ticket))
        vs_pending_write(&event);
}

/* The calling thread's block; NULL: it has none (and, if MAKE, can't get one). */
static inline struct vs_range_block *vs_range_block(bool make)
{
    uint32_t now = vs_range_generation();
    struct vs_range_block *b = vs_range_own;

    if (!b)
        return make ? vs_range_claim(now) : NULL;
    if (__builtin_expect(b == &vs_range_none_left, 0))
        return NULL;
    if (__builtin_expect(b->generation != now, 0))
        vs_range_reopen(b, now);
    return b;
}

#endif
