/* test_expected.c - which set of a table is looked into next is known from the last time
 * (stacks/block.h). */

#include "unit/test.h"
#include "stacks/block.h"

static uint16_t next[8];
#define NEXT_OF(i) next[i]

static int anew(void **state)
{
    memset(next, 0, sizeof next);
    return 0;
}

/* Looks into the N sets AT in turn; how often the set was not the one that had been expected.  A set that is
 * looked into again at once was there. */
static int surprises(struct vs_order *order, const uint16_t *at, int n)
{
    int wrong = 0;
    for (int i = 0; i < n; i++) {
        wrong += order->last != at[i] && order->next != at[i];
        vs_expected(order, at[i], NEXT_OF);
    }
    return wrong;
}

TEST(an_order_that_repeats_is_expected_the_second_time, anew)
{
    static const uint16_t at[] = {3, 1, 1, 7, 2, 2, 2, 5};
    struct vs_order order = {0, 0};
    assert_int_equal(surprises(&order, at, 8), 5);
    assert_int_equal(surprises(&order, at, 8), 1); /* 3 after 5: the end and the begin had not met yet */
    assert_int_equal(surprises(&order, at, 8), 0);
}

TEST(a_change_is_a_surprise_where_it_is_and_nowhere_else, anew)
{
    static const uint16_t at[] = {3, 1, 7, 5}, other[] = {3, 1, 6, 5};
    struct vs_order order = {0, 0};
    surprises(&order, at, 4);
    surprises(&order, at, 4);
    assert_int_equal(surprises(&order, other, 4), 2); /* 6 after 1, 5 after 6 */
    assert_int_equal(surprises(&order, other, 4), 0);
}

TEST(what_is_asked_for_is_the_one_after_this, anew)
{
    static const uint16_t at[] = {3, 1, 7};
    struct vs_order order = {0, 0};
    surprises(&order, at, 3);
    assert_int_equal(vs_expected(&order, 3, NEXT_OF), 1);
    assert_int_equal(vs_expected(&order, 1, NEXT_OF), 7);
    assert_int_equal(vs_expected(&order, 1, NEXT_OF), 7);
}
