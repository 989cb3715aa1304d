/* test_compare.c - rows of two runs belong together by name, devices by number, and changes have their sign.
 */

#include "unit/test.h"
#include "analysis/compare.h"
#include "base/units.h"

TEST(rows_join_by_name_and_sum_within_a_side)
{
    struct comparison c = {0};
    compare_add(&c, SIDE_A, "logits", 16);
    compare_add(&c, SIDE_A, "forward", 3);
    compare_add(&c, SIDE_B, "forward", 2);
    compare_add(&c, SIDE_B, "forward", 1);
    compare_add(&c, SIDE_B, "backward", 1);
    assert_int_equal(c.count, 3);
    assert_true(compare_find(&c, SIDE_A, "logits") == 16 && compare_find(&c, SIDE_B, "logits") == UNKNOWN);
    assert_true(compare_find(&c, SIDE_B, "forward") == 3 && compare_find(&c, SIDE_A, "nobody") == UNKNOWN);
    compare_free(&c);
}

TEST(the_greatest_change_comes_first_whichever_way)
{
    struct comparison c = {0};
    compare_add(&c, SIDE_A, "same", 1000);
    compare_add(&c, SIDE_B, "same", 1000);
    compare_add(&c, SIDE_A, "grew", 10);
    compare_add(&c, SIDE_B, "grew", 30);
    compare_add(&c, SIDE_B, "new", 19);
    compare_add(&c, SIDE_A, "gone", 21);
    compare_sort(&c);
    const char *order[] = {"gone", "grew", "new", "same"};
    for (int i = 0; i < 4; i++)
        assert_string_equal(c.rows[i].name, order[i]);
    compare_free(&c);
}

static void expect_pairs(const int64_t *a, size_t an, const int64_t *b, size_t bn, const int64_t *want,
                         size_t n)
{
    size_t count;
    struct compared_devices *pairs = compare_devices(a, an, b, bn, &count);
    assert_int_equal(count, n);
    for (size_t i = 0; i < n; i++)
        assert_true(pairs[i].a == want[2 * i] && pairs[i].b == want[2 * i + 1]);
    free(pairs);
}

TEST(devices_pair_by_number_or_as_the_only_ones)
{
    int64_t zero[] = {0}, five[] = {5}, both[] = {0, 1}, others[] = {1, 2};
    expect_pairs(zero, 1, five, 1, (int64_t[]){0, 5}, 1);
    expect_pairs(both, 2, others, 2, (int64_t[]){0, UNKNOWN, 1, 1, UNKNOWN, 2}, 3);
    expect_pairs(both, 2, five, 1, (int64_t[]){0, UNKNOWN, 1, UNKNOWN, UNKNOWN, 5}, 3);
    expect_pairs(both, 2, NULL, 0, (int64_t[]){0, UNKNOWN, 1, UNKNOWN}, 2);
    expect_pairs(NULL, 0, NULL, 0, NULL, 0);
}

TEST(changes_have_their_sign_and_nothing_is_made_of_the_unknown)
{
    assert_true(compare_change(5, 3) == -2 && compare_change(UNKNOWN, 3) == UNKNOWN);
    assert_string_equal(units_change(100, 28).s, "-72.0 %");
    assert_string_equal(units_change(100, 112).s, "+12.0 %");
    assert_string_equal(units_change(100, 100).s, "0.0 %");
    assert_string_equal(units_change(100000, 99999).s, "0.0 %"); /* no -0.0 */
    assert_string_equal(units_change(100, 0).s, "-100.0 %");
    assert_string_equal(units_change(10, 104).s, "x 10.4");
    assert_string_equal(units_change(0, 100).s, "-");
    assert_string_equal(units_change(UNKNOWN, 100).s, "-");
    assert_string_equal(units_change(100, UNKNOWN).s, "-");
    assert_string_equal(units_bytes_change(1 << 20, false).s, "+1.00 MiB");
    assert_string_equal(units_bytes_change(-(1 << 20), false).s, "-1.00 MiB");
    assert_string_equal(units_bytes_change(-3, true).s, "-3");
    assert_string_equal(units_bytes_change(0, false).s, "0 B");
    assert_string_equal(units_bytes_change(UNKNOWN, false).s, "-");
}
