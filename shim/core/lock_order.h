/*
 * lock_order.h - the locks of the library, in the order in which a thread may take them.
 *
 * A thread that holds a lock takes only locks that stand below it here, and none of the same kind, so no two
 * threads ever wait for each other.  Each lock is declared with its place, `static struct vs_lock lock =
 * VS_LOCK(POOLS)`.  Builds with VS_LOCK_CHECKS (CMake's Debug) check every take against the list and abort
 * at the first violation, even if no thread would have waited this time; other builds have neither the
 * places nor the checks.
 *
 * The order follows the calls: reporting code calls the provider, a provider's parts call arenas, an arena
 * calls its backing, and the backing queries contexts.  Beside these there are only locks under which no
 * function is called that could take another one: that of SQLite's heap (trace/store/heap.c), SQLite's own,
 * and the substitutes for libunwind's mutexes (stacks/unwind_imports.c), which give up instead of waiting
 * for ever.  The hot path of recording takes none.
 */
#ifndef VS_CORE_LOCK_ORDER_H
#define VS_CORE_LOCK_ORDER_H

/* X(place, the files that have it, what may be called with it held), from the outermost on */
#define VS_LOCK_ORDER(X)                                                                                     \
    X(PROVIDED, "hooks/provided.c", "the provider: what it holds, to be recorded before anybody asks again") \
    X(IMPORTING, "arena/share/imports.c, changing", "another process and the driver, for memory of theirs")  \
    X(ANSWERING, "arena/share/passing.c", "the system, for a socket and the thread that answers there")      \
    X(MAKING, "arena/device/served.c",                                                                       \
      "an arena that begins or ends, captures and exports that end with it")                                 \
    X(POOLS, "arena/torch/pools.c", "an arena: stream queues and blocks of a pool that ends")                \
    X(COUNTS, "arena/torch/counts.c",                                                                        \
      "an arena's figures, and the report of a block in the order of counting")                              \
    X(STREAMS, "arena/device/served.h", "an arena: the queue of a stream that ends")                         \
    X(EXPORTS, "arena/share/exports.c", "an arena: a block that is exported must not move on meanwhile")     \
    X(ARENA, "arena/core/state.h", "the backing: the driver, and which contexts reach the memory")           \
    X(CONTEXTS, "arena/cuda/contexts.c", "the driver, about primary contexts")                               \
    X(CAPTURES, "arena/cuda/captures.c", "nothing")                                                          \
    X(IMPORTS, "arena/share/imports.c", "nothing")                                                           \
    X(FOREIGN, "arena/torch/foreign.c", "nothing")

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

#endif
