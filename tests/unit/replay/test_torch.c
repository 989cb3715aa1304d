/*
 * test_torch.c - PyTorch's allocator, simulated: each rule by a case that is worked out by hand.  (Long
 * random programs against an independent allocator: tests/e2e/import/whatif.sh.)
 */

#include "unit/test.h"
#include "replay/torch.h"

#define MIB(n) ((uint64_t)(n) << 20)

static struct torch t;
static uint64_t next_address;
static uint64_t asked[64], given[64];
static size_t asks, gives;

static bool ask(void *context, enum torch_ask kind, uint64_t *address, uint64_t size)
{
    if (kind != TORCH_MAP) {
        *address = next_address;
        next_address += MIB(1 << 20);
    }
    if (kind != TORCH_RESERVE)
        asked[asks++ % 64] = size;
    return true;
}

static void give(void *context, enum torch_give kind, uint64_t address, uint64_t size)
{
    given[gives++ % 64] = size;
}

static struct torch_settings begin(void)
{
    next_address = MIB(1 << 20);
    asks = gives = 0;
    return torch_defaults();
}

static void with(struct torch_settings s)
{
    torch_init(&t, &s, &(struct torch_driver){NULL, ask, give});
}

static uint64_t address_of(uint32_t block)
{
    assert_int_not_equal(block, 0);
    return t.blocks[block].address;
}

TEST(test_requests_are_rounded)
{
    struct torch_settings s = torch_defaults();
    assert_int_equal(torch_round(&s, 1), 512);
    assert_int_equal(torch_round(&s, 512), 512);
    assert_int_equal(torch_round(&s, 513), 1024);
    s.roundup = 4; /* quarters of the power of two below, above 2048 */
    assert_int_equal(torch_round(&s, 2048), 2048);
    assert_int_equal(torch_round(&s, MIB(5)), MIB(5));
    assert_int_equal(torch_round(&s, MIB(5) + 1), MIB(6));
    assert_int_equal(torch_round(&s, MIB(8)), MIB(8));
}

TEST(test_segments_have_three_sizes)
{
    struct torch_settings s = torch_defaults();
    assert_int_equal(torch_segment_size(&s, 512), MIB(2));
    assert_int_equal(torch_segment_size(&s, MIB(1)), MIB(2));
    assert_int_equal(torch_segment_size(&s, MIB(1) + 512), MIB(20));
    assert_int_equal(torch_segment_size(&s, MIB(10) - 512), MIB(20));
    assert_int_equal(torch_segment_size(&s, MIB(10)), MIB(10));
    assert_int_equal(torch_segment_size(&s, MIB(11) - 512), MIB(12));
}

TEST(test_a_large_rest_is_split_off_and_a_small_one_is_not)
{
    with(begin());
    uint64_t first = address_of(torch_malloc(&t, MIB(19), 0)); /* 20 MiB: the rest is 1 MiB, and stays */
    torch_malloc(&t, MIB(2), 0);
    assert_int_equal(asks, 2);
    assert_int_equal(asked[0], MIB(20));
    uint32_t b = torch_malloc(&t, MIB(3), 0); /* from the second segment's rest */
    assert_int_equal(asks, 2);
    assert_int_equal(address_of(b), first + MIB(1 << 20) + MIB(2));
    torch_free(&t);
}

TEST(test_the_best_fit_of_the_stream_is_taken_and_neighbours_merge)
{
    with(begin());
    uint32_t a = torch_malloc(&t, MIB(4), 0), b = torch_malloc(&t, MIB(4), 0),
             c = torch_malloc(&t, MIB(4), 0);
    uint64_t start = address_of(a);
    torch_release(&t, a, false);
    uint32_t other = torch_malloc(&t, MIB(4), 5); /* another stream's: a segment of its own */
    assert_int_equal(asks, 2);
    assert_int_not_equal(address_of(other), start);
    torch_release(&t, b, false);
    assert_int_equal(address_of(torch_malloc(&t, MIB(8), 0)), start);
    torch_release(&t, c, false);
    torch_free(&t);
}

/* Three free segments of one size, the oldest at the highest address, and its block the one that was made
 * last: how many addresses of 1 TiB up the one lies that a request gets. */
static uint64_t taken_of_three(const char *version)
{
    struct torch_settings s = begin();
    torch_simulates(version, &s.ties);
    with(s);
    uint32_t whole[3];
    for (uint32_t i = 0; i < 3; i++) {
        next_address = MIB((3 - i) << 20);
        whole[i] = torch_malloc(&t, MIB(30), 0);
    }
    torch_release(&t, whole[0], false);
    uint32_t front = torch_malloc(&t, MIB(10), 0), rest = torch_malloc(&t, MIB(20), 0);
    torch_release(&t, rest, false);
    torch_release(&t, front, false); /* the front, made by the split, takes the rest in */
    torch_release(&t, whole[1], false);
    torch_release(&t, whole[2], false);
    uint64_t address = address_of(torch_malloc(&t, MIB(30), 0));
    torch_free(&t);
    return address / MIB(1 << 20);
}

TEST(test_of_free_blocks_of_one_size_each_version_takes_its_own)
{
    assert_int_equal(taken_of_three(NULL), 1);
    assert_int_equal(taken_of_three("2.11.0+cu130"), 1); /* the lowest address */
    assert_int_equal(taken_of_three("2.12.1"), 2);       /* the block that was made first */
    assert_int_equal(taken_of_three("2.13.0"), 3);       /* the oldest segment's */
    assert_int_equal(taken_of_three("2.15.0+cu132"), 3);
}

TEST(test_in_the_oldest_segment_the_lowest_of_one_size_is_taken)
{
    struct torch_settings s = begin();
    s.ties = TORCH_BY_SEGMENT;
    with(s);
    uint32_t part[5];
    for (int i = 0; i < 5; i++)
        part[i] = torch_malloc(&t, MIB(4), 0);
    uint64_t start = address_of(part[0]);
    torch_release(&t, part[3], false);
    torch_release(&t, part[1], false);
    assert_int_equal(address_of(torch_malloc(&t, MIB(4), 0)), start + MIB(4));
    torch_free(&t);
}

TEST(test_the_versions_that_are_simulated_are_told_from_others)
{
    const char *others[] = {NULL, "", "2", "1.13.1", "2.2.2", "2.16.0", "3.0.0", "of one's own"};
    enum torch_ties ties;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(torch_simulates(others[i], &ties));
    assert_true(torch_simulates("2.3.0", &ties) && torch_simulates("2.15.0a0+git1234", &ties));
    assert_false(torch_simulates("2.16.0", &ties));
    assert_int_equal(ties, TORCH_BY_SEGMENT); /* the newest known one is the likelier */
}

TEST(test_a_block_other_streams_use_is_not_reused_before_they_are_done)
{
    with(begin());
    uint32_t a = torch_malloc(&t, MIB(12), 0);
    uint64_t start = address_of(a);
    torch_release(&t, a, true);
    assert_int_not_equal(address_of(torch_malloc(&t, MIB(12), 0)), start);
    torch_reusable(&t, a);
    assert_int_equal(address_of(torch_malloc(&t, MIB(12), 0)), start);
    torch_free(&t);
}

TEST(test_max_split_size_keeps_large_blocks_for_large_requests)
{
    struct torch_settings s = begin();
    s.max_split = MIB(64);
    with(s);
    uint32_t big = torch_malloc(&t, MIB(100), 0);
    torch_release(&t, big, false);
    torch_malloc(&t, MIB(30), 0); /* below the limit: not out of a block above it */
    assert_int_equal(asks, 2);
    assert_int_equal(asked[1], MIB(30));
    torch_malloc(&t, MIB(79), 0); /* 100 is not more than 79 + 20 + 1: 100 >= 99, so no */
    assert_int_equal(asks, 3);
    torch_malloc(&t, MIB(90), 0); /* 100 < 110: whole, not split */
    assert_int_equal(asks, 3);
    assert_int_equal(t.reserved, MIB(100) + MIB(30) + MIB(80));
    torch_free(&t);
}

TEST(test_a_refusal_returns_whole_segments_and_tries_once_more)
{
    struct torch_settings s = begin();
    s.capacity = MIB(60);
    with(s);
    uint32_t a = torch_malloc(&t, MIB(30), 0), b = torch_malloc(&t, MIB(2), 0);
    torch_release(&t, a, false);
    assert_int_not_equal(torch_malloc(&t, MIB(36), 0), 0); /* 50 held: 30 go, 36 come */
    assert_int_equal(t.retries, 1);
    assert_int_equal(given[0], MIB(30));
    assert_int_equal(t.reserved, MIB(56));
    assert_int_equal(torch_malloc(&t, MIB(19), 0), 0); /* 18 free, in a segment that is split */
    torch_release(&t, b, false);
    assert_int_not_equal(torch_malloc(&t, MIB(19), 0), 0);
    torch_free(&t);
}

TEST(test_garbage_collection_returns_what_is_as_old_as_the_mean)
{
    struct torch_settings s = begin();
    s.capacity = MIB(200);
    s.gc_threshold = 0.5;
    with(s);
    uint32_t a = torch_malloc(&t, MIB(30), 0), b = torch_malloc(&t, MIB(40), 0);
    uint32_t c = torch_malloc(&t, MIB(50), 0);
    torch_release(&t, a, false);
    for (int i = 0; i < 2; i++) { /* two requests that are served from the cache */
        torch_release(&t, c, false);
        c = torch_malloc(&t, MIB(50), 0);
    }
    torch_release(&t, b, false);
    assert_int_equal(gives, 0);
    torch_malloc(&t, MIB(60), 0); /* 120 held, 100 are the threshold: 20 wanted, the older one has them */
    assert_int_equal(gives, 1);
    assert_int_equal(given[0], MIB(30));
    torch_release(&t, c, false);
    torch_free(&t);
}

TEST(test_expandable_segments_grow_and_unmap_whole_granules)
{
    struct torch_settings s = begin();
    s.expandable = true;
    with(s);
    uint32_t a = torch_malloc(&t, MIB(30), 0); /* two granules of 20 MiB */
    assert_int_equal(asked[0], MIB(40));
    uint64_t start = address_of(a);
    uint32_t b = torch_malloc(&t, MIB(20), 0); /* 10 are free: one granule more, right behind */
    assert_int_equal(asked[1], MIB(20));
    assert_int_equal(address_of(b), start + MIB(30));
    torch_release(&t, a, false);
    torch_empty_cache(&t); /* of 30 MiB one granule is free as a whole; the next has B in it */
    assert_int_equal(gives, 1);
    assert_int_equal(given[0], MIB(20));
    assert_int_equal(t.reserved, MIB(40));
    assert_int_equal(address_of(torch_malloc(&t, MIB(29), 0)), start); /* unmapped and free, mapped again */
    assert_int_equal(asked[2], MIB(20));
    assert_int_equal(t.reserved, MIB(60));
    torch_free(&t);
}

TEST(test_where_an_expandable_segment_has_no_addresses_left_another_is_reserved)
{
    struct torch_settings s = begin();
    s.expandable = true;
    s.memory = MIB(1 << 10);
    s.reserve = MIB(70); /* four granules of 20 MiB */
    with(s);
    uint64_t start = address_of(torch_malloc(&t, MIB(30), 0));
    assert_int_equal(address_of(torch_malloc(&t, MIB(40), 0)), start + MIB(30));
    assert_int_equal(address_of(torch_malloc(&t, MIB(30), 0)), start + MIB(1 << 20));
    torch_free(&t);
    s = begin();
    s.expandable = true;
    s.memory = MIB(40);
    s.reserve = MIB(1 << 10); /* nine eighths of the memory are the most */
    with(s);
    start = address_of(torch_malloc(&t, MIB(30), 0));
    assert_int_equal(address_of(torch_malloc(&t, MIB(40), 0)), start + MIB(1 << 20));
    torch_free(&t);
}

/* A recording may have any size: a reservation that no device needs holds it all the same. */
TEST(test_a_request_beyond_the_usual_reservation_gets_one_of_its_own)
{
    struct torch_settings s = begin();
    s.expandable = true;
    with(s);
    uint32_t a = torch_malloc(&t, MIB(16 << 20), 0), b = torch_malloc(&t, MIB(30), 0);
    assert_int_equal(address_of(a), MIB(1 << 20));
    assert_true(t.blocks[a].size == MIB(16 << 20));
    assert_int_not_equal(b, 0);
    uint32_t c = torch_malloc(&t, MIB(5 << 20), 0);
    assert_int_not_equal(c, 0);
    torch_release(&t, a, false);
    torch_release(&t, b, false);
    torch_release(&t, c, false);
    torch_empty_cache(&t);
    assert_int_equal(t.reserved, 0);
    torch_free(&t);
}
