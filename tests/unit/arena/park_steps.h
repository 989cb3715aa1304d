/* park_steps.h - the steps of away_steps.h, and those that park (park_kit.h): blocks of stream 1, and one
 * that copies. */
#ifndef TESTS_UNIT_ARENA_PARK_STEPS_H
#define TESTS_UNIT_ARENA_PARK_STEPS_H

#include "park_kit.h"
#include "away_steps.h"

#define COPY 9 /* the stream that copies */

static uint32_t one, copy; /* queues */

static inline void begin_park(uint64_t chunks, const struct vs_arena_config *config)
{
    begin_away(chunks, config);
    one = queue_of(1, 0);
    copy = queue_of(COPY, 0);
}

/* A block leaves while its work may still run. */
static inline void park(uint64_t address, uint64_t size)
{
    assert_int_equal(vs_arena_leave(k.arena, address, size), 0);
    assert_int_equal(kit_park(&k, address, copy), 0);
    arena_check(k.arena);
}

static inline void unpark(uint64_t address)
{
    assert_int_equal(kit_unpark(&k, address, copy, 1 << 1 | 1 << 2), 0);
    assert_int_equal(vs_arena_return(k.arena, address), 0);
    arena_check(k.arena);
}

static inline uint64_t take_one(uint64_t size)
{
    return take_own(one, size);
}

/* The I-th block that was taken with its owner. */
static inline void give_own(uint64_t address, uint64_t size, uint32_t i, uint32_t queue)
{
    uint32_t stream = kit_stream_of(&k, queue);
    kit_disown(&k, address, kit_rounded(size), i, stream ? 1ull << stream : 0, false);
    assert_int_equal(vs_arena_free(k.arena, address, queue, 0), 0);
}

#endif
