/*
 * uses.h - writes what the device was given into the rows of the blocks that it was given.
 *
 * A launch's uses stand in the ring behind the allocation of every block that the program could pass to it,
 * and before the free that follows.  So the block that lives at an address when its use is applied is the one
 * that was meant.
 *
 * The rows lie in the journal and may be ahead of the database: row 0 says up to which event they are made.
 * An event that comes again, after a kill or for another writer, changes no row; if it is a free, its row is
 * only looked up.
 *
 * Not thread-safe: for the thread that takes events out of the journal.
 */
#ifndef VS_TRACE_USES_USES_H
#define VS_TRACE_USES_USES_H

#include "trace/access.h"
#include "trace/event.h"
#include "trace/journal/journal.h"

/* Whether E is an allocation, or the free, of memory that is tracked: device memory with an address that
 * kernels can get. */
static inline bool vs_uses_followed(const struct vs_event *e)
{
    return e->op == VS_OP_BLOCK_ALLOC || e->op == VS_OP_BLOCK_FREE || e->space == VS_SPACE_DEVICE ||
           e->space == VS_SPACE_POOL || e->space == VS_SPACE_MANAGED || e->space == VS_SPACE_GRAPH ||
           e->space == VS_SPACE_ARENA;
}

/* Whether a block is born by E. */
static inline bool vs_uses_born(const struct vs_event *e)
{
    return (e->op == VS_OP_BLOCK_ALLOC || e->op == VS_OP_ALLOC) && !vs_event_failed(e) && e->size != 0 &&
           vs_uses_followed(e);
}

struct vs_uses;

/* The uses in the events of J behind sequence COMMITTED.  0, and *OUT is NULL where J has no rows; or
 * -ENOMEM. */
int vs_uses_open(struct vs_uses **out, struct vs_journal *j, uint64_t committed);
void vs_uses_free(struct vs_uses *u);

/* Some uses may be missing among the events of the ring: to be called with its HEAD, after events were taken
 * out and before they are applied. */
void vs_uses_missing(struct vs_uses *u, uint64_t head);

/* Whether kernels may use the block that begins at ADDRESS without being given it: its address was copied
 * into device memory, it was not followed all its life, or it is not known. */
bool vs_uses_reached(struct vs_uses *u, uint64_t address);

/* Applies EVENT, the next in the ring's order, as SEQ: of the free of a tracked block event->stack becomes
 * the number of its row, of others 0. */
void vs_uses_apply(struct vs_uses *u, struct vs_event *event, uint64_t seq);

#endif
