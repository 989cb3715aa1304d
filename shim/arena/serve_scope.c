/*
 * serve_scope.c - who is inside, and who must stay outside.
 *
 * A primary context may be reset while other threads allocate: its arena is not taken apart before they have
 * left it.  They are counted, in cells of their own so that threads do not meet in one.
 *
 * A fork's child has its parent's arena as it was at the fork, perhaps locked by a thread that the child does
 * not have; and no driver.  A page that the kernel wipes in a child says where one is, also after a raw
 * clone.
 */
#define _GNU_SOURCE
#include "clock.h"
#include "served.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define CELLS       16
#define PATIENCE_NS 5000000000ull

static struct {
    _Alignas(64) _Atomic uint32_t inside;
} cell[CELLS];

static __thread uint8_t my_cell; /* its number + 1 */
static _Atomic(uint32_t *) same_process;
__thread bool vs_serving;

static _Atomic uint32_t *cell_of_thread(void)
{
    static _Atomic uint32_t threads;
    if (__builtin_expect(!my_cell, 0)) /* relaxed: any number will do */
        my_cell = (uint8_t)(atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % CELLS + 1);
    return &cell[my_cell - 1].inside;
}

static bool is_child(void)
{
    /* acquire: what the page holds was written before it was published */
    const uint32_t *page = atomic_load_explicit(&same_process, memory_order_acquire);
    return page && !*page;
}

bool vs_served_in(void)
{
    if (vs_serving || is_child())
        return false;
    vs_serving = true;
    /* sequentially consistent, as the look at the arena that follows and vs_served_wait's two: either the one
     * who ends an arena sees who is inside, or that one sees that there is no arena any more */
    atomic_fetch_add_explicit(cell_of_thread(), 1, memory_order_seq_cst);
    return true;
}

void vs_served_out(void)
{
    /* release: what was done inside was done before */
    atomic_fetch_sub_explicit(cell_of_thread(), 1, memory_order_release);
    vs_serving = false;
}

/* A thread that was cancelled inside, or left by a longjmp out of a signal handler, is never out. */
bool vs_served_wait(void)
{
    uint64_t until = vs_clock_ns() + PATIENCE_NS;
    atomic_thread_fence(memory_order_seq_cst);
    for (int i = 0; i < CELLS; i++)
        while (atomic_load_explicit(&cell[i].inside, memory_order_seq_cst) != 0) {
            if (vs_clock_ns() > until)
                return false;
            sched_yield();
        }
    return true;
}

static void wipe(void)
{
    uint32_t *page = atomic_load_explicit(&same_process, memory_order_relaxed);
    if (page)
        *page = 0;
}

void vs_served_begin(void)
{
    if (atomic_load_explicit(&same_process, memory_order_acquire))
        return;
    uint32_t *none = NULL,
             *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    *page = 1;
    bool wiped = madvise(page, 4096, MADV_WIPEONFORK) == 0;
    if (!atomic_compare_exchange_strong(&same_process, &none, page))
        munmap(page, 4096); /* another thread was first */
    else if (!wiped)
        pthread_atfork(NULL, NULL, wipe); /* before Linux 4.14: a raw clone is not seen there */
}
