/*
 * hot.c - the two lines of hot.h, and the page of the first.
 *
 * The process's line points to the parent's ring, so a fork child must not see it: its page is wiped
 * (fork.h).
 */
#define _GNU_SOURCE
#include "hot.h"

#include <stddef.h>

#include "fork.h"

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
