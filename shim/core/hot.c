/*
 * hot.c - the two lines of hot.h, and the page of the first.
 *
 * The process's line leads to the parent's ring, so a fork child must never find it.  MADV_WIPEONFORK sees to
 * that, also where the child is made by a raw clone, and is for private anonymous memory: a page of
 * uninitialised data of its own is that, in a library as in a program.
 */
#define _GNU_SOURCE
#include "hot.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Alignas(sizeof(union vs_hot_page)) union vs_hot_page vs_hot_page;
__thread struct vs_self vs_self __attribute__((tls_model("initial-exec")));

/* For kernels without MADV_WIPEONFORK: a raw clone is not seen there, fork is. */
static void forget_ring(void)
{
    atomic_store_explicit(&vs_hot.ring_header, NULL, memory_order_relaxed);
}

void vs_hot_prepare(void)
{
    int kept = errno;
    if (madvise(&vs_hot_page, sizeof vs_hot_page, MADV_WIPEONFORK) != 0)
        pthread_atfork(NULL, NULL, forget_ring);
    errno = kept;
}
