/*
 * test_watched.c - the table of blocks by address, held against a plain list; and the store's units.
 */
#include "arena/away/host.h"
#include "arena/away/store.h"
#include "arena/away/watched.h"
#include "core/log.h"
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MIB    (1ull << 20)
#define BASE   (0x7f00ull << 32)
#define BLOCKS 400u
#define PLACE  (40 * MIB)

struct vs_served vs_served[VS_SERVED_DEVICES];

/* ---- the host's memory (host.c), without a driver ---- */

static uint64_t room = UINT64_MAX, most_locked, looks;
static char *memory; /* addresses alone */

uint64_t vs_host_room(void)
{
    looks++;
    return room < 4096 * MIB ? room : 4096 * MIB;
}
bool vs_host_reserve(struct vs_host_store *h, uint64_t bytes)
{
    if (memory == NULL)
        memory = mmap(NULL, 4096 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *h = (struct vs_host_store){.base = memory, .bytes = bytes};
    return memory != MAP_FAILED;
}
bool vs_host_lock(struct vs_host_store *h, uint64_t most)
{
    uint64_t some = 256 * MIB < most ? 256 * MIB : most;
    some = some < h->bytes - h->locked ? some : h->bytes - h->locked;
    h->locked += some;
    most_locked = h->locked > most_locked ? h->locked : most_locked;
    return some != 0;
}
bool vs_host_part(struct vs_host_store *h, uint64_t keep, struct vs_host_store *part)
{
    uint64_t from = (keep + 256 * MIB - 1) / (256 * MIB) * (256 * MIB);
    if (h->locked <= from)
        return false;
    part->locked = h->locked - from;
    h->locked = from;
    return true;
}
uint64_t vs_host_together(uint64_t offset, uint64_t bytes)
{
    uint64_t to_border = 256 * MIB - offset % (256 * MIB);
    return bytes < to_border ? bytes : to_border;
}
void vs_host_end(struct vs_host_store *h)
{
    *h = (struct vs_host_store){.base = NULL};
}

void vs_host_amount(char out[32], double bytes)
{
    out[0] = 0;
}

void vs_log(const char *format, ...) {}

static uint64_t now_ns = 1; /* by the clock */
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){(time_t)(now_ns / 1000000000), (long)(now_ns % 1000000000)};
    return clock == CLOCK_MONOTONIC ? 0 : __real_clock_gettime(clock, t);
}

/* ---- the table ---- */

static struct {
    uint64_t address, size;
} block[BLOCKS];

static uint64_t drawn(uint64_t below)
{
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % below;
}

/* Each in a place of its own, some from its beginning to its end. */
static void draw(uint32_t i)
{
    uint64_t from = drawn(4) ? drawn(8 * MIB) & ~511ull : 0,
             size = VS_WATCHED_LEAST + (drawn(PLACE - 10 * MIB) & ~511ull);
    block[i].address = BASE + i * PLACE + from;
    block[i].size = drawn(4) ? size : PLACE - from;
    assert_non_null(vs_watched_add(&(struct vs_watched){.address = block[i].address, .size = block[i].size}));
}

static uint64_t expected(uint64_t address, uint64_t size)
{
    uint64_t last = address + (size ? size - 1 : 0), found = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (block[i].size && block[i].address <= last && block[i].address + block[i].size > address)
            found = block[i].address;
    return found;
}

TEST(every_address_finds_its_block_and_every_range_its_last)
{
    for (uint32_t n = 0; n < 200000; n++) {
        uint32_t i = (uint32_t)drawn(BLOCKS);
        if (drawn(16) == 0 && block[i].size) {
            vs_watched_remove(vs_watched_at(block[i].address, 0));
            block[i].size = 0;
        } else if (!block[i].size) {
            draw(i);
        }
        uint64_t address = BASE + drawn(BLOCKS * PLACE), size = drawn(3) ? 0 : drawn(100 * MIB);
        const struct vs_watched *w = vs_watched_at(address, size);
        uint64_t found = w ? w->address : 0;
        assert_int_equal(found, expected(address, size));
        assert_true(size || !found || vs_watched_near(address));
    }
    uint32_t count = 0;
    VS_WATCHED_EACH(w)
    count++;
    for (uint32_t i = 0; i < BLOCKS; i++)
        count -= block[i].size != 0;
    assert_int_equal(count, 0);
}

/* The plain rule: of all blocks, for each that comes back. */
static struct vs_watched *wanted_next(uint64_t bytes)
{
    struct vs_watched *first = NULL;
    VS_WATCHED_EACH(w)
    if (w->parked && !w->freed && w->size <= bytes && (first == NULL || w->order < first->order))
        first = w;
    return first;
}

TEST(what_is_wanted_back_comes_in_the_plain_rule_s_order)
{
    uint32_t back = 0;
    for (uint32_t n = 0; n < 1000; n++) {
        uint64_t bytes = drawn(8) * 6 * MIB;
        VS_WATCHED_EACH(w)
        {
            w->parked = drawn(2);
            w->freed = drawn(8) == 0;
            w->order = (uint32_t)drawn(n % 2 ? 10 : 1000);
        }
        struct vs_ranking *wanted = vs_watched_wanted(bytes);
        for (struct vs_watched *w; (w = wanted_next(bytes)) != NULL; back++) {
            assert_ptr_equal(vs_ranking_take(wanted), w);
            w->parked = false;
        }
        assert_null(vs_ranking_take(wanted));
    }
    assert_true(back > 10000);
    VS_WATCHED_EACH(w)
    w->parked = w->freed = false;
}

TEST(addresses_that_no_device_has_find_nothing)
{
    const uint64_t odd[] = {0, 1, 4096, 1ull << 47, 1ull << 63, UINT64_MAX - 5, UINT64_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        assert_false(vs_watched_near(odd[i]));
        assert_null(vs_watched_at(odd[i], 0));
        assert_null(vs_watched_kept(odd[i] > 1ull << 46 ? odd[i] : UINT64_MAX));
    }
    assert_null(vs_watched_add(&(struct vs_watched){.address = (1ull << 47) - MIB, .size = 2 * MIB}));
}

TEST(a_work_is_given_anew_all_that_it_was_given_or_nothing)
{
    struct vs_watched *w = vs_watched_add(&(struct vs_watched){.address = BASE, .size = 4 * MIB, .work = 9});
    vs_watched_given(5, BASE);
    vs_watched_given(5, BASE + 64 * MIB); /* it has ended since */
    assert_true(vs_watched_knows(5) && !vs_watched_knows(6));
    vs_watched_renew(5, 12);
    assert_int_equal(w->work, 12);
    assert_true(vs_watched_knows(12));
    vs_watched_given(5 + 64, BASE); /* its entry is another's */
    assert_false(vs_watched_knows(5));
    for (int i = 0; i < 31; i++)
        vs_watched_given(12, BASE);
    assert_false(vs_watched_knows(12)); /* more than are kept */
    vs_watched_remove(w);
}

TEST(wild_ranges_are_looked_at_as_far_as_addresses_go)
{
    VS_WATCHED_EACH(old)
    vs_watched_remove(old);
    struct vs_watched *w = vs_watched_add(&(struct vs_watched){.address = BASE, .size = 4 * MIB});
    for (int i = 0; i < 100; i++) { /* a look at each 2 MiB of the address space would take half a minute */
        assert_ptr_equal(vs_watched_at(BASE - MIB, UINT64_MAX - BASE), w);
        assert_ptr_equal(vs_watched_at(4096, 1ull << 62), w);
        assert_ptr_equal(vs_watched_at(UINT64_MAX - MIB, 4 * MIB), NULL);
        assert_null(vs_watched_at(BASE + 4 * MIB, UINT64_MAX));
    }
    vs_watched_remove(w);
}

/* ---- the store ---- */

static uint64_t unit_at(uint64_t i)
{
    return BASE + i * VS_STORE_UNIT;
}

static void keep_all(uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        assert_non_null(vs_store_have(&vs_served[0], unit_at(i)));
}

static void drop_all(uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        vs_store_drop(&vs_served[0], unit_at(i));
}

static void begin_store(void)
{
    vs_store_end(&vs_served[0]);
    vs_store_limit(UINT64_MAX);
    room = UINT64_MAX;
    most_locked = looks = 0;
    vs_watched_add(&(struct vs_watched){.address = BASE, .size = BLOCKS * PLACE}); /* there are entries */
}

TEST(units_of_the_store_are_apart_and_the_lowest_free_one_is_taken)
{
    begin_store();
    keep_all(0, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_ptr_equal(vs_store_at(&vs_served[0], unit_at(i)), memory + i * VS_STORE_UNIT);
    assert_ptr_equal(vs_store_have(&vs_served[0], unit_at(7)), memory + 7 * VS_STORE_UNIT); /* as it is */
    drop_all(300, 301);
    drop_all(20, 30);
    assert_null(vs_store_at(&vs_served[0], unit_at(25)));
    vs_store_drop(&vs_served[0], unit_at(25)); /* twice */
    for (uint64_t i = 0; i < 11; i++)
        assert_ptr_equal(vs_store_have(&vs_served[0], unit_at(2000 + i)),
                         memory + (i < 10 ? 20 + i : 300) * VS_STORE_UNIT);
    assert_int_equal(most_locked, 2048 * MIB);
    assert_int_equal(looks, 1); /* at what the host has left: it is read from files */
    drop_all(0, 2011);
}

TEST(one_copy_has_what_lies_side_by_side_and_was_locked_at_once)
{
    begin_store();
    keep_all(0, 200);
    assert_int_equal(vs_store_together(&vs_served[0], unit_at(0), unit_at(5)), 5 * VS_STORE_UNIT);
    assert_int_equal(vs_store_together(&vs_served[0], unit_at(100), unit_at(200)), 28 * VS_STORE_UNIT);
    assert_int_equal(vs_store_together(&vs_served[0], unit_at(128), unit_at(200)), 72 * VS_STORE_UNIT);
    drop_all(140, 141);
    keep_all(500, 501); /* there */
    assert_int_equal(vs_store_together(&vs_served[0], unit_at(130), unit_at(200)), 10 * VS_STORE_UNIT);
    drop_all(0, 501);
}

TEST(no_more_is_locked_than_the_limit_and_the_host_allow)
{
    begin_store();
    vs_store_limit(100 * MIB);
    keep_all(0, 50);
    assert_null(vs_store_have(&vs_served[0], unit_at(50)));
    drop_all(10, 11);
    keep_all(50, 51);
    assert_int_equal(most_locked, 100 * MIB);
    drop_all(0, 51);
    begin_store();
    room = 10 * MIB;
    keep_all(0, 5);
    assert_null(vs_store_have(&vs_served[0], unit_at(5)));
    drop_all(0, 5);
}

TEST(what_was_not_needed_for_long_is_given_back)
{
    char why[200];
    struct vs_host_store part;
    begin_store();
    keep_all(0, 1000);
    assert_null(vs_store_grow(&vs_served[0], 10 * MIB, why, sizeof why));
    drop_all(100, 1000);
    now_ns += 31000000000ull; /* in this time they were needed */
    assert_false(vs_store_look(&vs_served[0], &part));
    now_ns += 29000000000ull;
    assert_false(vs_store_look(&vs_served[0], &part));
    assert_null(vs_store_grow(&vs_served[0], 1800 * MIB, why, sizeof why)); /* there still */
    assert_int_equal(most_locked, 2048 * MIB);
    now_ns += 2000000000ull;
    assert_true(vs_store_look(&vs_served[0], &part) && vs_store_gives(&vs_served[0]));
    now_ns += 31000000000ull;
    assert_false(vs_store_look(&vs_served[0], &part)); /* one at a time, and nothing is locked beside it */
    assert_non_null(vs_store_grow(&vs_served[0], 300 * MIB, why, sizeof why));
    vs_store_gave(&vs_served[0], part.locked);
    vs_store_limit(300 * MIB); /* 256 are locked */
    keep_all(100, 150);
    assert_null(vs_store_have(&vs_served[0], unit_at(150)));
    drop_all(0, 150);
}
