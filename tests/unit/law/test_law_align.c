/* test_law_align.c - two sequences beside each other: as many pairs as the longest common subsequence has, in
 * order, of equal keys. */

#include "unit/test.h"
#include "law/model.h"

#define MOST 60

/* By the plain quadratic table. */
static size_t longest_common(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
    static size_t table[MOST + 1][MOST + 1];
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t skip = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
            table[i][j] = a[i - 1] == b[j - 1] ? table[i - 1][j - 1] + 1 : skip;
        }
    return table[n][m];
}

static void check(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
    uint32_t out[MOST + 1];
    size_t pairs = 0;
    uint32_t last = 0;
    assert_true(align(a, n, b, m, out));
    for (size_t i = 0; i < n; i++) {
        if (out[i] == ALIGN_NONE)
            continue;
        assert_true(out[i] < m && a[i] == b[out[i]]);
        assert_true(pairs == 0 || out[i] > last);
        last = out[i];
        pairs++;
    }
    assert_int_equal(pairs, longest_common(a, n, b, m));
}

TEST(test_as_many_pairs_as_a_table_finds)
{
    uint64_t a[MOST], b[MOST];
    srandom(11);
    for (int turn = 0; turn < 3000; turn++) {
        size_t n = (size_t)random() % (MOST + 1), m = (size_t)random() % (MOST + 1);
        uint64_t keys = 1 + (uint64_t)random() % 12;
        for (size_t i = 0; i < MOST; i++) {
            a[i] = (uint64_t)random() % keys;
            b[i] = random() % 4 ? a[i] : (uint64_t)random() % keys;
        }
        check(a, n, b, m);
    }
}

TEST(test_sequences_that_have_nothing_in_common_are_refused)
{
    static uint64_t a[2 * ALIGN_MOST], b[2 * ALIGN_MOST];
    static uint32_t out[2 * ALIGN_MOST];
    for (size_t i = 0; i < 2 * ALIGN_MOST; i++) {
        a[i] = 1;
        b[i] = 2;
    }
    assert_false(align(a, 2 * ALIGN_MOST, b, 2 * ALIGN_MOST, out));
}
