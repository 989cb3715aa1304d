/* arena_steps.h - one arena over the kit, and the steps that tests of its promises take with it. */
#ifndef TESTS_UNIT_ARENA_ARENA_STEPS_H
#define TESTS_UNIT_ARENA_ARENA_STEPS_H

#include "unit/test.h"
#include "arena/core/backing.h"
#include "arena_check.h"

#define G KIT_CHUNK

static struct kit k;

static inline uint64_t take(uint32_t queue, uint64_t size)
{
    uint64_t address = 0;
    assert_int_equal(vs_arena_malloc(k.arena, queue, size, &address), 0);
    assert_true(address >= KIT_BASE);
    return address;
}

static inline void give(uint64_t address, uint32_t queue)
{
    k.freed++;
    assert_int_equal(vs_arena_free(k.arena, address, queue, 0), 0);
}

static inline uint32_t queue_of(uint64_t stream, unsigned flags)
{
    uint32_t queue;
    assert_int_equal(vs_arena_open_queue(k.arena, stream, flags, &queue), 0);
    return queue;
}

static inline struct vs_arena_stats stats(void)
{
    struct vs_arena_stats s;
    vs_arena_stats(k.arena, &s);
    return s;
}

static inline void begin(uint64_t chunks)
{
    kit_begin(&k, chunks, NULL);
}

static inline void end(void)
{
    arena_check(k.arena);
    kit_end(&k);
}

/* COUNT blocks of SIZE bytes, then every second of them freed: idle chunks that are apart. */
static inline void make_gaps(uint32_t queue, uint64_t size, int count, uint64_t *blocks)
{
    for (int i = 0; i < count; i++)
        blocks[i] = take(queue, size);
    for (int i = 0; i < count; i += 2)
        give(blocks[i], queue);
}

#endif
