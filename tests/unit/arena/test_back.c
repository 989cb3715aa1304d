/* test_back.c - what comes back from the host, and what is waited for: back.c, above blocks that stand for
 * themselves. */
#include "arena/away/back.h"
#include "arena/away/park_copy.h"
#include "arena/away/park_plan.h"
#include "arena/away/spill.h"
#include "unit/test.h"

#define MIB  (1ull << 20)
#define BASE (0x7f00ull << 32)

struct vs_served vs_served[VS_SERVED_DEVICES];
uint32_t vs_park_parked, vs_park_freed, vs_park_coming;
static int lags;  /* waits for the device, until what is freed is there */
static int waits; /* so far */
static bool full; /* the device is */

/* ---- beside back.c ---- */

int vs_park_in(struct vs_watched *w)
{
    if (full)
        return VS_BACKING_OUT_OF_MEMORY;
    vs_park_parked -= w->parked;
    w->parked = false;
    return w->freed && lags > waits ? VS_BACKING_NOT_READY : 0;
}
void vs_park_forget(struct vs_watched *w)
{
    vs_park_freed -= w->freed;
    vs_watched_remove(w);
}
bool vs_park_wait(struct vs_watched *w, CUstream stream)
{
    return true;
}
bool vs_spill_on(void)
{
    return false;
}
void vs_spill_came_back(struct vs_watched *w) {}
void vs_plan_came_back(const struct vs_watched *w) {}
void vs_arena_await(struct vs_arena *arena)
{
    waits++;
}
int vs_arena_trim(struct vs_arena *arena, uint64_t keep)
{
    return 0;
}

/* ---- blocks ---- */

static struct vs_watched *parked(unsigned n, bool freed)
{
    struct vs_watched *w = vs_watched_add(&(struct vs_watched){.address = BASE + n * 64 * MIB,
                                                               .size = 8 * MIB,
                                                               .arena = (struct vs_arena *)(uintptr_t)1,
                                                               .parked = true,
                                                               .freed = freed});
    vs_park_parked++;
    vs_park_freed += freed;
    return w;
}

static void begin(int lag)
{
    VS_WATCHED_EACH(w)
    vs_watched_remove(w);
    vs_park_parked = vs_park_freed = 0;
    waits = 0;
    lags = lag;
    full = false;
}

/* As many are freed then as are parked, and these are others. */
TEST(a_freed_block_that_is_not_there_yet_keeps_no_other_from_coming_back)
{
    int status = 0;
    begin(1);
    struct vs_watched *freed = parked(0, true), *other = parked(1, false);
    assert_int_equal(vs_back_one(freed), VS_BACKING_NOT_READY);
    assert_int_equal(vs_park_parked, vs_park_freed);
    assert_null(vs_back_wanted(&status));
    assert_false(other->parked);
}

TEST(all_is_back_once_the_device_is_done)
{
    begin(3);
    parked(0, true);
    struct vs_watched *other = parked(1, false);
    int cancel = vs_parking_enter();
    assert_int_equal(vs_back_all(), 0);
    vs_parking_leave(cancel);
    assert_false(other->parked);
    assert_int_equal(waits, 3);
    assert_int_equal(vs_park_freed, 0);
}

TEST(what_a_full_device_has_no_room_for_is_not_waited_for)
{
    begin(0);
    struct vs_watched *w = parked(0, false);
    full = true;
    int cancel = vs_parking_enter();
    assert_int_equal(vs_back_all(), VS_BACKING_OUT_OF_MEMORY);
    vs_parking_leave(cancel);
    assert_true(w->parked);
    assert_int_equal(waits, 0);
}

TEST(a_device_that_is_never_done_is_waited_for_a_few_times)
{
    begin(1000);
    parked(0, true);
    int cancel = vs_parking_enter();
    assert_int_equal(vs_back_all(), VS_BACKING_NOT_READY);
    vs_parking_leave(cancel);
    assert_in_range(waits, 1, 100);
}
