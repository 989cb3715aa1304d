/*
 * rules.h - the rules beyond best fit, by name.
 *
 * The library keeps all of them, and RULE(x) is true there at no cost.  bench_arena_replay is built from the
 * same sources with VS_ARENA_RULES_SWITCHED and can leave each one out, which is how
 * docs/measurements/arena-rules.md says what it is worth.
 */
#ifndef VS_ARENA_CORE_RULES_H
#define VS_ARENA_CORE_RULES_H

#include <stdint.h>

/* X(name, the rule) */
#define VS_ARENA_RULES(X)                                                                                    \
    X(SMALL_HEAP, "blocks up to 256 KiB have a heap of their own")                                           \
    X(SLACK, "new granules before views, up to 1.5 % beyond the live peak")                                  \
    X(VIEWS, "idle granules are mapped again, side by side")                                                 \
    X(VIEW_TRIES, "up to 16 views are looked at where the first ones cannot be waited for")                 \
    X(GROW_INSTEAD, "no view where as many granules would have to be created as for the heap")               \
    X(EVEN, "a block of whole granules begins where one does")                                               \
    X(TAIL, "the heap grows from the hole at its top on")                                                    \
    X(VACANT, "of a vacant place and the top, what needs fewer granules")                                    \
    X(KEEP, "a hole is left to its lane for 4096 frees")                                                     \
    X(SHARE_MISS, "a request that misses opens the holes of all lanes")                                      \
    X(SMALLER_OF_TWO, "the smaller of a lane's own hole and of all lanes'")                                  \
    X(FIND_READY, "where no wait can be made, the next larger holes are looked at")                          \
    X(FOLLOWS, "a stream is made to wait for another one's frees")                                           \
    X(WAIT_SLACK, "beyond 4 % the host waits for what a request without a stream needs")                     \
    X(SMALL_LAST, "a small request takes from the heap of the large before it fails")                        \
    X(MARKS, "a lane is marked after each 32 MiB that it freed")                                             \
    X(QUIET, "marks 16 times as far apart where nobody looks at them")                                       \
    X(PATIENCE, "a mark that was not reached is looked at after 2, 4, .. 16 polls")                          \
    X(FROM_DEFERRED, "beyond the slack the oldest deferred frees are waited for, one by one")                \
    X(ONE_WAIT, "one wait for many frees that wait for single lanes")                                        \
    X(EBB, "the queue is emptied where least lives")                                                         \
    X(WIDE, "marks of the device further apart while nobody waits")                                          \
    X(DEFER_SLACK, "deferred frees count as live up to 16 MiB")                                              \
    X(DEFER_GRANULE, "with deferred frees the slack is a granule at least")                                  \
    X(ASK_ROOM, "the driver is asked how much is free before many granules are made")                        \
    X(REGRET, "the window of what is given back doubles where it was missed")                                \
    X(AT_ONCE, "at most 256 granules are given back at a look")

#ifdef VS_ARENA_RULES_SWITCHED
enum vs_arena_rule {
#define X(name, text) RULE_##name,
    VS_ARENA_RULES(X)
#undef X
        RULES
};
extern uint64_t vs_arena_rules_off; /* bits */
#define RULE(name) (!(vs_arena_rules_off >> RULE_##name & 1))
#else
#define RULE(name) 1
#endif

#endif
