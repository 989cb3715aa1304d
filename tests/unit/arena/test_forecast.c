/*
 * test_forecast.c - which block goes to the host.  The choice is held against Belady's, who knows the future,
 * and LRU, which takes the block that was not used for the longest time.  Blocks have one size, so many fit,
 * and they are used in loops as programs have them.  Counted are the blocks that come back.
 */
#include "arena/away/watched.h"
#include "unit/test.h"

#include <stdlib.h>

#define BLOCKS 256
#define USES   60000

static uint32_t use[USES]; /* the program: which block each work uses */
static uint32_t uses, blocks;

static void used(uint32_t block)
{
    if (uses < USES)
        use[uses++] = block;
    blocks = block >= blocks ? block + 1 : blocks;
}

enum who { FORECAST, LRU, BELADY };
static struct vs_watched watched[BLOCKS];
static struct vs_ranked room[VS_RANKINGS * BLOCKS];
struct vs_watched *vs_watched = watched, *vs_watched_end;

/* Of the first COUNT blocks. */
static struct vs_watched *first_to_go(uint32_t count, uint64_t need, uint64_t oldest, uint64_t now)
{
    vs_watched_end = watched + count;
    vs_rankings_place(room, BLOCKS);
    vs_forecast_begin(NULL, oldest, now);
    return vs_forecast_choose(need);
}

static uint64_t next_use(uint32_t block, uint32_t from)
{
    while (from < uses && use[from] != block)
        from++;
    return from;
}

static uint32_t choose(enum who who, uint32_t now)
{
    struct vs_watched *best = NULL;
    if (who == FORECAST)
        best = first_to_go(blocks, 1, now + 1, now + 1);
    for (struct vs_watched *w = watched; who != FORECAST && w < watched + blocks; w++) {
        if (w->parked || w->work == now + 1)
            continue;
        bool further = best && (who == LRU ? w->work < best->work
                                           : next_use((uint32_t)(w - watched), now + 1) >
                                                 next_use((uint32_t)(best - watched), now + 1));
        best = !best || further ? w : best;
    }
    assert_non_null(best);
    return (uint32_t)(best - watched);
}

/* How many come back in the second half, once what repeats is known; FIT fit. */
static uint32_t come_back(enum who who, uint32_t fit)
{
    uint32_t here = 0, count = 0;
    for (uint32_t i = 0; i < blocks; i++)
        watched[i] = (struct vs_watched){.address = 1 + i, .size = 1, .parked = true};
    for (uint32_t i = 0; i < uses; i++) {
        struct vs_watched *w = &watched[use[i]];
        uint64_t now = i + 1;
        if (w->forecast.last == 0)
            w->forecast = vs_forecast_born(now);
        w->work = now;
        vs_forecast_used(&w->forecast, now);
        if (!w->parked)
            continue;
        if (here == fit)
            watched[choose(who, i)].parked = true;
        here += here < fit;
        w->parked = false;
        count += i >= uses / 2;
    }
    return count;
}

static void say(const char *what, const uint32_t count[3])
{
    printf("%s: %u come back, %u by LRU, %u at the least\n", what, count[FORECAST], count[LRU],
           count[BELADY]);
}

static void count_all(const char *what, uint32_t fit, uint32_t count[3])
{
    for (enum who who = FORECAST; who <= BELADY; who++)
        count[who] = come_back(who, fit);
    say(what, count);
}

static void begin(void)
{
    uses = blocks = 0;
}

/* Weights in forward, backward and optimizer, two states of each there, activations in forward and backward.
 */
static void train(uint32_t layers)
{
    for (uint32_t i = 0; i < layers; i++)
        for (uint32_t k = 0; k < 6; k++)
            used(k % 3 ? i : 3 * layers + i);
    for (uint32_t i = layers; i-- > 0;)
        for (uint32_t k = 0; k < 12; k++)
            used(k % 3 ? i : 3 * layers + i);
    for (uint32_t i = 0; i < layers; i++)
        for (uint32_t k = 0; k < 3; k++)
            used(k * layers + i);
}

/* Two threads begin work, and the one that began first looks at the block last. */
TEST(work_that_began_before_the_last_is_no_gap)
{
    struct vs_forecast f = vs_forecast_born(100);
    vs_forecast_used(&f, 200);
    vs_forecast_used(&f, 150);
    vs_forecast_used(&f, 300);
    assert_true(f.last == 300 && f.gaps == 2 && vs_forecast_longest(&f) == 100);
}

TEST(a_training_s_states_go_and_what_is_needed_soon_stays)
{
    uint32_t count[3];
    begin();
    while (uses < 20000)
        train(32);
    for (uint32_t fit = 96; fit <= 116; fit += 10) { /* of 128 */
        count_all("training", fit, count);
        assert_true(count[FORECAST] <= count[BELADY] * 13 / 10 && count[FORECAST] <= count[LRU]);
    }
}

TEST(a_loop_over_layers_does_not_send_what_comes_next)
{
    uint32_t count[3];
    begin();
    while (uses < 20000)
        for (uint32_t i = 0; i < 60; i++)
            for (uint32_t k = 0; k < 3; k++)
                used(i);
    for (uint32_t fit = 42; fit <= 54; fit += 6) {
        count_all("layers", fit, count);
        assert_true(count[FORECAST] <= count[BELADY] * 12 / 10 && count[FORECAST] < count[LRU] * 2 / 3);
    }
}

TEST(where_nothing_repeats_it_is_as_good_as_lru)
{
    uint32_t count[3];
    uint64_t seed = 1;
    begin();
    while (uses < 20000) { /* some more often than others */
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint32_t a = (uint32_t)(seed >> 33) % 64, b = (uint32_t)(seed >> 45) % 64;
        used(a < b ? a : b);
    }
    count_all("random", 48, count);
    assert_true(count[FORECAST] <= count[LRU] * 115 / 100);
}

TEST(a_loop_that_changes_is_learnt_anew)
{
    uint32_t count[3];
    begin();
    while (uses < 20000) {
        for (uint32_t turn = 0; turn < 10; turn++)
            for (uint32_t i = 0; i < 60; i++)
                used(i);
        for (uint32_t turn = 0; turn < 10; turn++)
            for (uint32_t i = 60; i-- > 0; used(i))
                used(i);
    }
    count_all("two loops", 48, count);
    assert_true(count[FORECAST] < count[LRU]);
}

TEST(what_fits_best_goes_among_those_that_are_needed_at_about_that_time)
{
    static const uint64_t size[] = {9, 4, 6, 30, 5};
    for (uint32_t i = 0; i < 5; i++)
        watched[i] = (struct vs_watched){
            .address = 1 + i, .size = size[i], .work = 10 + i, .forecast = vs_forecast_born(10 + i)};
    assert_ptr_equal(first_to_go(5, 5, UINT64_MAX, 1000), &watched[4]);
    assert_ptr_equal(first_to_go(5, 10, 13, 1000), &watched[0]); /* the others are in use */
    assert_ptr_equal(first_to_go(5, 31, UINT64_MAX, 1000), &watched[3]);
    assert_ptr_equal(vs_forecast_choose(20), &watched[0]); /* the other is chosen */
    assert_null(first_to_go(5, 20, 10, 1000));
}
