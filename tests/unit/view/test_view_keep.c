/* test_view_keep.c - the blocks that a page holds one by one are the largest of every tile. */

#include "unit/test.h"
#include "made_up.h"
#include "view/levels.h"

enum { LARGEST = 5 };

static bool lived(const struct trace_block *b, int64_t from, int64_t to)
{
    return b->born < to && (b->died == UNKNOWN || b->died >= from);
}

/* How many blocks of [FROM, TO) come before block B: the larger ones, of equal ones the earlier. */
static size_t rank_of(const struct trace_lives *l, size_t b, int64_t from, int64_t to)
{
    size_t rank = 0;
    for (size_t i = 0; i < l->block_count; i++)
        rank += lived(&l->blocks[i], from, to) &&
                (l->blocks[i].size > l->blocks[b].size || (l->blocks[i].size == l->blocks[b].size && i < b));
    return rank;
}

static bool wanted(const struct trace_lives *l, size_t b, int64_t last, size_t tiles)
{
    int64_t width = last / (int64_t)tiles + 1;
    for (size_t i = 0; i < tiles; i++)
        if (lived(&l->blocks[b], (int64_t)i * width, (int64_t)(i + 1) * width) &&
            rank_of(l, b, (int64_t)i * width, (int64_t)(i + 1) * width) < LARGEST)
            return true;
    return false;
}

TEST(every_tile_has_exactly_its_largest_blocks)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct made_up m = make_up(seed, 130, 0);
        const struct trace_lives *l = &m.lives;
        struct view_kept k = view_keep(l->blocks, l->block_count, m.last, LARGEST, 45);
        size_t rows = 0, count = 0;
        assert_false(k.all);
        assert_true(k.tile > 0 && k.count <= 45);
        while (m.last / (INT64_C(1) << rows) + 1 > k.tile)
            rows++;
        assert_true(rows > 0);
        for (size_t b = 0; b < l->block_count; b++) {
            bool want = false;
            for (size_t row = 0; row <= rows && !want; row++)
                want = wanted(l, b, m.last, (size_t)1 << row);
            assert_int_equal(k.kept[b], want);
            count += k.kept[b];
        }
        assert_int_equal(count, k.count);
        view_free_kept(&k);
        trace_free_lives(&m.lives);
    }
}

TEST(where_there_is_room_for_all_all_are_kept)
{
    struct made_up m = make_up(7, 600, 0);
    struct view_kept k = view_keep(m.lives.blocks, m.lives.block_count, m.last, LARGEST, m.lives.block_count);
    assert_true(k.all && k.count == m.lives.block_count && k.tile == 0);
    for (size_t i = 0; i < k.count; i++)
        assert_true(k.kept[i]);
    view_free_kept(&k);
    trace_free_lives(&m.lives);
}

TEST(without_room_for_a_row_the_largest_of_the_run_are_kept)
{
    struct made_up m = make_up(8, 600, 0);
    struct view_kept k = view_keep(m.lives.blocks, m.lives.block_count, m.last, LARGEST, 3);
    assert_true(k.tile == UNKNOWN && k.count == 3);
    for (size_t i = 0; i < m.lives.block_count; i++)
        assert_int_equal(k.kept[i], rank_of(&m.lives, i, 0, INT64_MAX) < 3);
    view_free_kept(&k);
    trace_free_lives(&m.lives);
}

TEST(who_lived_at_a_moment_is_kept_as_well_and_the_bound_holds)
{
    struct made_up m = make_up(11, 600, 0);
    int64_t moment = m.last / 3;
    struct view_kept k = view_keep(m.lives.blocks, m.lives.block_count, m.last, 1, 10),
                     few = view_keep(m.lives.blocks, m.lives.block_count, m.last, 1, 10);
    view_keep_moment(&k, m.lives.blocks, m.lives.block_count, moment, m.lives.block_count);
    view_keep_moment(&few, m.lives.blocks, m.lives.block_count, moment, few.count + 2);
    size_t count = 0;
    for (size_t i = 0; i < m.lives.block_count; i++) {
        const struct trace_block *b = &m.lives.blocks[i];
        if (b->born <= moment && (b->died == UNKNOWN || b->died > moment))
            assert_true(k.kept[i]);
        count += few.kept[i];
    }
    assert_int_equal(count, few.count);
    assert_true(k.count > few.count && few.count <= 12);
    view_free_kept(&k);
    view_free_kept(&few);
    trace_free_lives(&m.lives);
}
