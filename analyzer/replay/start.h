/* start.h - the state that a tape begins with, as blocks of the simulated allocator. */
#ifndef VS_REPLAY_START_H
#define VS_REPLAY_START_H

#include "read/trace.h"
#include "read/tape.h"
#include "torch.h"

/* Places what the events before tape->start set up.  BLOCKS gets the numbers of blocks by their ids.  Returns
 * the bytes that are alive. */
uint64_t start_state(struct torch *t, const struct trace_tape *tape, uint32_t *blocks);

#endif
