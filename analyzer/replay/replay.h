/*
 * replay.h - the recorded blocks under another allocator: what it would have held of the driver.
 *
 * A policy gets requests and frees in their order and on their streams, of a tape (read/tape.h) or one at a
 * time.  Placement is decided by the policy alone: the arena's is its own code, PyTorch's is simulated
 * (torch.h).
 */
#ifndef VS_REPLAY_REPLAY_H
#define VS_REPLAY_REPLAY_H

#include "read/tape.h"
#include "read/trace.h"
#include "addresses.h"
#include "torch.h"

struct replay_result {
    uint64_t reserved;    /* the most that was held of the driver, up to where it ran out */
    uint64_t blocks_most; /* of PyTorch's policies: the most that its blocks took, which it calls allocated */
    uint64_t events;      /* requests and frees */
    int64_t ns;           /* that the replay took */
    uint64_t retries;     /* times that everything cached went back to make room */
    bool ran_out;         /* a request failed: nothing after it was replayed */
    bool out_at_start;    /* what lived when the trace began had no room */
    int64_t out_t;        /* when */
    uint64_t out_size, out_live, out_reserved; /* asked for; alive and held then */

    bool compared;                    /* with what was recorded under the same policy */
    uint64_t blocks, blocks_same;     /* requests; those that got the recorded address */
    uint64_t segments, segments_same; /* what the driver was asked, as recorded; of it predicted */
    uint64_t segments_more;           /* predicted and not recorded */
};

/* COMPARE: the tape was recorded under this policy.  The replay then begins with the state that the tape
 * begins with, gets addresses where the driver gave them, and is refused where the driver refused. */
void replay_torch(const struct trace_tape *tape, const struct torch_settings *settings, bool compare,
                  struct replay_result *r);
/* Not compared; DRIVER says where the segments lie. */
void replay_torch_at(const struct trace_tape *tape, const struct torch_settings *settings,
                     const struct addresses_driver *driver, struct replay_result *r);
/* CAPACITY 0: no end. */
void replay_arena(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r);
/* What is alive alone. */
void replay_live(const struct trace_tape *tape, uint64_t capacity, struct replay_result *r);

/* What PyTorch's allocator may hold from the start of the recording on, by its settings, on a device of
 * MEMORY bytes (UNKNOWN); UINT64_MAX: no limit. */
uint64_t replay_first_limit(const struct trace_tape *tape, int64_t memory);
/* The limit that was set last, or that one; UNKNOWN: none. */
int64_t replay_last_limit(const struct trace_tape *tape, const struct trace_device *device);
/* What the recording says of PyTorch's settings, over the defaults; false: its allocator is not simulated. */
bool replay_settings(const struct trace_tape *tape, struct torch_settings *s);
/* Why a comparison under the recorded policy may have found differences, as far as the recording shows; the
 * caller frees it. */
char *replay_why_not(const struct trace_tape *tape, bool expandable);

/* The state that a tape begins with: places what the events before tape->start set up.  BLOCKS gets the
 * numbers of blocks by their ids.  Returns the bytes that are alive. */
uint64_t start_state(struct torch *t, const struct trace_tape *tape, uint32_t *blocks);

/* CPU time of this thread, ns. */
int64_t replay_now(void);

/*
 * ---- events one at a time ----
 *
 * For sequences that nobody recorded (edit/), which need not lie in memory as a tape; an allocator can be
 * looked at after each event.  Blocks are numbers that the caller gives, below the COUNT that the feed was
 * made for. Each thread may have a feed of its own; those of the arena wait for each other from feed_begin to
 * feed_end.
 */

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
