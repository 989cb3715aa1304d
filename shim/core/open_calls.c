/* open_calls.c - see open_calls.h.  Alone, since tests/e2e/frameworks/phase_log.c includes it. */
#include "open_calls.h"

#include "hot.h"

__thread struct vs_open_calls vs_open_calls;
VS_HOT _Atomic uint32_t vs_open_calls_at; /* two halves, each one more than its offset; 0: not known */

void vs_open_calls_frames_at(int holder, int current)
{
    uint32_t at = current < 0 ? 0 : (uint32_t)(holder + 1) << 16 | (uint32_t)(current + 1);
    atomic_store_explicit(&vs_open_calls_at, at, memory_order_relaxed);
}
