/* test_export_lanes.c - slices of a lane lie within each other, whatever overlaps, and none is lost. */

#include "unit/test.h"
#include "export/perfetto.h"

enum { TRACKS = 64, PARENT = 7 };
static struct {
    int64_t open[64], last;
    int depth;
} track[TRACKS];
static int tracks, begins, ends;

uint64_t perfetto_track(struct perfetto *w, uint64_t parent, const char *name, enum perfetto_track kind)
{
    assert_int_equal(kind, PERFETTO_PLAIN);
    assert_int_equal(parent, PARENT);
    assert_string_equal(name, "ranges");
    assert_true(PARENT + 1 + tracks < TRACKS);
    return (uint64_t)(PARENT + 1 + tracks++);
}

void perfetto_begin_slice(struct perfetto *w, int64_t t, uint64_t at, const char *name, const char *category)
{
    assert_true(t >= track[at].last);
    track[at].last = t;
    track[at].open[track[at].depth++] = t;
    begins++;
}

void perfetto_end_slice(struct perfetto *w, int64_t t, uint64_t at)
{
    assert_true(track[at].depth > 0 && t >= track[at].last);
    assert_true(t >= track[at].open[--track[at].depth]);
    track[at].last = t;
    ends++;
}

static void put(struct lanes *l, int64_t begin, int64_t end)
{
    lanes_put(l, NULL, begin, end, "x", "range");
}

static int start(void **state)
{
    memset(track, 0, sizeof track);
    tracks = begins = ends = 0;
    return 0;
}

TEST(what_is_nested_stays_on_the_parent, start)
{
    struct lanes l = {.parent = PARENT, .name = "ranges", .first_is_parent = true};
    put(&l, 0, 100);
    put(&l, 10, 90);
    put(&l, 20, 30);
    put(&l, 30, 90); /* touches the one before, and ends with what is around it */
    put(&l, 90, 100);
    put(&l, 100, 100);
    lanes_end(&l, NULL);
    assert_int_equal(tracks, 0);
    assert_int_equal(begins, 6);
    assert_int_equal(ends, 6);
}

TEST(what_overlaps_gets_a_lane_and_leaves_it_again, start)
{
    struct lanes l = {.parent = PARENT, .name = "ranges", .first_is_parent = true};
    put(&l, 0, 50);
    put(&l, 40, 80); /* ends behind the first */
    put(&l, 45, 60); /* within the second */
    assert_int_equal(tracks, 1);
    put(&l, 85, 90); /* the first lane is free again */
    lanes_end(&l, NULL);
    assert_int_equal(tracks, 1);
    assert_int_equal(begins, ends);
}

TEST(what_is_open_stays_open_and_what_overlaps_it_is_elsewhere, start)
{
    struct lanes l = {.parent = PARENT, .name = "ranges"};
    put(&l, 0, 10);
    put(&l, 5, INT64_MAX);
    put(&l, 6, 20);
    lanes_end(&l, NULL);
    assert_int_equal(tracks, 2);
    assert_int_equal(begins, 3);
    assert_int_equal(ends, 2);
}

TEST(clocks_that_disagree_a_little_move_no_begin_before_an_end, start)
{
    struct lanes l = {.parent = PARENT, .name = "ranges"};
    uint32_t dice = 3;
    for (int i = 0; i < 5000; i++) {
        dice = dice * 1664525 + 1013904223;
        put(&l, 10 * i - (dice >> 28), 10 * i + (dice >> 24) % 90);
    }
    lanes_end(&l, NULL);
    assert_int_equal(begins, 5000);
    assert_int_equal(ends, 5000);
}
