/*
 * test_spill.c - when a request waits for other threads' work, and how much comes back before it is needed,
 * over an arena that is two numbers.
 */
#include "arena/away/gate.h"
#include "arena/away/habit.h"
#include "arena/away/host.h"
#include "arena/away/park_copy.h"
#include "arena/away/spill.h"
#include "arena/away/store.h"
#include "core/options.h"
#include "unit/test.h"

#define MIB    (1ull << 20)
#define BLOCKS 8u
#define NOW    1000u

static struct vs_watched watched[BLOCKS];
static struct vs_ranked room[VS_RANKINGS * BLOCKS];
struct vs_watched *vs_watched = watched, *vs_watched_end;
struct vs_served vs_served[VS_SERVED_DEVICES];
uint32_t vs_park_parked, vs_park_freed;
static uint64_t lies, looking;
static bool gives;
static const struct vs_watched *stays; /* it cannot go */

/* ---- beside spill.c ---- */

uint64_t vs_arena_idle(const struct vs_arena *a)
{
    return lies;
}
uint64_t vs_arena_taken(struct vs_arena *a, uint64_t address)
{
    return 0;
}
void vs_arena_headroom(struct vs_arena *a, uint64_t bytes) {}
uint64_t vs_gate_looking(void)
{
    return looking;
}
bool vs_park_copies(struct vs_served *s, struct vs_arena *arena)
{
    return true;
}
bool vs_park_fence(struct vs_served *s)
{
    return true;
}
bool vs_park_out(struct vs_watched *w)
{
    if (w == stays)
        return false;
    lies += w->size;
    vs_park_parked++;
    return w->parked = true;
}
int vs_park_in(struct vs_watched *w)
{
    lies -= w->parked ? w->size : 0;
    vs_park_parked -= w->parked;
    w->parked = false;
    return 0;
}
void vs_park_forget(struct vs_watched *w)
{
    vs_park_freed -= w->freed;
    w->address = 0;
}
bool vs_park_is_idle(struct vs_served *s)
{
    return true;
}
void vs_store_limit(uint64_t bytes) {}
bool vs_store_gives(const struct vs_served *s)
{
    return gives;
}
uint64_t vs_store_ns(void)
{
    return 0;
}
void vs_host_amount(char text[32], double bytes)
{
    *text = 0;
}

/* ---- blocks ---- */

static void begin(uint64_t idle)
{
    vs_options.spill = "on";
    vs_watched_end = watched;
    vs_rankings_place(room, BLOCKS);
    vs_served[0].cuda.chunk = 2 * MIB;
    vs_park_parked = vs_park_freed = 0;
    lies = idle;
    looking = UINT64_MAX;
    stays = NULL;
}

/* One of so many MiB, used last by WORK. */
static struct vs_watched *block(uint64_t mib, uint64_t work)
{
    *vs_watched_end = (struct vs_watched){.address = 1 + (uint64_t)(vs_watched_end - watched),
                                          .size = mib * MIB,
                                          .s = vs_served,
                                          .work = work,
                                          .forecast = vs_forecast_born(work)};
    return vs_watched_end++;
}

/* It is on the host, and used every hundredth work, in so many again. */
static struct vs_watched *away(uint64_t mib, uint32_t next)
{
    struct vs_watched *w = block(mib, 0);
    w->forecast = vs_forecast_born(NOW + next - 400);
    for (uint32_t i = 0; i < 3; i++)
        vs_forecast_used(&w->forecast, w->forecast.begun + 100);
    w->parked = true;
    vs_park_parked++;
    return w;
}

static enum vs_spill_answer refused(uint64_t mib, unsigned *tries)
{
    return vs_spill_refused(vs_served, NULL, mib * MIB, NOW, tries);
}

TEST(a_request_waits_for_what_other_threads_look_at_and_for_nothing_else)
{
    unsigned tries = 0;
    begin(0);
    struct vs_watched *idle = block(8, 10), *used = block(8, 20);
    looking = 15;
    assert_int_equal(refused(8, &tries), VS_SPILL_AGAIN);
    assert_true(idle->parked && !used->parked);
    assert_int_equal(refused(16, &tries), VS_SPILL_LATER);
    assert_int_equal(refused(16, &tries), VS_SPILL_LATER);
    looking = 21;
    assert_int_equal(refused(16, &tries), VS_SPILL_AGAIN);
    assert_true(used->parked);
    assert_int_equal(refused(16, &tries), VS_SPILL_AGAIN); /* the headroom is its */
    assert_int_equal(refused(16, &tries), VS_SPILL_NO);
}

TEST(no_request_waits_for_what_cannot_go_or_for_another_device)
{
    unsigned tries = 0;
    begin(0);
    stays = block(8, 10);
    block(8, 20)->s = &vs_served[1];
    looking = 15;
    gives = true; /* the host's memory back, and locks no more of it */
    assert_int_equal(refused(8, &tries), VS_SPILL_LATER);
    gives = false;
    assert_int_equal(refused(8, &tries), VS_SPILL_AGAIN);
    assert_int_equal(refused(8, &tries), VS_SPILL_NO);
}

TEST(what_comes_back_early_is_needed_first_and_fits)
{
    begin(20 * MIB);
    struct vs_watched *last = away(6, 60), *large = away(30, 20), *first = away(10, 30), *more = away(12, 35),
                      *second = away(8, 40), *third = away(2, 50);
    for (uint32_t i = 0; i < 64 && !first->early; i++)
        vs_spill_look(vs_served, NULL, NOW);
    assert_true(first->early && second->early && third->early);
    assert_true(large->parked && more->parked && last->parked && lies == 0);
}

TEST(chunks_are_larger_on_larger_devices)
{
    begin(0);
    assert_int_equal(vs_spill_chunk(141ull << 30), 4 * MIB);
    assert_int_equal(vs_spill_chunk(4ull << 30), 4 * MIB);
    assert_true(vs_spill_chunk(3ull << 30) < 4 * MIB);
}

/* Requests until the block comes back, where there were so many BEFORE memory lay idle. */
static uint32_t comes_after(uint32_t before)
{
    uint32_t requests = 0;
    begin(0);
    struct vs_watched *w = away(6, 60);
    away(30, 70);
    for (lies = 0; before != 0; before--)
        vs_spill_look(vs_served, NULL, NOW);
    for (lies = 20 * MIB; !w->early && requests < 1000; requests++)
        vs_spill_look(vs_served, NULL, NOW);
    return requests;
}

TEST(when_a_block_comes_back_does_not_depend_on_how_many_requests_there_were)
{
    uint32_t first = comes_after(40);
    assert_true(first > 8 && first < 100);
    for (uint32_t before = 41; before < 120; before++)
        assert_int_equal(comes_after(before), first);
}

TEST(a_freed_block_ends_once_it_is_there_though_nothing_is_on_the_host)
{
    begin(20 * MIB);
    struct vs_watched *freed = block(8, 10);
    freed->freed = true;
    vs_park_freed = 1;
    for (uint32_t i = 0; i < 64 && vs_park_freed != 0; i++)
        vs_spill_look(vs_served, NULL, NOW);
    assert_int_equal(freed->address, 0);
}

/* By need, or as a habit; nor is it waited for. */
TEST(a_block_that_memory_may_lead_to_stays)
{
    unsigned tries = 0;
    begin(0);
    struct vs_watched *stored = block(8, 10), *other = block(8, 20);
    stored->stored = true;
    assert_int_equal(refused(16, &tries), VS_SPILL_AGAIN);
    assert_true(other->parked && !stored->parked);
    looking = 5;
    assert_int_equal(refused(16, &tries), VS_SPILL_AGAIN); /* the headroom is its */
    assert_int_equal(refused(16, &tries), VS_SPILL_NO);
    begin(0);
    for (uint32_t i = 0; i < 2; i++) {
        struct vs_watched *w = away(8, 90);
        w->parked = false;
        w->habit = 2;
        vs_habit_used(w, w->forecast.last);
        w->stored = i == 0;
    }
    for (uint32_t i = 0; i < 64; i++)
        vs_spill_look(vs_served, NULL, NOW);
    assert_true(!watched[0].went && watched[1].went);
}
