/*
 * test_waste.c - bounds on a peak without what lay unused, against a replay moment by moment: of planted
 * cases, and of random ones, where every bound must be the same to the byte.
 */

#include "unit/test.h"
#include "analysis/waste.h"
#include "read/curve.h"
#include "read/living.h"

enum { EVENTS = 400, ROWS = 400 };

static struct trace_total totals[EVENTS];
static size_t events;
static struct trace_waste waste[ROWS], given[ROWS];
static size_t wastes;

static void clear(void)
{
    events = wastes = 0;
}

/* The next event, at moment T. */
static int64_t event(int64_t t, int64_t change)
{
    int64_t before = events ? totals[events - 1].allocated : 0, seq = (int64_t)(10 + 2 * events);
    totals[events++] = (struct trace_total){seq, t, before + change};
    return seq;
}

static struct trace_waste *lies_unused(enum trace_waste_kind kind, int64_t alloc, int64_t end, int64_t size,
                                       int64_t from, int64_t to)
{
    waste[wastes] = (struct trace_waste){.kind = kind,
                                         .alloc_seq = alloc,
                                         .free_seq = end,
                                         .size = size,
                                         .from = from,
                                         .to = to,
                                         .all_from = from,
                                         .all_to = to,
                                         .line = "a.py:1 f",
                                         .role = "activation"};
    return &waste[wastes++];
}

static struct waste_report report(void)
{
    memcpy(given, waste, sizeof waste);
    return waste_of(totals, events, waste, wastes);
}

TEST(a_block_never_used_is_gone_from_its_allocation_to_its_free)
{
    clear();
    int64_t a = event(10, 100), b = event(20, 50);
    event(30, -50);
    event(40, 20);
    lies_unused(WASTE_NEVER, b, totals[2].seq, 50, 20, 30);
    struct waste_report w = report();
    assert_int_equal(w.peak, 150);
    assert_int_equal(w.all.mended, 120); /* the last event is the peak then */
    assert_int_equal(w.kind[WASTE_NEVER].mended, 120);
    assert_int_equal(w.kind[WASTE_LATE].mended, 150);
    assert_int_equal(w.all.at_peak, 50);
    assert_int_equal(w.count, 1);
    assert_int_equal(a, totals[0].seq);
    waste_free(&w);
}

TEST(a_use_at_the_moment_of_an_event_needs_the_block_there)
{
    clear();
    int64_t a = event(10, 100);
    event(20, 30);
    event(30, -20);
    event(40, -110);
    lies_unused(WASTE_EARLY, a, totals[3].seq, 100, 10, 20); /* first used at 20: needed from there on */
    struct waste_report w = report();
    assert_int_equal(w.all.mended, 130);
    waste_free(&w);
    clear();
    a = event(10, 100);
    event(20, 30);
    event(30, 5);
    event(40, -135);
    lies_unused(WASTE_LATE, a, totals[3].seq, 100, 20, 40); /* last used at 20: still needed there */
    w = report();
    assert_int_equal(w.all.mended, 130);
    waste_free(&w);
}

TEST(kinds_alone_and_together_and_each_line_by_its_layer)
{
    clear();
    int64_t a = event(1, 10), b = event(2, 20), c = event(3, 40);
    event(4, 30);
    event(5, -100);
    lies_unused(WASTE_NEVER, a, UNKNOWN, 10, 1, 9)->layer = "M.layers.0.x";
    lies_unused(WASTE_NEVER, b, UNKNOWN, 20, 2, 9)->layer = "M.layers.1.x";
    lies_unused(WASTE_IDLE, c, UNKNOWN, 40, 3, 9)->role = "gradient";
    struct waste_report w = report();
    assert_int_equal(w.peak, 100);
    assert_int_equal(w.kind[WASTE_NEVER].mended, 70);
    assert_int_equal(w.kind[WASTE_IDLE].mended, 70); /* before its first use the block is needed at 3 */
    assert_int_equal(w.all.mended, 40);
    assert_int_equal(w.count, 2);
    for (size_t i = 0; i < w.count; i++) {
        bool never = w.groups[i].kind == WASTE_NEVER;
        assert_int_equal(w.groups[i].bound.count, never ? 2 : 1);
        assert_int_equal(w.groups[i].bound.most, never ? 30 : 40);
        assert_string_equal(w.groups[i].role, never ? "activation" : "gradient");
        if (never)
            assert_string_equal(w.groups[i].layer, "M.layers.*");
    }
    waste_free(&w);
}

TEST(a_librarys_workspace_stands_apart_from_the_lines_own_blocks)
{
    clear();
    int64_t a = event(1, 60), b = event(2, 30), c = event(3, 10);
    lies_unused(WASTE_NEVER, a, UNKNOWN, 60, 1, 9)->role = "workspace";
    lies_unused(WASTE_NEVER, b, UNKNOWN, 30, 2, 9)->role = "not told";
    lies_unused(WASTE_NEVER, c, UNKNOWN, 10, 3, 9);
    struct waste_report w = report(), sure = report();
    assert_int_equal(w.count, 2);
    assert_string_equal(w.groups[0].role, "workspace");
    assert_true(w.groups[0].bound.most == 60 && w.groups[1].bound.most == 40 && !w.groups[1].role);
    assert_ptr_equal(waste_group_like(&sure, &w.groups[1]), &sure.groups[1]);
    waste_join(&w, &sure);
    assert_true(w.count == 2 && w.groups[0].least == 40 && w.groups[1].least == 60);
    waste_free(&w);
    waste_free(&sure);
}

TEST(bytes_that_are_needed_again_between_two_events_count)
{
    clear();
    int64_t a = event(10, 100);
    event(20, 30); /* the peak, while A idles */
    event(30, -30);
    lies_unused(WASTE_IDLE, a, UNKNOWN, 100, 12, 25); /* and is used before what made the peak is gone */
    struct waste_report w = report();
    assert_int_equal(w.all.mended, 130);
    assert_int_equal(w.all.at_peak, 100);
    waste_free(&w);
    clear();
    a = event(10, 100);
    event(20, 30);
    event(30, -30);
    lies_unused(WASTE_IDLE, a, UNKNOWN, 100, 12, 35);
    w = report();
    assert_int_equal(w.all.mended, 100);
    waste_free(&w);
}

/* A block without a sure use is in three kinds, and its bytes are taken away once. */
TEST(a_sum_over_all_kinds_has_of_a_row_what_it_says)
{
    clear();
    int64_t a = event(10, 100), b = event(20, 30);
    event(24, 1);
    int64_t end = event(30, -131);
    lies_unused(WASTE_NEVER, a, end, 100, 10, 30);
    lies_unused(WASTE_LATE, a, end, 100, 10, 30)->all_to = INT64_MIN;
    lies_unused(WASTE_EARLY, a, end, 100, 10, 30)->all_to = INT64_MIN;
    struct trace_waste *idle = lies_unused(WASTE_IDLE, b, end, 30, 20, 29);
    idle->all_from = 22;
    idle->all_to = 25;
    struct waste_report w = report();
    assert_int_equal(w.peak, 131);
    assert_int_equal(w.kind[WASTE_NEVER].mended, 31);
    assert_int_equal(w.kind[WASTE_LATE].mended, 100);  /* at its birth it is there */
    assert_int_equal(w.kind[WASTE_EARLY].mended, 131); /* needed by a use at the moment of the last event */
    assert_int_equal(w.all.mended, 31);                /* at 25 */
    assert_int_equal(w.all.most, 130);                 /* at 24 */
    struct waste_group other = w.groups[0];
    assert_ptr_equal(waste_group_like(&w, &w.groups[1]), &w.groups[1]);
    other.line = "b.py:1 g";
    assert_null(waste_group_like(&w, &other));
    waste_free(&w);
}

TEST(lines_without_a_waste_that_was_seen_stand_with_what_sure_uses_leave)
{
    clear();
    int64_t a = event(1, 10), b = event(2, 20), c = event(3, 40);
    int64_t end = event(4, -70);
    lies_unused(WASTE_NEVER, a, end, 10, 1, 4);
    struct waste_report seen = report();
    wastes = 0;
    lies_unused(WASTE_NEVER, a, end, 10, 1, 4)->line = "b.py:1 g";
    lies_unused(WASTE_NEVER, b, end, 20, 2, 4);
    lies_unused(WASTE_NEVER, c, end, 40, 3, 4)->line = "c.py:1 h";
    struct waste_report sure = report();
    waste_join(&seen, &sure);
    static const struct {
        const char *line;
        int64_t mended, least, count;
    } want[] = {{"a.py:1 f", 60, 50, 1}, {"c.py:1 h", 70, 30, 0}, {"b.py:1 g", 70, 60, 0}};
    assert_int_equal(seen.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(seen.groups[i].line, want[i].line);
        assert_int_equal(seen.groups[i].bound.mended, want[i].mended);
        assert_int_equal(seen.groups[i].bound.count, want[i].count);
        assert_int_equal(seen.groups[i].least, want[i].least);
    }
    waste_free(&seen);
    waste_free(&sure);
}

TEST(without_waste_the_peak_is_what_it_is)
{
    clear();
    event(1, 10);
    event(2, -10);
    struct waste_report w = report();
    assert_int_equal(w.peak, 10);
    assert_int_equal(w.all.mended, 10);
    assert_int_equal(w.count, 0);
    waste_free(&w);
}

/* ---- against a replay ---- */

static uint64_t seed = 88172645463325252u;

static uint64_t rnd(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

/* Whether W's bytes lie unused at moment T, when event SEQ was the last: as waste.h says it. */
static bool is_unused(const struct trace_waste *w, int64_t seq, int64_t t)
{
    if (seq < w->alloc_seq || (w->free_seq != UNKNOWN && seq >= w->free_seq))
        return false;
    return w->kind == WASTE_NEVER   ? true
           : w->kind == WASTE_EARLY ? t < w->to
           : w->kind == WASTE_LATE  ? t > w->from
                                    : t > w->from && t < w->to;
}

/* What is left at a moment without the rows of KIND (WASTE_KINDS: of all), of LINE where that is not NULL. */
static int64_t left(enum trace_waste_kind kind, const char *line, size_t last, int64_t t)
{
    int64_t now = totals[last].allocated;
    for (size_t k = 0; k < wastes; k++)
        if ((kind == WASTE_KINDS || given[k].kind == kind) && (!line || !strcmp(given[k].line, line)) &&
            is_unused(&given[k], totals[last].seq, t))
            now -= given[k].size;
    return now;
}

/* The greatest: at each event, and at each use that ends a row, which comes before the events of its moment.
 */
static int64_t replay(enum trace_waste_kind kind, const char *line)
{
    int64_t most = INT64_MIN;
    for (size_t i = 0; i < events; i++) {
        int64_t now = left(kind, line, i, totals[i].t);
        most = now > most ? now : most;
    }
    for (size_t k = 0; k < wastes; k++) {
        size_t last = events;
        for (size_t i = 0; i < events && totals[i].t < given[k].to; i++)
            last = i;
        if (last == events || (given[k].kind != WASTE_EARLY && given[k].kind != WASTE_IDLE))
            continue;
        int64_t now = left(kind, line, last, given[k].to);
        most = now > most ? now : most;
    }
    return most;
}

struct block {
    int64_t seq, size, t;
};

static void make_random(void)
{
    static const char *const lines[] = {"a.py:1 f", "b.py:2 g", "c.py:3 h"};
    struct block living[64];
    size_t n = 0;
    int64_t t = 0;
    clear();
    while (events < 200) {
        t += (int64_t)rnd(4); /* several at one moment, too */
        if (n < 40 && (n == 0 || rnd(2))) {
            int64_t size = 1 + (int64_t)rnd(1000);
            living[n++] = (struct block){event(t, size), size, t};
            continue;
        }
        struct block b = living[rnd(n)];
        for (size_t i = 0; i < n; i++)
            if (living[i].seq == b.seq)
                living[i] = living[--n];
        int64_t end = event(t, -b.size);
        enum trace_waste_kind kind = (enum trace_waste_kind)rnd(WASTE_KINDS);
        int64_t from = b.t + (int64_t)rnd((uint64_t)(t - b.t + 1)),
                to = from + (int64_t)rnd((uint64_t)(t - from + 1));
        struct trace_waste *w =
            lies_unused(kind, b.seq, end, b.size, kind == WASTE_NEVER || kind == WASTE_EARLY ? b.t : from,
                        kind == WASTE_NEVER || kind == WASTE_LATE ? t : to);
        w->line = lines[rnd(3)];
    }
}

TEST(random_runs_have_the_bounds_of_a_replay)
{
    for (int run = 0; run < 200; run++) {
        make_random();
        struct waste_report w = report();
        assert_int_equal(w.all.mended, replay(WASTE_KINDS, NULL));
        for (int kind = 0; kind < WASTE_KINDS; kind++)
            assert_int_equal(w.kind[kind].mended, replay((enum trace_waste_kind)kind, NULL));
        for (size_t i = 0; i < w.count; i++)
            assert_int_equal(w.groups[i].bound.mended, replay(w.groups[i].kind, w.groups[i].line));
        waste_free(&w);
    }
}
