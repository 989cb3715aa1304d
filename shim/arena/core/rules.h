/*
 * rules.h - the rules beyond best fit, by name.
 *
 * RULE(x) is true in the library, at no cost.  bench_arena_replay is built from the same sources with
 * VS_ARENA_RULES_SWITCHED and can leave each one out, which is how docs/measurements/arena-rules.md says what
 * it is worth.
 */
#ifndef VS_ARENA_CORE_RULES_H
#define VS_ARENA_CORE_RULES_H

#include <stdint.h>

/* X(name, the rule) */
#define VS_ARENA_RULES(X)                                                                                    \
    X(SMALL_HEAP, "blocks up to 256 KiB have a heap of their own")                                           \
    X(SLACK, "new chunks before alias mappings, up to 1.5 % beyond the live peak")                           \
    X(ALIASES, "idle chunks are mapped again, side by side")                                                 \
    X(ALIAS_TRIES, "up to 16 alias mappings are tried where the first ones cannot be waited for")            \
    X(GROW_INSTEAD, "no alias mapping where as many chunks would have to be created as for the heap")        \
    X(EVEN, "a block of whole chunks begins where one does")                                                 \
    X(TAIL, "the heap grows from the free extent at its top on")                                             \
    X(VACANT, "of a vacant place and the top, what needs fewer chunks")                                      \
    X(KEEP, "a free extent is left to its queue for 4096 frees")                                             \
    X(SHARE_MISS, "a request that misses opens the free extents of all queues")                              \
    X(SMALLER_OF_TWO, "the smaller of a queue's own free extent and of all queues'")                         \
    X(FIND_READY, "where no wait can be made, the next larger free extents are tried")                       \
    X(STREAM_WAITS, "a stream is made to wait for another one's frees")                                      \
    X(WAIT_SLACK, "beyond 4 % the host waits for what a request without a stream needs")                     \
    X(SMALL_LAST, "a small request takes from the heap of the large before it fails")                        \
    X(EVENTS, "an event is recorded after each 32 MiB that a queue freed")                                   \
    X(QUIET, "events 16 times as far apart where nobody queries them")                                       \
    X(PATIENCE, "an event that was not reached is queried after 2, 4, .. 16 polls")                          \
    X(FROM_DEFERRED, "beyond the slack the oldest deferred frees are waited for, one by one")                \
    X(ONE_WAIT, "one wait for many frees that wait for single queues")                                       \
    X(TROUGH, "the backlog is emptied where least lives")                                                    \
    X(WIDE, "events of the device further apart while nobody waits")                                         \
    X(DEFER_SLACK, "deferred frees count as live up to 16 MiB")                                              \
    X(DEFER_CHUNK, "with deferred frees the slack is a chunk at least")                                      \
    X(ASK_ROOM, "the driver is asked how much is free before many chunks are made")                          \
    X(REGRET, "the window of what is given back doubles where it was missed")                                \
    X(AT_ONCE, "at most 256 chunks are given back at a look")

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
