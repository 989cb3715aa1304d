/*
 * test_pack.c - packings of blocks whose lives are known: nothing overlaps, nothing is lower than what lives,
 * and the greedy one is the one that a search through all placed blocks finds.
 */

#include "unit/test.h"
#include "replay/pack.h"
#include "replay/replay.h"
#include "read/tape.h"

#define MOST 6000

static struct pack_block blocks[MOST];
static uint32_t at[2 * MOST];
static uint64_t offsets[MOST];
static struct pack p;
static uint64_t seed;

static uint32_t next_random(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* COUNT blocks, some ALIVE at a time, of SIZES different sizes; some live to the end. */
static void make(uint32_t count, uint32_t alive, uint32_t sizes, uint64_t with)
{
    uint32_t living[MOST], n = 0;
    seed = with;
    p = (struct pack){blocks, 0, at, 0, offsets};
    while (p.count < count) {
        if (n < alive && (n == 0 || next_random(5) > 1)) {
            uint32_t size = 1 + next_random(sizes) * next_random(sizes);
            blocks[p.count] = (struct pack_block){size, p.events, UINT32_MAX};
            living[n++] = p.count;
            at[p.events++] = p.count++;
        } else {
            uint32_t i = next_random(n);
            blocks[living[i]].to = p.events;
            at[p.events++] = living[i];
            living[i] = living[--n];
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (blocks[i].to == UINT32_MAX)
            blocks[i].to = p.events;
}

static uint64_t most_alive(void)
{
    uint64_t live = 0, most = 0;
    for (uint32_t i = 0; i < p.events; i++) {
        bool begins = blocks[at[i]].from == i;
        live += begins ? blocks[at[i]].size : -blocks[at[i]].size;
        most = live > most ? live : most;
    }
    return most;
}

static bool meet(uint32_t i, uint32_t k)
{
    return blocks[i].from < blocks[k].to && blocks[k].from < blocks[i].to;
}

static void assert_is_packing(uint64_t height)
{
    uint64_t top = 0;
    for (uint32_t i = 0; i < p.count; i++) {
        top = offsets[i] + blocks[i].size > top ? offsets[i] + blocks[i].size : top;
        for (uint32_t k = 0; k < i; k++)
            if (meet(i, k))
                assert_true(offsets[i] + blocks[i].size <= offsets[k] ||
                            offsets[k] + blocks[k].size <= offsets[i]);
    }
    assert_int_equal(top, height);
    assert_true(height >= most_alive());
}

static int larger_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (blocks[x].size != blocks[y].size)
        return blocks[x].size < blocks[y].size ? 1 : -1;
    return (x > y) - (x < y);
}

/* The lowest place of block I among the first N of ORDER: moved up until nothing is in the way. */
static uint64_t search(const uint32_t *order, uint32_t n, uint32_t i, const uint64_t *found)
{
    uint64_t x = 0;
    for (uint32_t k = 0; k < n;) {
        uint32_t other = order[k];
        bool clear =
            !meet(i, other) || found[other] >= x + blocks[i].size || found[other] + blocks[other].size <= x;
        x = clear ? x : found[other] + blocks[other].size;
        k = clear ? k + 1 : 0;
    }
    return x;
}

TEST(test_the_greedy_packing_is_that_of_an_exhaustive_search)
{
    static uint64_t found[MOST];
    static uint32_t order[MOST];
    for (uint32_t round = 0; round < 6; round++) {
        make(round < 3 ? 400 : 900, 10 + round * 40, round % 2 ? 300 : 6, round + 1);
        uint64_t height = pack_greedy(&p, UINT64_MAX);
        for (uint32_t i = 0; i < p.count; i++)
            order[i] = i;
        qsort(order, p.count, sizeof *order, larger_first);
        for (uint32_t i = 0; i < p.count; i++) {
            found[order[i]] = search(order, i, order[i], found);
            assert_int_equal(offsets[order[i]], found[order[i]]);
        }
        assert_is_packing(height);
    }
}

TEST(test_every_way_gives_a_packing)
{
    for (uint32_t round = 0; round < 4; round++) {
        make(3000, round % 2 ? 700 : 40, round < 2 ? 8 : 2000, 77 + round);
        assert_is_packing(pack_greedy(&p, UINT64_MAX));
        for (int way = 0; way < 4; way++)
            assert_is_packing(pack_heap(&p, way & 1 ? 50 : UINT64_MAX, way & 2, UINT64_MAX));
    }
}

TEST(test_a_heap_gives_up_at_its_limit_and_not_below)
{
    make(2000, 200, 100, 5);
    uint64_t height = pack_heap(&p, UINT64_MAX, true, UINT64_MAX);
    assert_int_equal(pack_heap(&p, UINT64_MAX, true, height + 1), height);
    assert_int_equal(pack_heap(&p, UINT64_MAX, true, height), UINT64_MAX);
    height = pack_greedy(&p, UINT64_MAX);
    assert_int_equal(pack_greedy(&p, height + 1), height);
    assert_int_equal(pack_greedy(&p, height), UINT64_MAX);
}

TEST(test_sizes_beyond_any_device_are_left_to_the_heap)
{
    make(10, 5, 3, 9);
    blocks[3].size = UINT64_C(1) << 37;
    assert_int_equal(pack_greedy(&p, UINT64_MAX), UINT64_MAX);
    assert_true(pack_heap(&p, UINT64_MAX, false, UINT64_MAX) >= blocks[3].size);
}

TEST(test_nothing_is_packed_into_nothing)
{
    struct trace_tape tape = {0};
    struct replay_result r;
    replay_packed(&tape, 0, &r);
    assert_int_equal(r.reserved, 0);
    assert_int_equal(r.bound, 0);
}
