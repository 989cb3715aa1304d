/* test_arena_hostile.c - devices, drivers and callers that are out of the ordinary. */
#include <sys/resource.h>

#include "unit/test.h"
#include "arena/core/backing.h"
#include "arena_check.h"

#define MIB 0x100000ull
#define G   (2 * MIB)

static struct vs_backing_count count;
static struct vs_arena *arena;

static struct vs_backing backing(void)
{
    count = (struct vs_backing_count){0};
    return vs_backing_of_counters(&count, G);
}

static void begin(const struct vs_backing *b, uint64_t capacity)
{
    struct vs_arena_config config = {.capacity = capacity};
    count.capacity = capacity / G;
    assert_int_equal(vs_arena_create(&arena, b, &config), 0);
}

static uint64_t take(uint32_t queue, uint64_t size)
{
    uint64_t address = 0;
    assert_int_equal(vs_arena_malloc(arena, queue, size, &address), 0);
    return address;
}

static void give(uint64_t address, uint32_t queue)
{
    assert_int_equal(vs_arena_free(arena, address, queue, 0), 0);
}

static void end(void)
{
    arena_check(arena);
    vs_arena_destroy(arena);
    assert_int_equal(count.chunks, 0);
}

/* ---- addresses ---- */

static uint64_t next_window;

static int reserve_downwards(void *context, uint64_t size, uint64_t *address)
{
    next_window -= size + 3 * G;
    *address = next_window;
    return 0;
}

TEST(windows_may_lie_in_any_order)
{
    struct vs_backing b = backing();
    uint64_t blocks[200];
    uint32_t queues[4];
    b.reserve = reserve_downwards;
    next_window = 0x7fff00000000ull << 8;
    begin(&b, 4096 * MIB);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(vs_arena_open_queue(arena, i, 0, &queues[i]), 0);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 200; i++)
            blocks[i] = take(queues[i % 4], i % 3 ? 1 + i * 40000 : 1 + i);
        for (uint32_t i = 0; i < 200; i++) {
            struct vs_arena_block found;
            assert_true(vs_arena_find(arena, blocks[i] + (i % 3 ? i * 40000 : i), &found));
            assert_int_equal(found.address, blocks[i]);
            assert_int_equal(found.queue, queues[i % 4]);
        }
        for (uint32_t i = round % 2; i < 200; i += 2)
            give(blocks[i], queues[i % 4]);
        uint64_t large = take(queues[round], 300 * MIB);
        arena_check(arena);
        give(large, queues[round]);
        for (uint32_t i = !(round % 2); i < 200; i += 2)
            give(blocks[i], queues[i % 4]);
    }
    end();
}

TEST(addresses_of_no_window_are_of_no_block)
{
    struct vs_arena_block found;
    struct vs_backing b = backing();
    begin(&b, 256 * MIB);
    uint64_t address = take(0, 3 * G);
    static const uint64_t wild[] = {0, 1, 511, 0x1000, UINT64_MAX, UINT64_MAX - 511, 1ull << 63};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        assert_false(vs_arena_find(arena, wild[i], &found));
        assert_int_equal(vs_arena_free(arena, wild[i], 0, 0), VS_BACKING_INVALID);
        assert_int_equal(vs_arena_use(arena, wild[i], 0), VS_BACKING_INVALID);
        assert_int_equal(vs_arena_pin(arena, wild[i]), VS_BACKING_INVALID);
        assert_int_equal(vs_arena_unpin(arena, wild[i]), VS_BACKING_INVALID);
    }
    assert_false(vs_arena_find(arena, address - 1, &found));
    assert_false(vs_arena_find(arena, address + 3 * G, &found));
    give(address, 0);
    assert_false(vs_arena_find(arena, address, &found));
    end();
}

/* ---- sizes ---- */

TEST(sizes_that_no_device_has_are_refused)
{
    uint64_t address = 42;
    struct vs_backing b = backing();
    begin(&b, 256 * MIB);
    for (int bit = 28; bit < 64; bit++)
        for (int64_t beside = -513; beside <= 513; beside += 27)
            if ((1ull << bit) + (uint64_t)beside > 256 * MIB)
                assert_int_equal(vs_arena_malloc(arena, 0, (1ull << bit) + (uint64_t)beside, &address),
                                 VS_BACKING_OUT_OF_MEMORY);
    for (uint64_t less = 0; less < 2048; less++)
        assert_int_equal(vs_arena_malloc(arena, 0, UINT64_MAX - less, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(address, 42);
    give(take(0, 256 * MIB), 0); /* and what it has is not */
    assert_int_equal(count.chunks, 128);
    end();
}

TEST(a_device_may_have_no_memory_or_more_than_there_is)
{
    static const uint64_t capacity[] = {0, 1, G, 1ull << 50, UINT64_MAX};
    struct vs_arena_config config = {0};
    for (size_t i = 0; i < sizeof capacity / sizeof *capacity; i++) {
        struct vs_backing b = backing();
        config.capacity = capacity[i];
        if (vs_arena_create(&arena, &b, &config) != 0)
            continue; /* no room for its books is an answer, too */
        give(take(0, 1000), 0);
        give(take(0, 5 * G), 0);
        end();
    }
}

/* One chunk more than 2^19 of them: 1 TiB of 2 MiB, as much as a heap has room for. */
TEST(a_heap_that_is_full_says_so)
{
    uint64_t address, whole;
    struct vs_backing b = backing();
    struct vs_arena_config config = {.capacity = 1ull << 41};
    assert_int_equal(vs_arena_create(&arena, &b, &config), 0);
    whole = take(0, 1ull << 40);
    assert_int_equal(vs_arena_malloc(arena, 0, G, &address), VS_BACKING_OUT_OF_MEMORY);
    assert_int_equal(vs_arena_malloc(arena, 0, (1ull << 40) + 1, &address), VS_BACKING_OUT_OF_MEMORY);
    give(take(0, 512), 0); /* small ones have a heap of their own */
    give(whole, 0);
    give(take(0, 1ull << 40), 0);
    end();
}

/* ---- a driver that refuses ---- */

static int refuse_reserve(void *context, uint64_t size, uint64_t *address)
{
    return VS_BACKING_OUT_OF_MEMORY;
}

static int refuse_create(void *context, uint64_t size, uint64_t *handle)
{
    return VS_BACKING_OUT_OF_MEMORY;
}

static int refuse_room(void *context, uint64_t *bytes)
{
    return VS_BACKING_OUT_OF_MEMORY;
}

static int refuse_handle(void *context, uint64_t handle)
{
    return 719;
}

static int refuse_map(void *context, uint64_t address, uint64_t size, uint64_t handle)
{
    return 719;
}

static int refuse_access(void *context, uint64_t address, uint64_t size, uint64_t peers)
{
    return 719;
}

static int refuse_range(void *context, uint64_t address, uint64_t size)
{
    return 719;
}

static int refuse_record(void *context, uint64_t stream, uint64_t *event)
{
    return 719;
}

static int refuse_stream_wait(void *context, uint64_t stream, uint64_t event)
{
    return 719;
}

static int refuse_synchronize(void *context)
{
    return 719;
}

/* One thing after the other stops working, until nothing does. */
TEST(a_driver_that_fails_in_everything_is_survived)
{
    for (int from = 0; from < 2; from++) {
        struct vs_backing b = backing();
        uint64_t blocks[64] = {0}, address;
        uint32_t queue[3];
        begin(&b, 512 * MIB);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(vs_arena_open_queue(arena, i, 0, &queue[i]), 0);
        for (uint32_t i = 0; from && i < 64; i++)
            blocks[i] = take(queue[i % 3], G + i * 4096);
        struct vs_backing refusing = {b.context,      G,
                                      refuse_reserve, b.unreserve,
                                      refuse_create,  refuse_handle,
                                      refuse_map,     refuse_access,
                                      refuse_range,   refuse_record,
                                      refuse_handle,  refuse_stream_wait,
                                      b.forget,       refuse_synchronize,
                                      refuse_handle,  refuse_room};
        arena->backing = refusing;
        for (uint32_t i = 0; i < 64; i++) {
            if (blocks[i])
                assert_int_equal(
                    vs_arena_free(arena, blocks[i], queue[(i + 1) % 3], i % 4 ? 0 : VS_FREE_DEFER), 0);
            vs_arena_malloc(arena, queue[i % 3], 3 * G + i * 12345, &address);
            vs_arena_malloc(arena, VS_ARENA_ANY, 1 + i * 500000, &address);
            arena_check(arena);
        }
        assert_int_equal(vs_arena_trim(arena, 0), 719);
        vs_arena_set_peers(arena, 3);
        vs_arena_retire_queue(arena, queue[0]);
        arena_check(arena);
        arena->backing = b;
        vs_arena_destroy(arena);
    }
}

TEST(books_that_the_host_has_no_room_for_are_refused)
{
    struct rlimit was, little;
    struct vs_backing b = backing();
    struct vs_arena_config config = {.capacity = 1ull << 40};
    arena = NULL;
    getrlimit(RLIMIT_AS, &was);
    little = was;
    little.rlim_cur = 64 * MIB;
    setrlimit(RLIMIT_AS, &little);
    int status = vs_arena_create(&arena, &b, &config);
    setrlimit(RLIMIT_AS, &was);
    if (status == 0) /* a sanitizer has its own ideas of the limit */
        vs_arena_destroy(arena);
    else
        assert_int_equal(status, VS_BACKING_OUT_OF_MEMORY);
}

/* ---- callers ---- */

TEST(more_streams_than_queues_share_the_one_of_none)
{
    struct vs_backing b = backing();
    uint32_t queue[64], own = 0;
    uint64_t blocks[64];
    begin(&b, 1024 * MIB);
    for (uint64_t i = 0; i < 64; i++) {
        queue[i] = VS_ARENA_ANY;
        own += vs_arena_open_queue(arena, i, 0, &queue[i]) == 0;
    }
    assert_int_equal(own, VS_ARENA_QUEUES - 1);
    for (int round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < 64; i++)
            blocks[i] = take(queue[i], 1 + i * 150000);
        arena_check(arena);
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(
                vs_arena_free(arena, blocks[i], queue[i], queue[i] == VS_ARENA_ANY ? VS_FREE_DEFER : 0), 0);
    }
    end();
}
