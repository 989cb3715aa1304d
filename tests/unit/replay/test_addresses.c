/* test_addresses.c - where a made-up driver puts segments: as cuMemAlloc of an H200 was recorded to. */

#include "unit/test.h"
#include "replay/addresses.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define TOP    MIB(1 << 20)

TEST(test_regions_lie_below_each_other_and_gaps_are_filled)
{
    struct addresses a;
    addresses_init(&a, TOP, NULL);
    assert_int_equal(addresses_take(&a, MIB(20)), TOP - MIB(32));
    assert_int_equal(addresses_take(&a, MIB(20)), TOP - MIB(64));
    assert_int_equal(addresses_take(&a, MIB(12)), TOP - MIB(12)); /* behind the first */
    assert_int_equal(addresses_take(&a, MIB(2)), TOP - MIB(44));  /* behind the second */
    assert_int_equal(addresses_take(&a, MIB(148)), TOP - MIB(64) - MIB(160));
    assert_int_equal(addresses_take(&a, MIB(10)), TOP - MIB(42)); /* the smallest gap that has room */
    assert_int_equal(addresses_reserve(&a, MIB(40)), TOP - MIB(64) - MIB(160) - MIB(64));
    addresses_free(&a);
}

TEST(test_what_goes_back_is_taken_again_and_joined_within_its_region)
{
    struct addresses a;
    addresses_init(&a, TOP, NULL);
    uint64_t first = addresses_take(&a, MIB(16)), second = addresses_take(&a, MIB(16)),
             below = addresses_take(&a, MIB(32));
    assert_int_equal(second, first + MIB(16));
    addresses_give(&a, first, MIB(16));
    addresses_give(&a, second, MIB(16));
    assert_int_equal(addresses_take(&a, MIB(32)), first); /* one gap of both */
    addresses_give(&a, first, MIB(32));
    addresses_give(&a, below, MIB(32));
    assert_int_equal(addresses_take(&a, MIB(64)), below - MIB(64)); /* two regions are not one */
    addresses_free(&a);
}
