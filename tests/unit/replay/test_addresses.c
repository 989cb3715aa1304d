/*
 * test_addresses.c - where the made-up driver of replays puts segments: as an H200's was recorded to, and
 * held against a map of every 2 MiB, searched from end to end.
 *
 * A gap is the longest run of free units of the map whose bounds are joined.  Which of several smallest gaps
 * is taken is nobody's promise: the map follows the answer; that it is one of the smallest is checked.
 *
 *      test_addresses [SEED STEPS]     default: four seeds, 3,000 steps each
 */

#include "unit/test.h"
#include "replay/addresses.h"

#define UNIT   (UINT64_C(2) << 20)
#define REGION 16u /* units */
#define UNITS  65536u
#define TOP    (UNIT * UNITS)
#define MOST   400

static uint8_t is_free[UNITS], joined[UNITS + 1];
static uint32_t lowest; /* unit, of all regions */
static struct {
    uint32_t at, size;
} living[MOST];
static uint32_t living_count, reused; /* reused: answers that lay in a gap */
static uint32_t seed = 1, steps = 3000;

static uint32_t gap_end(uint32_t at)
{
    do
        at++;
    while (at < UNITS && is_free[at] && joined[at]);
    return at;
}

/* The size of the smallest gap that has room for SIZE; 0: none has. */
static uint32_t smallest_gap(uint32_t size)
{
    uint32_t best = 0;
    for (uint32_t at = lowest; at < UNITS;) {
        if (!is_free[at]) {
            at++;
            continue;
        }
        uint32_t end = gap_end(at);
        if (end - at >= size && (!best || end - at < best))
            best = end - at;
        at = end;
    }
    return best;
}

static void take(struct addresses *a)
{
    uint32_t size = (uint32_t)random() % 8 ? 1 + (uint32_t)random() % 15 : 1 + (uint32_t)random() % 90;
    uint32_t best = smallest_gap(size), at = (uint32_t)(addresses_take(a, size * UNIT) / UNIT);
    if (best) {
        assert_true(is_free[at] && !(at > lowest && is_free[at - 1] && joined[at]));
        assert_int_equal(gap_end(at) - at, best);
        reused++;
    } else {
        uint32_t region = (size + REGION - 1) / REGION * REGION;
        assert_int_equal(at, lowest - region);
        lowest = at;
        memset(is_free + at, 1, region);
        memset(joined + at + 1, 1, region - 1);
        joined[at] = joined[at + region] = 0;
    }
    memset(is_free + at, 0, size);
    living[living_count].at = at;
    living[living_count++].size = size;
}

static void give(struct addresses *a)
{
    uint32_t i = (uint32_t)random() % living_count, at = living[i].at, end = at + living[i].size;
    addresses_give(a, at * UNIT, living[i].size * UNIT);
    living[i] = living[--living_count];
    memset(is_free + at, 1, end - at);
    memset(joined + at + 1, 1, end - at - 1);
    joined[at] = at > lowest && is_free[at - 1] && at % REGION;
    joined[end] = end < UNITS && is_free[end] && end % REGION;
}

static void random_calls(uint32_t with)
{
    struct addresses a;
    addresses_init(&a, TOP, NULL);
    memset(is_free, 0, sizeof is_free);
    memset(joined, 0, sizeof joined);
    lowest = UNITS;
    living_count = reused = 0;
    srandom(with);
    for (uint32_t i = 0; i < steps && lowest > 200; i++) {
        bool fills = i / 200 % 2 == 0; /* more is taken than given, and the other way round */
        if (!living_count || (living_count < MOST && random() % 10 < (fills ? 7 : 3)))
            take(&a);
        else
            give(&a);
    }
    assert_true(reused > steps / 4); /* else gaps were hardly tried */
    addresses_free(&a);
}

/* ---- as cuMemAlloc of an H200 was recorded to ---- */

#define MIB(n) ((uint64_t)(n) << 20)

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

TEST(test_each_answer_is_that_of_a_search_through_a_map_of_units)
{
    for (uint32_t i = 0; i < 4; i++)
        random_calls(seed + i);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        seed = (uint32_t)strtoul(argv[1], NULL, 10);
        steps = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    return run_all_tests(NULL, NULL);
}
