/* test_layouts.c - a program whose peak hangs on where the driver puts a segment is told from one whose peak
 * does not. */

#include "unit/test.h"
#include "replay/layouts.h"

#define MIB(n) ((uint64_t)(n) << 20)
#define LOW    (UINT64_C(1) << 40)
#define HIGH   (LOW + MIB(32))

/* Two segments of 20 MiB, the second one made lies at SECOND; each has 4 MiB left, of which 2 are asked for.
 * Where these come from the second one the first is empty in the end and serves a request of 20 MiB; else
 * that needs a third. */
static size_t record(struct tape_event *at, uint64_t first, uint64_t second, bool third)
{
    uint64_t small = second < first ? second : first;
    uint64_t large = third ? LOW - MIB(64) : first;
    const struct tape_event events[] = {
        {.what = TAPE_SEGMENT_ALLOC, .address = LOW, .size = MIB(20)},
        {.what = TAPE_ALLOC, .address = LOW, .size = MIB(9), .id = 0},
        {.what = TAPE_SEGMENT_ALLOC, .address = HIGH, .size = MIB(20)},
        {.what = TAPE_ALLOC, .address = HIGH, .size = MIB(20), .id = 1},
        {.what = TAPE_FREE, .address = LOW, .size = MIB(9), .id = 0},
        {.what = TAPE_FREE, .address = HIGH, .size = MIB(20), .id = 1},
        {.what = TAPE_EMPTY_CACHE},
        {.what = TAPE_SEGMENT_FREE, .address = LOW, .size = MIB(20)},
        {.what = TAPE_SEGMENT_FREE, .address = HIGH, .size = MIB(20)},
        {.what = TAPE_SEGMENT_ALLOC, .address = first, .size = MIB(20)},
        {.what = TAPE_ALLOC, .address = first, .size = MIB(8), .id = 2},
        {.what = TAPE_ALLOC, .address = first + MIB(8), .size = MIB(8), .id = 3},
        {.what = TAPE_SEGMENT_ALLOC, .address = second, .size = MIB(20)},
        {.what = TAPE_ALLOC, .address = second, .size = MIB(8), .id = 4},
        {.what = TAPE_ALLOC, .address = second + MIB(8), .size = MIB(8), .id = 5},
        {.what = TAPE_ALLOC, .address = small + MIB(16), .size = MIB(2), .id = 6},
        {.what = TAPE_FREE, .address = first, .size = MIB(8), .id = 2},
        {.what = TAPE_FREE, .address = first + MIB(8), .size = MIB(8), .id = 3},
        {.what = TAPE_SEGMENT_ALLOC, .address = large, .size = MIB(20)},
        {.what = TAPE_ALLOC, .address = large, .size = MIB(20), .id = 7},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (third || i != sizeof events / sizeof *events - 2)
            at[n++] = events[i];
    return n;
}

static struct layouts tried(struct tape_event *at, size_t n, uint64_t allocated, uint64_t reserved,
                            bool ranks)
{
    struct trace_tape tape = {
        .at = at, .n = n, .ids = 8, .streams = 1, .calls_known = true, .asked = 8, .version = "2.11.0"};
    struct layouts l;
    layouts_try(&tape, 0, (int64_t)allocated, (int64_t)reserved, ranks, &l);
    return l;
}

TEST(test_where_the_order_of_segments_decides_the_figures_are_an_interval)
{
    struct tape_event at[32];
    size_t n = record(at, HIGH, LOW, false);
    struct layouts l = tried(at, n, MIB(38), MIB(40), false);
    assert_int_equal(l.tried, 28);
    assert_in_range(l.differ, 1, 27);
    assert_int_equal(l.reserved_least, MIB(40));
    assert_int_equal(l.reserved_most, MIB(60));
    n = record(at, LOW, HIGH, true);
    l = tried(at, n, MIB(38), MIB(60), true);
    assert_int_equal(l.tried, 36);
    assert_int_equal(l.reserved_least, MIB(40));
    assert_int_equal(l.reserved_most, MIB(60));
}

TEST(test_where_it_does_not_all_layouts_hold_the_same)
{
    struct tape_event at[32];
    size_t n = record(at, HIGH, LOW, false) - 1; /* without the request of 20 MiB */
    struct layouts l = tried(at, n, MIB(34), MIB(40), false);
    assert_int_equal(l.tried, 20);
    assert_int_equal(l.differ, 0);
    assert_int_equal(l.allocated_least, MIB(34));
    assert_int_equal(l.reserved_most, MIB(40));
}

TEST(test_a_recording_that_the_replay_does_not_follow_is_not_tried)
{
    struct tape_event at[32];
    size_t n = record(at, HIGH, LOW, false);
    at[n - 1].address += MIB(1);
    struct layouts l = tried(at, n, MIB(38), MIB(40), true);
    assert_int_equal(l.tried, 0);
    assert_int_equal(l.reserved_most, MIB(40));
}
