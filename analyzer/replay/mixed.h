/*
 * mixed.h - what PyTorch's allocator would have held with other sizes of requests that are guesses.
 *
 * A recording has the most that each guess may be.  One with the likely figures and one with the least do not
 * say what lies between, as a cache does not hold more the more is asked of it.  So the requests are replayed
 * with guesses drawn one by one: most of them likely, or some, or none; the others the least or the most.
 */
#ifndef VS_REPLAY_MIXED_H
#define VS_REPLAY_MIXED_H

#include "layouts.h"

struct mixed_guess { /* bytes; a library's room for one call */
    int64_t likely, least, most;
};

/* TAPE has a request of `most` bytes wherever one of the N GUESSES is used.  Widens L by what the drawn ones
 * hold, where the replay follows the recording, whose peaks are ALLOCATED and RESERVED. */
void mixed_try(const struct trace_tape *tape, int64_t memory, const struct mixed_guess *guesses, size_t n,
               int64_t allocated, int64_t reserved, struct layouts *l);

#endif
