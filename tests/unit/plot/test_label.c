/* test_label.c - the peak's label covers nothing that is drawn, and a title says what was run. */
#include <math.h>

#include "unit/test.h"
#include "plot/script.h"
#include "read/curve.h"
#include "read/tables.h"

enum { N = 1000 };
static const struct label_room room = {1000, 400, 120, 200, 26, NULL, 0};

static struct trace_point point(int64_t t, int64_t allocated, int64_t reserved)
{
    return (struct trace_point){t,        t,        t, allocated, allocated, allocated, reserved,
                                reserved, reserved, 1, false,     0,         0};
}

static struct panel make_panel(const struct trace_point *points, size_t n)
{
    const struct trace_point before = {0};
    struct panel p = {.used_peak = UNKNOWN};
    columns_init(&p.columns, 0, N, N);
    for (size_t i = 0; i < n; i++)
        columns_add(&p.columns, &points[i]);
    columns_finish(&p.columns, &before);
    p.peak = p.columns.at[columns_peak(&p.columns)].allocated_max;
    p.peak_t = p.columns.at[columns_peak(&p.columns)].t_max;
    return p;
}

static bool box_covers(const struct label_spot *s, double x, double y)
{
    return x > s->x - room.text_width / 2 && x < s->x + room.text_width / 2 &&
           y > s->y - room.text_height / 2 && y < s->y + room.text_height / 2;
}

static double pixels(int64_t bytes)
{
    return (double)bytes / room.full * room.height;
}

static void expect_free(const struct panel *p, const struct label_spot *s)
{
    for (size_t x = 0; x < N; x++) {
        const struct column *at = &p->columns.at[x];
        for (int64_t b = at->allocated_min; b <= at->allocated_max; b++)
            assert_false(box_covers(s, (double)x, pixels(b)));
        for (int64_t b = at->reserved_min; b <= at->reserved_max; b++)
            assert_false(box_covers(s, (double)x, pixels(b)));
    }
    assert_true(s->x - room.text_width / 2 >= 0 && s->x + room.text_width / 2 <= room.width);
    assert_true(s->y + room.text_height / 2 <= room.height * 0.955);
    assert_false(box_covers(s, (double)p->peak_t, pixels(p->peak)));
}

/* a curve whose peak touches reserved, at every place of the picture */
TEST(it_covers_no_curve_wherever_the_peak_is)
{
    for (int64_t t = 0; t < N; t += 37) {
        const struct trace_point points[] = {point(0, 20, 60), point(t, 98, 100), point(t + 3, 40, 100)};
        struct panel p = make_panel(points, 3);
        struct label_spot s = label_place(&p, &room, p.peak_t, p.peak);
        expect_free(&p, &s);
        columns_free(&p.columns);
    }
}

TEST(it_covers_no_sample_of_the_driver)
{
    const struct trace_point points[] = {point(0, 20, 60), point(500, 80, 84), point(503, 30, 84)};
    struct trace_sample samples[] = {
        {.t = 0, .driver_used = 70}, {.t = 450, .driver_used = 92}, {.t = 990, .driver_used = 95}};
    struct panel p = make_panel(points, 3);
    p.samples = samples;
    p.sample_count = 3;
    p.used_shown = true;
    struct label_spot s = label_place(&p, &room, p.peak_t, p.peak);
    expect_free(&p, &s);
    for (size_t i = 0; i < 3; i++)
        assert_false(box_covers(&s, (double)samples[i].t, pixels(samples[i].driver_used)));
    columns_free(&p.columns);
}

TEST(it_covers_nothing_that_is_taken)
{
    const struct trace_point points[] = {point(0, 20, 60), point(500, 80, 84), point(503, 30, 84)};
    struct panel p = make_panel(points, 3);
    struct label_spot first = label_place(&p, &room, p.peak_t, p.peak);
    struct label_box box = {first.x - 100, first.y - 13, first.x + 100, first.y + 13};
    struct label_room taken = room;
    taken.taken = &box;
    taken.taken_count = 1;
    struct label_spot s = label_place(&p, &taken, p.peak_t, p.peak);
    expect_free(&p, &s);
    assert_true(fabs(s.x - first.x) >= 200 || fabs(s.y - first.y) >= 26);
    columns_free(&p.columns);
}

TEST(far_from_the_peak_it_is_tied_to_it_by_a_line)
{
    /* spikes as high as the peak all over: the next free place is above reserved */
    struct trace_point points[200];
    for (int i = 0; i < 100; i++) {
        points[2 * i] = point(i * 10, 88, 96);
        points[2 * i + 1] = point(i * 10 + 5, 10, 96);
    }
    struct panel p = make_panel(points, 200);
    struct label_spot s = label_place(&p, &room, p.peak_t, p.peak);
    expect_free(&p, &s);
    assert_true(s.leader);
    assert_true(s.to[1] >= pixels(96) - 1 && s.to[1] <= s.y);
    columns_free(&p.columns);
}

TEST(a_room_without_a_free_place_still_gets_a_label)
{
    const struct label_room tiny = {30, 20, 120, 200, 26, NULL, 0};
    const struct trace_point points[] = {point(0, 100, 100)};
    struct panel p = make_panel(points, 1);
    struct label_spot s = label_place(&p, &tiny, p.peak_t, p.peak);
    assert_true(s.x == s.x && s.y == s.y);
    columns_free(&p.columns);
}

TEST(a_title_is_the_script_and_its_arguments)
{
    static const char *const cases[][2] = {
        {"/usr/bin/python3.12 /home/me/train.py --layers 8", "train.py --layers 8"},
        {"python3 train.py --facts /tmp/x/facts.json --seed 3", "train.py --seed 3"},
        {"python train.py --out=/tmp/x --data=/mnt/set/wiki.txt", "train.py --data=wiki.txt"},
        {"python3 /tmp/try.py", "try.py"},
        {"python3 -m my.train --fast", "python3 -m my.train --fast"},
        {"./train_lm text.txt", "train_lm text.txt"},
        {"python3", "python3"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *title = title_of_command(cases[i][0]);
        assert_string_equal(title, cases[i][1]);
        free(title);
    }
}
