/*
 * test_arena_holes.c - trees of holes: the best fit is the same as by looking at all of them, from the
 * smallest size to the largest, and no way of freeing makes a tree deep.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "arena/core/internal.h"

#define TILES 400u

static struct vs_arena arena;
static struct tile tile[1 << 20];
static struct holes holes;
static bool inside[TILES];

static uint64_t random_state = 1;

static uint64_t rnd(uint64_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 16) % below;
}

static int begin(void **state)
{
    arena.tile = tile;
    memset(inside, 0, sizeof inside);
    memset(&holes, 0, sizeof holes);
    for (unsigned bin = 0; bin < BINS; bin++)
        holes.root[bin] = 0xdeadbeef; /* what stands in an empty one is nothing to rely on */
    return 0;
}

/* ---- best fit ---- */

/* Some of each power of two up to 2^46 bytes, many of them equal. */
static uint64_t some_size(void)
{
    uint64_t units = 1ull << rnd(38);
    return (units + rnd(4) * (units / 4) + rnd(2)) * VS_ARENA_UNIT;
}

static uint32_t by_looking_at_all(uint64_t size)
{
    uint32_t best = NIL;
    for (uint32_t i = 0; i < TILES; i++)
        if (inside[i] && tile[i].size >= size &&
            (best == NIL || tile[i].size < tile[best].size ||
             (tile[i].size == tile[best].size && tile[i].at < tile[best].at)))
            best = i;
    return best;
}

static void the_best_fit_is_found_among_holes_of_all_sizes(void **state)
{
    for (int i = 0; i < 100000; i++) {
        uint32_t one = (uint32_t)rnd(TILES);
        if (inside[one]) {
            vs_holes_remove(&arena, &holes, one);
        } else {
            tile[one].size = some_size();
            tile[one].at = rnd(1ull << 20) * TILES * VS_ARENA_UNIT + one * VS_ARENA_UNIT;
            vs_holes_insert(&arena, &holes, one);
        }
        inside[one] = !inside[one];
        for (int j = 0; j < 3; j++) {
            uint64_t size = some_size() - rnd(2) * (VS_ARENA_UNIT - 1);
            assert_int_equal(vs_holes_fit(&arena, &holes, size), by_looking_at_all(size));
        }
    }
}

static void the_last_that_is_taken_leaves_none(void **state)
{
    for (uint32_t i = 0; i < TILES; i++) {
        tile[i].size = some_size();
        tile[i].at = i;
        vs_holes_insert(&arena, &holes, i);
    }
    for (uint32_t i = 0; i < TILES; i++)
        vs_holes_remove(&arena, &holes, i);
    assert_int_equal(holes.filled, 0);
    assert_int_equal(vs_holes_fit(&arena, &holes, 1), NIL);
}

/* ---- depth ---- */

static unsigned depth_of(uint32_t root)
{
    if (root == NIL)
        return 0;
    unsigned left = depth_of(tile[root].left), right = depth_of(tile[root].right);
    return 1 + (left > right ? left : right);
}

/* Equal holes, as those of one block of each layer of equal layers: each at some distance from the next. */
static void holes_in_a_rhythm_make_no_deep_tree(void **state)
{
    for (uint32_t rhythm = 1; rhythm < 2500; rhythm++) {
        begin(NULL);
        for (uint32_t i = 0; i < TILES; i++) {
            tile[i * rhythm].size = VS_ARENA_UNIT;
            tile[i * rhythm].at = i * rhythm;
            vs_holes_insert(&arena, &holes, i * rhythm);
        }
        assert_int_equal(__builtin_popcountll(holes.filled), 1);
        assert_in_range(depth_of(holes.root[__builtin_ctzll(holes.filled)]), 8, 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_best_fit_is_found_among_holes_of_all_sizes, begin),
        cmocka_unit_test_setup(the_last_that_is_taken_leaves_none, begin),
        cmocka_unit_test_setup(holes_in_a_rhythm_make_no_deep_tree, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
