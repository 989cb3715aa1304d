/*
 * lock_order.c - the locks that each thread holds, and whether it may take another; see lock_order.h.
 *
 * A lock that is only tried is never waited for, so it may be tried in any order; locks that are taken while
 * it is held must keep the order.
 */
#include "lock_order.h"

#ifdef VS_LOCK_CHECKS

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fork.h"

#define MOST 16 /* locks that a thread holds at once; there are fewer places */

static __thread struct {
    const void *lock;
    enum vs_lock_place place;
} held[MOST];
static __thread unsigned count;
static __thread uint32_t process; /* the process that took them; a child of fork holds none */

static const char *name_of(enum vs_lock_place place)
{
    static const char *const names[] = {"a lock without a place",
#define X(NAME, file, calls) #NAME " (" file ")",
                                        VS_LOCK_ORDER(X)
#undef X
    };
    return names[place];
}

static _Noreturn void broken(enum vs_lock_place taken, enum vs_lock_place with)
{
    char text[300];
    int n = snprintf(text, sizeof text,
                     "vramscope: lock order: %s is taken while %s is held; core/lock_order.h has the order\n",
                     name_of(taken), name_of(with));
    if (write(2, text, (size_t)n) < 0)
        abort();
    abort();
}

static void forget_parents(void)
{
    if (process != vs_fork_number())
        count = 0;
    process = vs_fork_number();
}

void vs_lock_order_check(const void *lock, enum vs_lock_place place)
{
    forget_parents();
    for (unsigned i = 0; i < count; i++)
        if (held[i].lock == lock || (place && held[i].place >= place))
            broken(place, held[i].place);
}

void vs_lock_order_taken(const void *lock, enum vs_lock_place place)
{
    forget_parents();
    if (count == MOST)
        broken(place, held[count - 1].place);
    held[count].lock = lock;
    held[count++].place = place;
}

void vs_lock_order_given(const void *lock)
{
    for (unsigned i = count; i-- > 0;)
        if (held[i].lock == lock) {
            held[i] = held[--count];
            return;
        }
}

#endif
