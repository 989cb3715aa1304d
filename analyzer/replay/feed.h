/*
 * feed.h - an allocator that is fed events one at a time and can be looked at after each: for sequences that
 * nobody recorded (edit/), which need not lie in memory as a tape.
 *
 * Blocks are named by numbers that the caller gives, below the COUNT that the feed was made for.  Each thread
 * may have a feed of its own; those of the arena wait for each other from feed_begin to feed_end.
 */
#ifndef VS_REPLAY_FEED_H
#define VS_REPLAY_FEED_H

#include "replay.h"

enum feed_policy { FEED_LIVE, FEED_NATIVE, FEED_EXPANDABLE, FEED_ARENA, FEED_POLICIES };
extern const char *const feed_policy_names[FEED_POLICIES + 1]; /* and NULL */

struct feed;
struct feed_totals {
    uint64_t allocated, reserved; /* now: of blocks as the policy makes them; of the driver */
};

/* SETTINGS: of PyTorch's policies; its capacity is every policy's.  Freed by feed_end. */
struct feed *feed_begin(enum feed_policy policy, const struct torch_settings *settings, size_t count);
/* False: out of memory; nothing has changed but what was cached. */
bool feed_born(struct feed *f, uint32_t block, uint64_t size, uint16_t stream);
/* SIZE and STREAM: as it was born with.  DEFERRED, to the arena alone: not in the stream's order. */
void feed_died(struct feed *f, uint32_t block, uint64_t size, uint16_t stream, bool deferred);
struct feed_totals feed_now(const struct feed *f);
/* The largest request that STREAM would get next, in multiples of 512 bytes, with all that the policy does
 * before it refuses; 0: none. Caches are empty afterwards. */
uint64_t feed_room(struct feed *f, uint16_t stream);
void feed_end(struct feed *f);

#endif
