/*
 * test_arena_free_extents.c - trees of free extents: the best fit is the same as by looking at all of them,
 * from the smallest size to the largest, and no way of freeing makes a tree deep.
 */

#include "unit/test.h"
#include "arena/core/internal.h"

#define EXTENTS 400u

static struct vs_arena arena;
static struct extent extent[1 << 20];
static struct free_extents free_extents;
static bool inside[EXTENTS];

static uint64_t random_state = 1;

static uint64_t rnd(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 16) % below;
}

static int begin(void **state)
{
    arena.extent = extent;
    memset(inside, 0, sizeof inside);
    memset(&free_extents, 0, sizeof free_extents);
    for (unsigned bin = 0; bin < BINS; bin++)
        free_extents.root[bin] = 0xdeadbeef; /* what stands in an empty one is nothing to rely on */
    return 0;
}

/* ---- best fit ---- */

/* Some of each power of two up to 2^46 bytes, many of them equal. */
static uint64_t some_size(void)
{
    uint64_t units = 1ull << rnd(38);
    return (units + rnd(64) * (units / 64) + rnd(2)) * VS_ARENA_UNIT;
}

static uint32_t by_looking_at_all(uint64_t size)
{
    uint32_t best = NIL;
    for (uint32_t i = 0; i < EXTENTS; i++)
        if (inside[i] && extent[i].size >= size &&
            (best == NIL || extent[i].size < extent[best].size ||
             (extent[i].size == extent[best].size && extent[i].at < extent[best].at)))
            best = i;
    return best;
}

TEST(the_best_fit_is_found_among_free_extents_of_all_sizes, begin)
{
    for (int i = 0; i < 100000; i++) {
        uint32_t one = (uint32_t)rnd(EXTENTS);
        if (inside[one]) {
            vs_free_extents_remove(&arena, &free_extents, one);
        } else {
            extent[one].size = some_size();
            extent[one].at = rnd(1ull << 20) * EXTENTS * VS_ARENA_UNIT + one * VS_ARENA_UNIT;
            vs_free_extents_insert(&arena, &free_extents, one);
        }
        inside[one] = !inside[one];
        for (int j = 0; j < 3; j++) {
            uint64_t size = some_size() - rnd(2) * (VS_ARENA_UNIT - 1);
            assert_int_equal(vs_free_extents_fit(&arena, &free_extents, size), by_looking_at_all(size));
        }
    }
}

TEST(the_last_that_is_taken_leaves_none, begin)
{
    for (uint32_t i = 0; i < EXTENTS; i++) {
        extent[i].size = some_size();
        extent[i].at = i;
        vs_free_extents_insert(&arena, &free_extents, i);
    }
    for (uint32_t i = 0; i < EXTENTS; i++)
        vs_free_extents_remove(&arena, &free_extents, i);
    assert_int_equal(free_extents.words, 0);
    for (unsigned word = 0; word < BIN_WORDS; word++)
        assert_int_equal(free_extents.filled[word], 0);
    assert_int_equal(vs_free_extents_fit(&arena, &free_extents, 1), NIL);
}

/* ---- depth ---- */

static unsigned depth_of(uint32_t root)
{
    if (root == NIL)
        return 0;
    unsigned left = depth_of(extent[root].left), right = depth_of(extent[root].right);
    return 1 + (left > right ? left : right);
}

/* Equal free extents, as those of one block of each layer of equal layers: each at some distance from the
 * next. */
TEST(free_extents_in_a_rhythm_make_no_deep_tree, begin)
{
    for (uint32_t rhythm = 1; rhythm < 2500; rhythm++) {
        begin(NULL);
        for (uint32_t i = 0; i < EXTENTS; i++) {
            extent[i * rhythm].size = VS_ARENA_UNIT;
            extent[i * rhythm].at = i * rhythm;
            vs_free_extents_insert(&arena, &free_extents, i * rhythm);
        }
        assert_int_equal(free_extents.words, 1);
        assert_int_equal(__builtin_popcountll(free_extents.filled[0]), 1);
        assert_in_range(depth_of(free_extents.root[__builtin_ctzll(free_extents.filled[0])]), 8, 40);
    }
}
