/*
 * arena.h - an allocator of device memory that needs hardly more than what is live.
 *
 * Physical memory comes in chunks (2 MiB).  There are two heaps, for the queues of all streams: one for
 * blocks up to `small` bytes, one for the others.  A heap is a window of addresses; chunks are appended at
 * its top, and keep their place until they are given back.  Requests take the best fitting free extent. Where
 * none fits but enough chunks lie idle, these are mapped a second time, side by side: an alias mapping.
 * Nothing that the program holds ever moves.
 *
 *      heap                  |AAAA|....|BBBB|....|CCCC|      two chunks idle, not side by side
 *      an alias mapping           |....|....|                the same two, for a block of two chunks
 *
 * Threads: any, but for create and destroy.  An arena's one lock is held meanwhile, calls of the backing
 * included, but not where memory is short and the device is waited for, nor in vs_arena_trim and
 * vs_arena_close.  Fork: in a child there is no arena, as there is no driver: functions answer
 * NOT_INITIALIZED, no block is found, no lock is waited for.
 *
 * Sizes are bytes.  Functions return 0 or a status of backing.h.  Of the host's memory only mmap is used, of
 * its locks none.
 */
#ifndef VS_ARENA_CORE_ARENA_H
#define VS_ARENA_CORE_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "backing.h"

#define VS_ARENA_QUEUES 32
/* The queue of memory without a stream: its blocks may be touched by all, so its frees must be complete when
 * they are asked for (the caller has waited), or be asked for with VS_FREE_DEFER. */
#define VS_ARENA_ANY  0u
#define VS_ARENA_UNIT 512u /* blocks begin and end at multiples of it */

struct vs_arena;

struct vs_arena_config {
    uint64_t capacity;   /* physical bytes of the device: how large address windows are */
    uint64_t small;      /* the largest block of a small heap; 0 = 256 KiB */
    uint32_t slack;      /* in 1/1000: chunks are created up to this much beyond the live peak; 0 = 15 */
    uint32_t wait_slack; /* beyond this much, the host waits for frees that a request without a stream needs;
                            0 = 40 */
    uint32_t keep_frees; /* a free extent is left to the queue that freed it until so many more frees were
                            asked for, or some request misses; 0 = 4096 */
    bool
        no_stream_waits; /* no stream is made to wait: others' free extents are used once they are complete */
    uint64_t
        record_bytes; /* freed on a queue between two events, where there are several queues; 0 = 32 MiB */
    uint64_t defer_bytes; /* deferred frees beyond so many are waited for; 0 = 1/32 of the peak of what
                             lived, and 16 MiB at least */
    uint64_t trim_above; /* bytes that were idle for long beyond this many are given back unasked: 0 = 1/64 of
                            the device and 64 MiB at least; UINT64_MAX = never */
    uint32_t trim_window; /* for long: in so many frees; 0 = 65,536 */
    bool plain; /* memory is mapped once, no alias mappings.  For programs whose kernels overlap (programmatic
                   dependent launch): they would write through one mapping while others read another */
    uint64_t max_mappings; /* of chunks; beyond, alias mappings that were long not used are unmapped; 0 =
                              450,000 */
    bool single; /* no chunks share physical memory: for who parks blocks, whose chunks are lent where the
                    device is full */
    uint64_t headroom; /* bytes of the device that blocks of large heaps leave to small ones and the driver */
};

int vs_arena_create(struct vs_arena **arena, const struct vs_backing *backing,
                    const struct vs_arena_config *c);
/* Unmaps and releases all, blocks still live included: nothing may use them any more. */
void vs_arena_destroy(struct vs_arena *arena);

/* ---- queues ----
 *
 * A block freed on a queue is given to the same queue at once, to another only when that free is known to be
 * complete, or after the other was made to wait for it.  Which free extent is taken does not depend on how
 * far the device is: only whether a wait is needed does. */

/* PRIVATE: what the queue holds is lent to nobody and never given back before it is retired: a graph that was
 * captured goes on using its addresses. */
enum vs_queue_flags { VS_QUEUE_PRIVATE = 1 };

/* A queue for STREAM.  OUT_OF_MEMORY where all are taken: VS_ARENA_ANY with VS_FREE_DEFER serves then. */
int vs_arena_open_queue(struct vs_arena *arena, uint64_t stream, unsigned flags, uint32_t *queue);
/* The stream is gone, its work may still run.  Blocks of the queue stay; it is given to another stream later.
 */
void vs_arena_retire_queue(struct vs_arena *arena, uint32_t queue);

/* ---- blocks ---- */

enum vs_free_flags {
    VS_FREE_DEFER = 1,
    VS_FREE_NO_WAIT = 2, /* nor for earlier ones that were deferred */
};

enum vs_malloc_flags { VS_MALLOC_ORDERED = 1 /* counts as stream-ordered memory */ };

int vs_arena_malloc_as(struct vs_arena *arena, uint32_t queue, unsigned flags, uint64_t size,
                       uint64_t *address);
static inline int vs_arena_malloc(struct vs_arena *arena, uint32_t queue, uint64_t size, uint64_t *address)
{
    return vs_arena_malloc_as(arena, queue, 0, size, address);
}
/* Frees what begins at ADDRESS, after the work that QUEUE was given up to now.  VS_FREE_DEFER: after all work
 * of the device instead, when that is known to be done; the call may wait for earlier ones.  INVALID where no
 * block begins there. */
int vs_arena_free(struct vs_arena *arena, uint64_t address, uint32_t queue, unsigned flags);
/* Work of QUEUE touches the block: its free waits for that queue too. */
int vs_arena_use(struct vs_arena *arena, uint64_t address, uint32_t queue);
/* A block that others hold (exported) is not reused before its last unpin, whoever frees it.  INVALID for one
 * that left, and in a closed arena. */
int vs_arena_pin(struct vs_arena *arena, uint64_t address);
int vs_arena_unpin(struct vs_arena *arena, uint64_t address);

struct vs_arena_block {
    uint64_t address, size; /* as asked for */
    uint32_t queue, pins;
};
/* The live block that holds ADDRESS, which may be inside it. */
bool vs_arena_find(struct vs_arena *arena, uint64_t address, struct vs_arena_block *block);
/* Whether ADDRESS lies in a window of the arena's, be there a block or not. */
bool vs_arena_covers(struct vs_arena *arena, uint64_t address);
/* What a block lies on, and how much of it vs_arena_handles gave. */
struct vs_arena_ground {
    uint32_t handles, given;
    uint64_t each;   /* bytes of each that was given */
    uint64_t bytes;  /* of all handles */
    uint64_t offset; /* where in them the block begins */
};
/* The backing's handles of what the block at ADDRESS lies on, in order: up to MOST of them from FIRST on, as
 * far as they are of one size.  No handles: no block begins there, or its chunks can be away. */
struct vs_arena_ground vs_arena_handles(struct vs_arena *arena, uint64_t address, uint32_t first,
                                        uint64_t *handles, uint32_t most);

/* ---- order ---- */

/* A caller that waits for the device asks for the ticket before, and says so after: every free that was asked
 * for before the ticket is complete. */
uint64_t vs_arena_ticket(struct vs_arena *arena);
void vs_arena_synchronized(struct vs_arena *arena, uint64_t ticket);
/* Waits for the device, without the lock; what it waited for is complete then. */
void vs_arena_await(struct vs_arena *arena);

/* ---- the whole ---- */

/* Gives physical memory back until at most KEEP bytes lie idle, as far as possible; waits for pending frees.
 * Later requests make more than is held then only where idle chunks cannot serve them.
 * NOT_READY in a closed arena, which gives nothing back. */
int vs_arena_trim(struct vs_arena *arena, uint64_t keep);
/* From now on every mapping, those that exist included, is accessible from the devices of these bits.  After
 * an error some of those that exist are, and the old set holds for new ones. */
int vs_arena_set_peers(struct vs_arena *arena, uint64_t peers);

/* ---- memory that is away ----
 *
 * A chunk that is away has no physical memory and no mapping.  Its addresses stay the arena's, and so do its
 * blocks; what stood in it the caller has kept.  The caller sees to it that the device touches nothing of it,
 * and that the work which did is done.
 *
 * There are three ways.  All: the arena is closed, every chunk of it can be away, and no memory is given out.
 * Some: blocks leave, and those chunks of theirs can be away in which nothing else lies; the arena works on.
 * Parked: blocks leave, and others have those chunks of theirs meanwhile, which stay where they are.
 * A block that left is pinned until it comes back: its free is carried out then. */

/* Chunks side by side, as they are mapped at ADDRESS: whole chunks. */
struct vs_arena_run {
    uint64_t address, size;
};

/* Closes the arena: idle memory is given back, and vs_arena_malloc fails with NOT_READY until it is opened.
 * Frees go on, but nothing is given back meanwhile.  Waits for pending frees; the caller has waited for the
 * device before, since that wait has no limit.  INVALID where a block is pinned, by others who hold it or as
 * it left, or where the arena is closed; NOT_READY where frees are not complete even so, as others free
 * meanwhile: to be tried again. */
int vs_arena_close(struct vs_arena *arena);
/* INVALID while a chunk is away, or where the arena is open. */
int vs_arena_open(struct vs_arena *arena);
bool vs_arena_closed(struct vs_arena *arena); /* no lock */
/* Lists all chunks of a closed arena once, with those that are away, in up to MOST runs.  A run has at most
 * LONGEST bytes, or it is one group.  *AT is 0 at first, and says where the next call goes on.  How many; 0:
 * no more. */
uint32_t vs_arena_all_runs(struct vs_arena *arena, uint64_t *at, uint64_t longest, struct vs_arena_run *runs,
                           uint32_t most);

/* How many bytes of the block that begins at ADDRESS are in chunks that are away or parked; 0 also where its
 * free was asked for. */
uint64_t vs_arena_block_away(struct vs_arena *arena, uint64_t address);

/* Pins the block that begins at ADDRESS, of SIZE bytes as it was asked for (another size: INVALID, and so
 * where it is pinned, its free was asked for, or the arena is closed). */
int vs_arena_leave(struct vs_arena *arena, uint64_t address, uint64_t size);
/* Of the block that left from ADDRESS, the runs of the chunks that can be away or parked, now: those in which
 * nothing lies but blocks that left (away: and that none parked).  Up to MOST of them, at the addresses at
 * which the block has them; how many there are (one at most: only at its ends others lie).  A chunk in which
 * two such blocks lie is among the runs of both. */
uint32_t vs_arena_block_runs(struct vs_arena *arena, uint64_t address, struct vs_arena_run *runs,
                             uint32_t most);
/* Takes from the beginning of REST, at first such a run, what can be sent or fetched in one call: LONGEST
 * bytes at most, or a few chunks that share physical memory.  Those that share it with chunks outside of the
 * run are left out, and stay.  Size 0: there is no more. */
struct vs_arena_run vs_arena_piece(struct vs_arena *arena, struct vs_arena_run *rest, uint64_t longest);
/* The block is back, and its free carried out if it was asked for.  INVALID while a chunk of it is away, be
 * it another's that left as well: that one's other chunks may stay away. */
int vs_arena_return(struct vs_arena *arena, uint64_t address);

/* Unmaps the chunks of the run, wherever they are mapped, and releases them.  Those that are away already
 * stay so.  INVALID where one of them cannot be away, or shares physical memory with one outside.  After any
 * error all that were here are here still, with their contents; what the driver does not let undo is counted
 * in stats.lost.  Alias mappings of the chunks in which no block lives may be removed for good. */
int vs_arena_send(struct vs_arena *arena, struct vs_arena_run run);
/* Makes new chunks in the place of those of the run that are away, and maps them wherever they were.  Where
 * the device has no more, an open arena gives back first what is idle.  OUT_OF_MEMORY and other errors: all
 * that were away are away still.  Contents are undefined. */
int vs_arena_fetch(struct vs_arena *arena, struct vs_arena_run run);

/* Parks the block that left from ADDRESS.  Those of its chunks in which nothing lies but parked blocks serve
 * requests from now on, after what QUEUE was given up to now: the copies out of vs_arena_block_runs.  No call
 * of the driver is needed for it, but for an event.  In a chunk of two blocks other contents may come as soon
 * as both are parked, so a copy of it is its addresses', not one block's.  Also those can be parked that have
 * others' parked chunks.  INVALID where a chunk of the block is away or a private queue's, and where memory
 * is mapped once. */
int vs_arena_park(struct vs_arena *arena, uint64_t address, uint32_t queue);
/* Takes the chunks back: QUEUE's stream waits for the frees of those who had them.  *BACK: the chunks whose
 * contents are now to be copied in (size 0: none), by work of QUEUE.  After that, and if nothing was copied,
 * too, the streams that use the block, its own queue's among them, have to wait for QUEUE's before it
 * returns; the host does for one without a stream.  Chunks in which another block is alive stay with that
 * one, and the block gets others at its addresses.  NOT_READY where the device has to be waited for first
 * (vs_arena_await), or a stream's wait cannot be had now; OUT_OF_MEMORY, where the same may help, and other
 * errors: the block is parked still. */
int vs_arena_unpark(struct vs_arena *arena, uint64_t address, uint32_t queue, struct vs_arena_run *back);

/* Of the block that is parked from ADDRESS on: the bytes of its chunks that others are alive in.  UINT64_MAX:
 * no block is. */
uint64_t vs_arena_taken(struct vs_arena *arena, uint64_t address);
/* From now on so many bytes are left, as in the configuration. */
void vs_arena_headroom(struct vs_arena *arena, uint64_t bytes);

struct vs_arena_stats {
    uint64_t allocated, peak_allocated; /* live blocks, rounded to units; falls when a free is asked for */
    uint64_t high_allocated;            /* their highest since vs_arena_high_from_now */
    uint64_t ordered,
        high_ordered; /* those that are stream-ordered; their highest since vs_arena_high_from_now */
    uint64_t reserved, peak_reserved; /* physical chunks */
    uint64_t high_reserved;           /* the same since vs_arena_high_from_now */
    uint64_t idle;                    /* of reserved: chunks in which no block is */
    uint64_t away;                    /* chunks that are away: in no figure of reserved */
    uint64_t parked;   /* chunks that are parked: of reserved, and of idle while nobody has them */
    uint64_t deferred; /* freed, and waiting for queues, the device or an unpin */
    uint64_t at_peak_reserved, at_peak_idle, at_peak_deferred; /* when `allocated` first reached its peak */
    uint64_t blocks, queues, aliases;
    uint64_t mappings, peak_mappings; /* chunks mapped, second mappings included */
    uint64_t mallocs, frees;
    uint64_t hits;       /* from a free extent, no call of the driver */
    uint64_t alias_hits; /* from an alias mapping that was there, no call of the driver */
    uint64_t created, released, aliased, unmapped;
    uint64_t replaced;                 /* chunks that a parked block got for others */
    uint64_t stream_waits, host_waits; /* waits: of a stream, of the host */
    uint64_t evicted;                  /* alias mappings */
    uint64_t lost;                     /* chunks that could not be released, or unmapped */
    uint64_t lost_blocks;              /* whose deferred free could not be remembered: never reused */
};
void vs_arena_stats(struct vs_arena *arena, struct vs_arena_stats *stats);
/* The same without waiting; false where the arena is at work. */
bool vs_arena_stats_now(struct vs_arena *arena, struct vs_arena_stats *stats);
/* How often `reserved`, `away` or `parked` has changed.  No lock: what the calling thread's own calls did is
 * counted in. */
uint64_t vs_arena_changes(const struct vs_arena *arena);
enum vs_arena_high { VS_HIGH_RESERVED = 1, VS_HIGH_ORDERED = 2, VS_HIGH_ALLOCATED = 4 };
void vs_arena_high_from_now(struct vs_arena *arena, unsigned which);
/* `reserved` alone, as of about now: no lock. */
uint64_t vs_arena_reserved(const struct vs_arena *arena);
/* Likewise `idle`, while the arena is not closed. */
uint64_t vs_arena_idle(const struct vs_arena *arena);

#endif
