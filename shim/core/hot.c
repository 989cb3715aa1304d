/*
 * hot.c - the words of hot.h and open_calls.h.
 *
 * The process's line points to the parent's ring, so a fork child must not see it: its page is wiped
 * (fork.h).
 */
#define _GNU_SOURCE
#include "hot.h"

#include <stddef.h>

#include "fork.h"
#include "open_calls.h"

_Alignas(sizeof(union vs_hot_page)) union vs_hot_page vs_hot_page;
__thread struct vs_self vs_self __attribute__((tls_model("initial-exec")));

static void forget_ring(void)
{
    atomic_store_explicit(&vs_hot.ring_header, NULL, memory_order_relaxed);
}

void vs_hot_prepare(void)
{
    vs_fork_wipes(&vs_hot_page, sizeof vs_hot_page, forget_ring);
}

/* ---- open_calls.h ---- */

__thread struct vs_open_calls vs_open_calls;
VS_HOT _Atomic uint32_t vs_open_calls_at; /* two halves, each one more than its offset; 0: not known */

void vs_open_calls_frames_at(int holder, int current)
{
    uint32_t at = current < 0 ? 0 : (uint32_t)(holder + 1) << 16 | (uint32_t)(current + 1);
    atomic_store_explicit(&vs_open_calls_at, at, memory_order_relaxed);
}
