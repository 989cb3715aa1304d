/*
 * test_ranking.c - which blocks go and come back, one after the other, held against the plain rules: for each
 * that moves, these look at all blocks.
 */
#include "arena/away/habit.h"
#include "unit/test.h"

#include <stdlib.h>

#define BLOCKS 64u
#define STATES 20000u
#define NOW    5000u

static struct vs_watched watched[BLOCKS];
static struct vs_ranked room[VS_RANKINGS * BLOCKS];
struct vs_watched *vs_watched = watched, *vs_watched_end;
struct vs_served vs_served[VS_SERVED_DEVICES];
static bool tried[BLOCKS];

static uint32_t below(uint32_t limit)
{
    return (uint32_t)rand() % limit;
}

static bool one_in(uint32_t n)
{
    return below(n) == 0;
}

/* Uses in a turn of gaps, the last one AGO works before, or up to SPREAD more. */
static struct vs_forecast random_forecast(uint32_t ago, uint32_t spread)
{
    struct vs_forecast f = vs_forecast_born(0);
    uint32_t gap[2] = {500 + below(1500), 500 + below(1500)}, turn = 1 + below(2);
    for (uint32_t uses = below(VS_FORECAST_GAPS + 2); uses != 0; uses--)
        vs_forecast_used(&f, f.begun + gap[uses % turn] + below(1 + gap[0] / 12));
    vs_forecast_used(&f, f.last + below(3));
    uint64_t later = NOW - ago - below(spread) - f.last;
    f.begun += later;
    f.last += later;
    return f;
}

static void random_block(struct vs_watched *w, uint32_t ago, uint32_t spread, uint32_t sizes)
{
    *w = (struct vs_watched){.address = one_in(10) ? 0 : 1 + below(1000),
                             .size = 2 + below(sizes),
                             .s = &vs_served[one_in(8)],
                             .work = below(100),
                             .parked = one_in(3),
                             .freed = one_in(6),
                             .undone = one_in(6),
                             .went = one_in(3),
                             .chosen = one_in(2),
                             .ahead = (uint8_t)(one_in(3) ? 1 + below(2) : 0),
                             .habit = one_in(4) ? 1 : 2,
                             .forecast = random_forecast(ago, spread)};
}

static void random_state(void)
{
    static const uint32_t spreads[] = {1, 4, 100, 1000}, sizes[] = {1, 3, 1000};
    uint32_t ago = 1 + below(1000), spread = spreads[below(4)], size = sizes[below(3)];
    vs_watched_end = watched + 1 + below(BLOCKS);
    vs_rankings_place(room, BLOCKS);
    memset(tried, 0, sizeof tried);
    for (struct vs_watched *w = watched; w < vs_watched_end; w++)
        random_block(w, ago, spread, size);
}

/* ---- the plain rules ---- */

static bool may_go(const struct vs_watched *w, uint64_t oldest)
{
    return w->s == vs_served && !w->parked && w->work < oldest && !tried[w - watched];
}

static uint64_t next_of(const struct vs_watched *w, bool *known)
{
    return vs_forecast_next(&w->forecast, NOW, known);
}

static bool fits_better(uint64_t size, uint64_t than, uint64_t need)
{
    if ((size >= need) != (than >= need))
        return size >= need;
    return size >= need ? size < than : size > than;
}

static struct vs_watched *goes_next(uint64_t need, uint64_t oldest)
{
    struct vs_watched *best = NULL;
    uint64_t farthest = 0, next, of_best = 0;
    bool known;
    VS_WATCHED_EACH(w)
    if (may_go(w, oldest) && (next = next_of(w, &known)) > farthest)
        farthest = next;
    VS_WATCHED_EACH(w)
    {
        next = next_of(w, &known);
        if (!may_go(w, oldest) || next < farthest - farthest / 32)
            continue;
        if (best == NULL || fits_better(w->size, best->size, need) ||
            (w->size == best->size && next > of_best)) {
            best = w;
            of_best = next;
        }
    }
    return best;
}

static struct vs_watched *goes_ahead_next(uint64_t oldest)
{
    struct vs_watched *last = NULL;
    uint64_t farthest = 0;
    VS_WATCHED_EACH(w)
    {
        bool known, may = w->habit >= 2 && !w->went && may_go(w, oldest);
        uint64_t next = next_of(w, &known), longest = vs_forecast_longest(&w->forecast);
        if (may && NOW - w->forecast.last > longest / 16 && known && next > longest / 2 && next > farthest) {
            farthest = next;
            last = w;
        }
    }
    return last;
}

static struct vs_watched *comes_next(uint64_t bytes)
{
    struct vs_watched *first = NULL;
    uint64_t least = UINT64_MAX;
    VS_WATCHED_EACH(w)
    {
        bool known, may = w->parked && !w->freed && !w->undone && w->s == vs_served && w->size <= bytes;
        uint64_t next = next_of(w, &known);
        if (may && !tried[w - watched] && known && next < least &&
            (w->ahead == 0 || next <= vs_forecast_longest(&w->forecast) / 2)) {
            least = next;
            first = w;
        }
    }
    return first;
}

/* ---- the same ones ---- */

/* Of those that are chosen some cannot go, and what lacks may grow meanwhile. */
TEST(what_goes_next_is_what_the_plain_rule_says)
{
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < STATES; i++) {
        uint64_t oldest = one_in(3) ? below(100) : UINT64_MAX, need = below(2000);
        struct vs_watched *w;
        random_state();
        vs_forecast_begin(vs_served, oldest, NOW);
        do {
            w = goes_next(need, oldest);
            assert_ptr_equal(vs_forecast_choose(need), w);
            if (w != NULL)
                chosen += tried[w - watched] = true;
            if (w != NULL && (w->parked = !one_in(5)))
                need = one_in(8) ? below(2000) : need > w->size ? need - w->size : 1;
        } while (w != NULL);
    }
    assert_true(chosen > STATES * 10);
}

TEST(what_goes_ahead_of_need_is_what_the_plain_rule_says)
{
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < STATES; i++) {
        uint64_t oldest = one_in(3) ? below(100) : UINT64_MAX;
        struct vs_watched *w;
        random_state();
        struct vs_ranking *going = vs_habit_going(vs_served, NOW, oldest);
        do {
            w = goes_ahead_next(oldest);
            assert_ptr_equal(vs_ranking_take(going), w);
            if (w != NULL)
                chosen += tried[w - watched] = true;
            if (w != NULL && !one_in(5))
                w->parked = w->went = true;
        } while (w != NULL);
    }
    assert_true(chosen > STATES);
}

TEST(no_block_is_due_long_after_its_gap_began)
{
    uint32_t later = 0;
    for (uint32_t i = 0; i < STATES; i++) {
        random_state();
        struct vs_ranking *going = vs_habit_going(vs_served, NOW, UINT64_MAX);
        for (struct vs_watched *w; (w = vs_ranking_take(going)) != NULL;)
            w->went = true;
        uint64_t due = vs_habit_due(vs_served);
        later += due != UINT64_MAX;
        for (struct vs_watched *w = watched; w < vs_watched_end; w++)
            if (w->address != 0 && w->s == vs_served && w->habit == 2 && !w->parked && !w->went) {
                uint64_t longest = vs_forecast_longest(&w->forecast),
                         over = w->forecast.last + longest / 16 + 1;
                assert_true(due <= over + longest / 64 + 1 || over <= NOW);
            }
    }
    assert_true(later > STATES / 20);
}

TEST(a_use_makes_a_block_due_that_goes_ahead_of_need)
{
    random_state();
    *watched = (struct vs_watched){
        .address = 1, .size = 2, .s = vs_served, .habit = 2, .forecast = random_forecast(0, 1)};
    vs_habit_going(vs_served, UINT64_MAX, UINT64_MAX);
    uint64_t before = vs_habit_due(vs_served);
    vs_habit_used(watched, NOW);
    vs_forecast_used(&watched->forecast, NOW);
    assert_true(vs_habit_due(vs_served) < before && vs_habit_due(vs_served) > NOW);
}

/* What is larger than the room that is left is passed over, as the caller does. */
TEST(what_comes_back_early_is_what_the_plain_rule_says)
{
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < STATES; i++) {
        uint64_t left = below(4000);
        struct vs_watched *w, *other;
        random_state();
        struct vs_ranking *coming = vs_habit_coming(vs_served, NOW, left);
        do {
            w = comes_next(left);
            do
                other = vs_ranking_take(coming);
            while (other != NULL && other->size > left);
            assert_ptr_equal(other, w);
            if (w != NULL)
                chosen += tried[w - watched] = true;
            if (w != NULL && (w->parked = one_in(5)) == false)
                left -= w->size;
        } while (w != NULL);
    }
    assert_true(chosen > STATES);
}

TEST(equals_come_as_they_stand_in_the_table)
{
    vs_rankings_place(room, BLOCKS);
    struct vs_ranking *r = vs_ranking_begin();
    for (uint32_t i = BLOCKS; i-- > 0;)
        vs_ranking_add(r, (struct vs_ranked){i / 8, i / 4 % 2, &watched[i]});
    for (uint32_t i = 0; i < BLOCKS; i++)
        assert_ptr_equal(vs_ranking_take(r), &watched[i]);
    assert_null(vs_ranking_take(r));
}
