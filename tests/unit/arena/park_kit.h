/*
 * park_kit.h - parks blocks over the kit, as their caller does: what stands in them is copied by a stream,
 * and copied back by it.
 *
 * In a parked chunk stands what is nobody's, touched last by the copying stream; what is taken back must be
 * so, and touched by no work that the copying stream may not know to be done.
 */
#ifndef TESTS_UNIT_ARENA_PARK_KIT_H
#define TESTS_UNIT_ARENA_PARK_KIT_H

#include "away_kit.h"

static inline uint32_t kit_stream_of(const struct kit *k, uint32_t queue)
{
    return queue == VS_ARENA_ANY ? 0 : (uint32_t)k->arena->queue[queue].stream;
}

/* Work that STREAM is given from now on waits for what OTHER was given. */
static inline void kit_follow(struct kit *k, uint32_t stream, uint32_t other)
{
    for (uint32_t q = 0; q < KIT_STREAMS; q++)
        if (k->known[stream][q] < k->known[other][q])
            k->known[stream][q] = k->known[other][q];
    k->known[stream][other] = k->freed;
}

/* A copy by STREAM: it waits for all others before. */
static inline void kit_copy_out(struct kit *k, struct vs_arena_run run, uint32_t stream)
{
    for (uint32_t q = 0; stream && q < KIT_STREAMS; q++)
        kit_follow(k, stream, q);
    for (uint64_t at = run.address; at < run.address + run.size; at += KIT_CHUNK)
        if (kit_units(k, at))
            memcpy(k->copy[kit_place(at)], kit_units(k, at), sizeof *k->copy);
}

/* What stands in the run's chunks that are parked now is the copying stream's. */
static inline void kit_leave_units(struct kit *k, struct vs_arena_run run, uint32_t stream)
{
    uint64_t users = stream ? 1ull << stream : 0;
    for (uint64_t at = run.address; at < run.address + run.size; at += KIT_CHUNK) {
        struct kit_unit *units = kit_units(k, at);
        for (uint32_t u = 0; units && u < KIT_UNITS && kit_is_parked(k, at); u++)
            units[u] = k->used[kit_place(at)][u] = (struct kit_unit){0, users, k->freed, false};
    }
}

/* Whether the block that left can be parked. */
static inline bool kit_can_park(const struct kit *k, uint64_t address, uint64_t size)
{
    bool can = true;
    for (uint64_t at = address; at < address + kit_rounded(size); at += VS_ARENA_UNIT) {
        uint32_t chunk = kit_chunk(k, at);
        can = can && !is_away(k->arena, chunk) && is_lent(k->arena, chunk);
    }
    return can;
}

static inline int kit_park(struct kit *k, uint64_t address, uint32_t queue)
{
    struct vs_arena_run run = {0};
    uint32_t stream = kit_stream_of(k, queue);
    vs_arena_block_runs(k->arena, address, &run, 1);
    if (!stream) /* what has no stream is waited for */
        kit_wait(k);
    kit_copy_out(k, run, stream);
    k->freed++;
    uint64_t calls = k->driver_calls;
    int status = vs_arena_park(k->arena, address, queue);
    KIT_CHECK(k->driver_calls == calls);
    if (status == 0)
        kit_leave_units(k, run, stream);
    kit_check_mapped(k);
    return status;
}

static inline void kit_copy_in(struct kit *k, uint64_t at, uint32_t stream)
{
    struct kit_unit *units = kit_units(k, at);
    KIT_CHECK(units || k->unmap_failed);
    for (uint32_t u = 0; units && u < KIT_UNITS; u++) {
        KIT_CHECK(!units[u].owner && !kit_is_parked(k, at));
        kit_check_known(k, &units[u], stream);
        units[u] = k->copy[kit_place(at)][u];
        k->used[kit_place(at)][u] = (struct kit_unit){0, stream ? 1ull << stream : 0, k->freed, false};
    }
}

/* Waits for the device where it has to. */
static inline int kit_unpark_waiting(struct vs_arena *arena, uint64_t address, uint32_t queue,
                                     struct vs_arena_run *back)
{
    int status = vs_arena_unpark(arena, address, queue, back);
    if (status == VS_BACKING_NOT_READY || status == VS_BACKING_OUT_OF_MEMORY) {
        vs_arena_await(arena);
        status = vs_arena_unpark(arena, address, queue, back);
    }
    return status;
}

/* And the streams of USERS (bits) wait for the copies. */
static inline int kit_unpark(struct kit *k, uint64_t address, uint32_t queue, uint64_t users)
{
    struct vs_arena_run back = {0};
    uint32_t stream = kit_stream_of(k, queue);
    uint64_t parked = k->arena->stats.parked;
    int status = kit_unpark_waiting(k->arena, address, queue, &back);
    kit_check_mapped(k);
    KIT_CHECK(k->arena->stats.parked == parked - (status == 0 ? back.size : 0));
    if (status != 0)
        return status;
    k->freed++;
    for (uint64_t at = back.address; at < back.address + back.size; at += KIT_CHUNK)
        kit_copy_in(k, at, stream);
    for (uint32_t s = 1; s < KIT_STREAMS; s++)
        if (users >> s & 1 && stream)
            kit_follow(k, s, stream);
    return 0;
}

/* STREAM copied a block of OWNER's in, before it returns.  Who frees it knows what was copied, and so does
 * the next one to have its memory, also where its free was asked for meanwhile: it is not LIVE. */
static inline void kit_copied(struct kit *k, uint64_t address, uint64_t size, bool live, uint32_t owner,
                              uint32_t stream)
{
    if (!owner || k->ended[owner] || !stream) { /* the host waits */
        kit_wait(k);
        return;
    }
    kit_follow(k, owner, stream);
    for (uint64_t at = address; at < address + size && !live; at += VS_ARENA_UNIT) {
        struct kit_unit *u = kit_unit(k, at, k->arena->peers);
        *u = (struct kit_unit){u->owner, 1ull << owner | 1ull << stream, k->freed, false};
    }
}

#endif
