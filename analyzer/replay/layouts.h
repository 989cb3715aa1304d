/*
 * layouts.h - how far what PyTorch's native allocator holds hangs on where the driver puts memory, and on
 * guesses.
 *
 * Where segments lie follows a rule that was seen and that nobody documents, and hangs on what else a process
 * has in the driver's regions.  So the recorded requests are replayed over other rules and regions.  Where
 * all of them hold what was recorded, another driver is taken to do so, too (of 40 programs an H200's did in
 * 39). Where one does not, the figures of segments that lie anywhere say how far off another driver may be.
 */
#ifndef VS_REPLAY_LAYOUTS_H
#define VS_REPLAY_LAYOUTS_H

#include "read/tape.h"
#include "replay.h"

struct layouts {
    int tried;  /* 0: what was recorded is not what the replay holds where the recorded segments lie, so that
                   no other layout says anything */
    int differ; /* how many of these hold something else */
    int64_t allocated_least, allocated_most, reserved_least, reserved_most;
};

/* Of a recording from the program's start on; ALLOCATED and RESERVED: its peaks, bytes.  RANKS: it is one of
 * several. */
void layouts_try(const struct trace_tape *tape, int64_t memory, int64_t allocated, int64_t reserved,
                 bool ranks, struct layouts *l);

/* Whether the simulated allocator, with the recorded SETTINGS and addresses, holds what the recorded one did,
 * which had no reason to give memory back: when it must hangs on the device.  MEMORY: of that, bytes. */
bool layouts_follow(const struct trace_tape *tape, int64_t memory, int64_t allocated, int64_t reserved,
                    struct torch_settings *settings);
/* L holds what R does, too. */
void layouts_widen(struct layouts *l, const struct replay_result *r);

/*
 * The same with guesses (mixed.c).  A recording has the most that each guess may be.  As a cache does not
 * hold more the more is asked of it, the least and the likely figures do not say what lies between; so
 * requests are replayed with guesses drawn one by one, most of them likely, or some, or none; the others
 * least or most.
 */

struct mixed_guess { /* bytes; a library's room for one call */
    int64_t likely, least, most;
};

/* TAPE has a request of `most` bytes wherever one of the N GUESSES is used.  Widens L by what the drawn ones
 * hold, where the replay follows the recording, whose peaks are ALLOCATED and RESERVED. */
void mixed_try(const struct trace_tape *tape, int64_t memory, const struct mixed_guess *guesses, size_t n,
               int64_t allocated, int64_t reserved, struct layouts *l);

#endif
