/*
 * fork.c - see fork.h.
 *
 * MADV_WIPEONFORK requires private anonymous memory, which a page of uninitialised static data is.
 */
#define _GNU_SOURCE
#include "fork.h"

#include <errno.h>
#include <pthread.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Alignas(sizeof(union vs_fork_page)) union vs_fork_page vs_fork_page;

static uint32_t last; /* atomic: the greatest number that was given, here or in an ancestor */

static void forget_number(void)
{
    __atomic_store_n(&vs_fork_page.number, 0, __ATOMIC_RELAXED);
}

uint32_t vs_fork_number_slow(void)
{
    uint32_t none = 0;
    /* A number is taken first and published second, so that a child that is forked between the two takes
     * another one.  If several threads come at once only one publishes its number; the others' numbers stay
     * unused. */
    uint32_t number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    vs_fork_wipes(&vs_fork_page, sizeof vs_fork_page, forget_number); /* before the page is written */
    return __atomic_compare_exchange_n(&vs_fork_page.number, &none, number, 0, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED)
               ? number
               : none;
}

bool vs_fork_wipes(void *pages, size_t bytes, void (*wipe)(void))
{
    int kept = errno;
    bool wiped = madvise(pages, bytes, MADV_WIPEONFORK) == 0;
    if (!wiped && wipe)
        pthread_atfork(NULL, NULL, wipe);
    errno = kept;
    return wiped;
}

void *vs_fork_wiped_memory(size_t bytes, void (*wipe)(void))
{
    void *m = vs_map(bytes);
    if (m)
        vs_fork_wipes(m, bytes, wipe);
    return m;
}

void *vs_map_once_now(void *_Atomic *place, size_t bytes, bool wiped)
{
    static _Atomic bool cannot_wipe;
    void *there = NULL, *made = wiped && cannot_wipe ? NULL : vs_map(bytes);
    if (made && wiped && !vs_fork_wipes(made, bytes, NULL))
        cannot_wipe = true;
    else if (made && atomic_compare_exchange_strong(place, &there, made))
        return made;
    if (made)
        munmap(made, bytes);
    return there; /* another thread was faster */
}
