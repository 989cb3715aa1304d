/* away_steps.h - the steps of arena_steps.h, and those that send away and fetch (away_kit.h). */
#ifndef TESTS_UNIT_ARENA_AWAY_STEPS_H
#define TESTS_UNIT_ARENA_AWAY_STEPS_H

#include "away_kit.h"
#include "arena_steps.h"

/* Blocks with the kit's reference behind them, which says that what stands in them stays. */
static uint32_t blocks;

static inline void own(uint64_t address, uint64_t size, uint32_t stream)
{
    kit_own(&k, address, kit_rounded(size), blocks++, stream);
}

/* What was put into the block as the I-th is there still, at every address of it. */
static inline bool has(uint64_t address, uint64_t size, uint32_t i)
{
    bool all = true;
    for (uint64_t at = address; at < address + size; at += VS_ARENA_UNIT)
        all = all && kit_unit(&k, at, k.arena->peers)->owner == i + 1;
    return all;
}

static inline uint64_t take_own(uint32_t queue, uint64_t size)
{
    uint64_t address = take(queue, size);
    own(address, size, (uint32_t)k.arena->queue[queue].stream & 31);
    return address;
}

static inline void begin_away(uint64_t chunks, const struct vs_arena_config *config)
{
    kit_begin(&k, chunks, config);
    blocks = 0;
}

static inline void close_all(void)
{
    kit_wait(&k);
    assert_int_equal(vs_arena_close(k.arena), 0);
    assert_true(vs_arena_closed(k.arena));
}

static inline void open_all(void)
{
    assert_int_equal(vs_arena_open(k.arena), 0);
    assert_false(vs_arena_closed(k.arena));
}

static inline void leave(uint64_t address, uint64_t size)
{
    kit_wait(&k);
    assert_int_equal(vs_arena_leave(k.arena, address, size), 0);
}

static inline struct vs_arena_run run_of_block(uint64_t address)
{
    struct vs_arena_run run = {0};
    vs_arena_block_runs(k.arena, address, &run, 1);
    return run;
}

static inline void done(void)
{
    kit_check_mapped(&k);
    end();
}

#endif
