/* test_columns.c - a squeezed curve hides no peak, and bands say what happened. */

#include "unit/test.h"
#include "analysis/columns.h"
#include "read/curve.h"
#include "read/tables.h"

static uint64_t random_state = 42;
static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static struct trace_point point(int64_t t, int64_t allocated, int phase)
{
    return (struct trace_point){
        t,     t,     t, allocated, allocated, allocated, 2 * allocated, 2 * allocated, 2 * allocated,
        phase, false, 0, 0};
}

enum { EVENTS = 20000 };
static struct trace_point curve[EVENTS];

static int64_t make_curve(void)
{
    int64_t t = 0, allocated = 1000, most = 0;
    for (int i = 0; i < EVENTS; i++) {
        t += 1 + (int64_t)(random_number() % 1000);
        allocated = (int64_t)(random_number() % 1000000);
        if (i == 12345)
            allocated = 50000000; /* one spike of one event */
        curve[i] = point(t, allocated, i % 5);
        most = allocated > most ? allocated : most;
    }
    return most;
}

TEST(the_greatest_column_is_the_true_peak_at_every_width)
{
    static const size_t widths[] = {1, 2, 7, 100, 1600, 50000};
    const struct trace_point before = {0};
    int64_t most = make_curve();
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct columns c;
        columns_init(&c, 0, curve[EVENTS - 1].t, widths[w]);
        for (int i = 0; i < EVENTS; i++)
            columns_add(&c, &curve[i]);
        columns_finish(&c, &before);
        const struct column *top = &c.at[columns_peak(&c)];
        assert_true(top->allocated_max == most);
        assert_true(top->t_max == curve[12345].t && top->phase == 12345 % 5);
        assert_true(columns_max_reserved(&c) == 2 * most);
        columns_free(&c);
    }
}

/* Allocated 100 all the time, of which 60 are away from 250 to 450. */
TEST(a_column_has_what_was_away_of_its_greatest_value)
{
    static const int64_t wanted[] = {0, 0, 60, 60, 60, 0};
    const struct trace_point before = {0};
    struct columns c;
    columns_init(&c, 0, 600, 6);
    struct trace_point first = point(10, 100, 0), gone = point(250, 100, 0), back = point(450, 100, 0);
    gone.away = gone.away_last = 60;
    columns_add(&c, &back);
    columns_add(&c, &gone);
    columns_add(&c, &first);
    columns_finish(&c, &before);
    for (size_t x = 0; x < c.n; x++) {
        assert_true(c.at[x].allocated_max == 100);
        assert_true(c.at[x].away == wanted[x]);
    }
    assert_true(columns_any_away(&c));
    columns_free(&c);
}

/* At the maximum of a stretch more was away than at its end. */
TEST(a_stretch_over_columns_has_what_was_away_then_and_at_its_end)
{
    const struct trace_point before = {0};
    struct trace_point stretch = point(50, 100, 0);
    struct columns c;
    columns_init(&c, 0, 300, 3);
    stretch.t_max = 150;
    stretch.t_last = 250;
    stretch.allocated_last = 40;
    stretch.away = 70;
    stretch.away_last = 10;
    columns_add(&c, &stretch);
    columns_finish(&c, &before);
    assert_true(c.at[0].away == 0);
    assert_true(c.at[1].allocated_max == 100 && c.at[1].away == 70);
    assert_true(c.at[2].away_last == 10);
    columns_free(&c);
}

/* The curve itself, looked at column by column the slow way. */
static void slow_extremes(const struct columns *c, size_t x, int64_t *least, int64_t *most)
{
    int64_t value = 0;
    bool any = false;
    *least = INT64_MAX;
    *most = INT64_MIN;
    for (int i = 0; i < EVENTS; i++) {
        size_t at = columns_index(c, curve[i].t);
        if (at > x)
            break;
        if (at == x && !any) {
            *least = *most = value;
            any = true;
        }
        value = curve[i].allocated_last;
        if (at == x) {
            *least = value < *least ? value : *least;
            *most = value > *most ? value : *most;
        }
    }
    if (!any)
        *least = *most = value;
}

TEST(columns_hold_what_the_curve_takes_in_them_in_any_order_of_points)
{
    const struct trace_point before = {0};
    struct columns c;
    make_curve();
    columns_init(&c, 0, curve[EVENTS - 1].t, 97);
    for (int i = EVENTS; i-- > 0;) {
        columns_add(&c, &curve[i]);
        columns_add(&c, &curve[i]); /* twice is as good as once */
    }
    columns_finish(&c, &before);
    for (size_t x = 0; x < c.n; x++) {
        int64_t least, most;
        slow_extremes(&c, x, &least, &most);
        assert_true(c.at[x].allocated_min == least && c.at[x].allocated_max == most);
    }
    columns_free(&c);
}

TEST(empty_columns_carry_the_value_on)
{
    const struct trace_point before = point(0, 7, 3);
    struct trace_point p = point(50, 9, 1);
    struct columns c;
    columns_init(&c, 0, 100, 10);
    columns_add(&c, &p);
    columns_finish(&c, &before);
    assert_true(c.at[0].allocated_max == 7 && c.at[4].allocated_min == 7);
    assert_true(c.at[5].allocated_min == 7 && c.at[5].allocated_max == 9);
    assert_true(c.at[9].allocated_min == 9 && c.at[9].reserved_max == 18);
    columns_free(&c);
}

TEST(a_stretch_over_many_columns_puts_its_peak_where_it_was)
{
    const struct trace_point before = {0};
    struct trace_point zone = {10, 95, 42, 1, 500, 20, 1, 600, 30, 2, false, 0, 0};
    struct columns c;
    columns_init(&c, 0, 100, 10);
    columns_add(&c, &zone);
    columns_finish(&c, &before);
    assert_int_equal(columns_peak(&c), 4);
    assert_true(c.at[9].allocated_last == 20 && c.at[9].reserved_last == 30);
    columns_free(&c);
}

TEST(points_outside_the_window_are_not_drawn)
{
    const struct trace_point before = {0};
    struct trace_point early = point(5, 1000, 0), late = point(300, 1000, 0);
    struct columns c;
    columns_init(&c, 100, 200, 10);
    columns_add(&c, &early);
    columns_add(&c, &late);
    columns_finish(&c, &before);
    assert_true(c.at[columns_peak(&c)].allocated_max == 0);
    columns_free(&c);
}

/* ---- bands ---- */

TEST(the_innermost_range_gives_the_phase)
{
    const struct trace_range ranges[] = {
        {10, 90, 1, 1, 1}, {30, 50, 1, 2, 1}, {50, 60, 1, 3, 1}, {95, UNKNOWN, 1, 1, 1}};
    const struct band want[] = {{10, 30, 1}, {30, 50, 2}, {50, 60, 3}, {60, 90, 1}, {95, 100, 1}};
    size_t n;
    struct band *bands = bands_flatten(ranges, 4, 0, 100, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        assert_true(bands[i].from == want[i].from && bands[i].to == want[i].to &&
                    bands[i].phase == want[i].phase);
    free(bands);
}

TEST(ranges_of_threads_that_overlap_leave_no_gap)
{
    const struct trace_range ranges[] = {{10, 50, 1, 1, 1}, {20, 80, 2, 2, 1}};
    size_t n;
    struct band *bands = bands_flatten(ranges, 2, 15, 70, &n);
    assert_int_equal(n, 2);
    assert_true(bands[0].from == 15 && bands[0].to == 20 && bands[0].phase == 1);
    assert_true(bands[1].from == 20 && bands[1].to == 70 && bands[1].phase == 2);
    free(bands);
}

TEST(a_column_with_several_phases_shows_the_one_of_its_peak)
{
    const struct band exact[] = {{0, 50, 1}, {50, 53, 2}, {53, 56, 3}, {56, 100, 1}};
    const struct trace_point before = {0};
    struct trace_point peak = point(54, 100, 3), low = point(51, 10, 2);
    struct columns c;
    size_t n, mixed;
    columns_init(&c, 0, 100, 10);
    columns_add(&c, &low);
    columns_add(&c, &peak);
    columns_finish(&c, &before);
    struct band *bands = bands_fit(exact, 4, &c, &n, &mixed);
    assert_int_equal(n, 3);
    assert_int_equal(mixed, 1);
    assert_true(bands[1].from == 50 && bands[1].to == 60 && bands[1].phase == 3);
    free(bands);
    columns_free(&c);
}

TEST(without_ranges_the_events_say_the_phase)
{
    const struct trace_point before = {0};
    struct trace_point p = point(50, 10, 4), q = point(80, 10, 0);
    struct columns c;
    size_t n, mixed;
    columns_init(&c, 0, 100, 10);
    columns_add(&c, &p);
    columns_add(&c, &q);
    columns_finish(&c, &before);
    struct band *bands = bands_fit(NULL, 0, &c, &n, &mixed);
    assert_int_equal(n, 1);
    assert_true(bands[0].from == 50 && bands[0].to == 60 && bands[0].phase == 4);
    free(bands);
    columns_free(&c);
}

TEST(a_phase_ends_with_its_range_and_not_with_the_next_event)
{
    /* forward and optimizer, then 50 ns of nothing, as at the end of a run */
    const struct trace_range ranges[] = {{10, 30, 1, 1, 3}, {30, 50, 1, 4, 3}};
    const struct trace_point before = {0};
    const struct trace_point points[] = {point(15, 10, 1), point(35, 20, 4), point(49, 30, 4)};
    struct columns c;
    size_t n, flat_count, mixed;
    columns_init(&c, 0, 100, 10);
    for (size_t i = 0; i < 3; i++)
        columns_add(&c, &points[i]);
    columns_finish(&c, &before);
    struct band *flat = bands_flatten(ranges, 2, 0, 100, &flat_count);
    struct band *bands = bands_fit(flat, flat_count, &c, &n, &mixed);
    assert_int_equal(n, 2);
    assert_true(bands[0].from == 10 && bands[0].to == 30 && bands[0].phase == 1);
    assert_true(bands[1].from == 30 && bands[1].to == 50 && bands[1].phase == 4);
    free(flat);
    free(bands);
    columns_free(&c);
}

TEST(events_between_two_ranges_of_a_phase_do_not_join_them)
{
    const struct trace_range ranges[] = {{0, 20, 1, 1, 1}, {80, 100, 1, 1, 1}};
    const struct trace_point before = {0};
    const struct trace_point points[] = {point(5, 10, 1), point(40, 10, 0), point(85, 10, 1)};
    struct columns c;
    size_t n, flat_count, mixed;
    columns_init(&c, 0, 100, 10);
    for (size_t i = 0; i < 3; i++)
        columns_add(&c, &points[i]);
    columns_finish(&c, &before);
    struct band *flat = bands_flatten(ranges, 2, 0, 100, &flat_count);
    struct band *bands = bands_fit(flat, flat_count, &c, &n, &mixed);
    assert_int_equal(n, 2);
    assert_true(bands[0].to == 20 && bands[1].from == 80);
    free(flat);
    free(bands);
    columns_free(&c);
}

TEST(a_thread_s_phase_lasts_from_its_first_event_to_its_last)
{
    const struct trace_point before = {0};
    const struct trace_point points[] = {point(5, 90, 0), point(21, 10, 3), point(55, 20, 3),
                                         point(91, 5, 0)};
    struct columns c;
    size_t n, mixed;
    columns_init(&c, 0, 100, 10);
    for (size_t i = 4; i-- > 0;)
        columns_add(&c, &points[i]);
    columns_finish(&c, &before);
    struct band *bands = bands_fit(NULL, 0, &c, &n, &mixed);
    assert_int_equal(n, 1);
    assert_true(bands[0].from == 20 && bands[0].to == 60 && bands[0].phase == 3);
    free(bands);
    columns_free(&c);
}

TEST(a_marker_comes_before_an_automatic_range_inside_it)
{
    /* marker 5 [10,90) with an automatic 1 [20,40) in it; thread 2 opens 7 [60,70) meanwhile */
    const struct trace_range ranges[] = {{10, 90, 1, 5, 1}, {20, 40, 1, 1, 3}, {60, 70, 2, 7, 3}};
    const struct band want[] = {{10, 60, 5}, {60, 70, 7}, {70, 90, 5}};
    size_t n;
    struct band *bands = bands_flatten(ranges, 3, 0, 100, &n);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        assert_true(bands[i].from == want[i].from && bands[i].to == want[i].to &&
                    bands[i].phase == want[i].phase);
    free(bands);
}
