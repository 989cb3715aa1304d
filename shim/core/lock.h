/*
 * lock.h - the library's locks, and the order in which a thread may take them.
 *
 * A lock is two words and costs a compare-and-swap without contention.  A thread that finds it taken spins
 * for a moment, because most holders keep it for some ten nanoseconds, and then sleeps.  Sleepers are woken
 * one at a time: while one is waking up, giving the lock makes no system call.  It is not fair: a newcomer
 * may take it before a thread that is waking up.  Zero is free.  errno stays as it was.
 */
#ifndef VS_CORE_LOCK_H
#define VS_CORE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* ---- the order of all locks ----
 *
 * A thread that holds a lock takes only locks that stand below it here, and none of the same kind, so no two
 * threads ever wait for each other.  Each is declared with its place, `static struct vs_lock lock =
 * VS_LOCK(POOLS)`.  Builds with VS_LOCK_CHECKS (CMake's Debug) check every take and abort at the first
 * violation, even if no thread would have waited this time.
 *
 * The order follows the calls: reporting code calls the provider, a provider's parts call arenas, an arena
 * calls its backing, and the backing queries contexts.  Beside these there are only locks under which no
 * function is called that could take another one: that of SQLite's heap (trace/store/heap.c), SQLite's own,
 * and the substitutes for libunwind's mutexes (stacks/unwind_imports.c), which give up instead of waiting for
 * ever.  The hot path of recording takes none. */

/* X(place, the files that have it, what may be called with it held), from the outermost on */
#define VS_LOCK_ORDER(X)                                                                                     \
    X(MOVING, "arena/away/away.c", "all that stands below, while memory moves to the host or back")          \
    X(PROVIDED, "hooks/provided.c", "the provider: what it holds, to be recorded before anybody asks again") \
    X(IMPORTING, "arena/share/imports.c, changing", "another process and the driver, for memory of theirs")  \
    X(ANSWERING, "arena/share/passing.c", "the system, for a socket and the thread that answers there")      \
    X(MAKING, "arena/device/served.c",                                                                       \
      "an arena that begins or ends, captures and exports that end with it")                                 \
    X(POOLS, "arena/torch/pools.c", "an arena: stream queues and blocks of a pool that ends")                \
    X(COUNTS, "arena/torch/counts.c",                                                                        \
      "an arena's figures, and the report of a block in the order of counting")                              \
    X(STREAMS, "arena/device/served.h", "an arena: the queue of a stream that ends")                         \
    X(PARKING, "arena/away/back.c",                                                                          \
      "an arena, the driver and the record: a block goes to the host or comes back")                         \
    X(EXPORTS, "arena/share/exports.c", "an arena: a block that is exported must not move on meanwhile")     \
    X(ARENA, "arena/core/state.h", "the backing: the driver, and which contexts reach the memory")           \
    X(CONTEXTS, "arena/cuda/contexts.c", "the driver, about primary contexts")                               \
    X(CAPTURES, "arena/cuda/captures.c", "nothing")                                                          \
    X(IMPORTS, "arena/share/imports.c", "nothing")                                                           \
    X(FOREIGN, "arena/torch/foreign.c", "nothing")                                                           \
    X(LIMIT, "limit/limit.c", "NVML and the driver, for a figure")                                           \
    X(NVML, "sample/nvml.c", "NVML")

/* 0 is no place: a lock whose memory was wiped in a child of fork has it, and one that only tests make. */
enum vs_lock_place {
    VS_LOCK_NOWHERE,
#define X(NAME, file, calls) VS_LOCK_##NAME,
    VS_LOCK_ORDER(X)
#undef X
};

#ifdef VS_LOCK_CHECKS
/* Before a take that may wait; after any take; after a give.  LOCK identifies the lock. */
void vs_lock_order_check(const void *lock, enum vs_lock_place place);
void vs_lock_order_taken(const void *lock, enum vs_lock_place place);
void vs_lock_order_given(const void *lock);
#endif

/* ---- the lock ---- */

#define VS_LOCK_HELD    1u
#define VS_LOCK_WAKING  2u /* a sleeper was woken and has neither taken it nor gone to sleep again */
#define VS_LOCK_SLEEPER 4u /* one sleeper, in the count */

struct vs_lock {
    uint32_t state; /* HELD | WAKING | SLEEPER times how many sleep, or are about to or just woke */
    uint32_t wakes; /* how often a sleeper was woken; the futex that sleepers wait on */
#ifdef VS_LOCK_CHECKS
    enum vs_lock_place place;
#endif
};

/* The lock's initial value, by its place in VS_LOCK_ORDER. */
#ifdef VS_LOCK_CHECKS
#define VS_LOCK(NAME)                                                                                        \
    {                                                                                                        \
        0, 0, VS_LOCK_##NAME                                                                                 \
    }
#define VS_LOCK_NOTE(what, ...) vs_lock_order_##what(__VA_ARGS__)
#else
#define VS_LOCK(NAME)                                                                                        \
    {                                                                                                        \
        0, 0                                                                                                 \
    }
#define VS_LOCK_NOTE(what, ...) ((void)0)
#endif

void vs_lock_take_slow(struct vs_lock *l);
void vs_lock_give_slow(struct vs_lock *l);

static inline void vs_lock_take(struct vs_lock *l)
{
    uint32_t was = 0;
    VS_LOCK_NOTE(check, l, l->place);
    /* acquire: sees what the last holder wrote */
    if (__builtin_expect(!__atomic_compare_exchange_n(&l->state, &was, VS_LOCK_HELD, 0, __ATOMIC_ACQUIRE,
                                                      __ATOMIC_RELAXED),
                         0))
        vs_lock_take_slow(l);
    VS_LOCK_NOTE(taken, l, l->place);
}

static inline bool vs_lock_try(struct vs_lock *l)
{
    uint32_t was = 0;
    if (!__atomic_compare_exchange_n(&l->state, &was, VS_LOCK_HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return false;
    VS_LOCK_NOTE(taken, l, l->place);
    return true;
}

static inline void vs_lock_give(struct vs_lock *l)
{
    uint32_t was = VS_LOCK_HELD;
    VS_LOCK_NOTE(given, l);
    /* release: the next holder sees what was written */
    if (__builtin_expect(
            !__atomic_compare_exchange_n(&l->state, &was, 0, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED), 0))
        vs_lock_give_slow(l);
}

#endif
