/*
 * test_torch_search.c - which free block the simulated PyTorch takes, against a look at every block before
 * each request of a random program.  With expandable segments the search goes on upwards, as long as the next
 * one could grow less.
 *
 *      test_torch_search [SEED STEPS]     default: 12,000 requests and frees of each of three settings
 */

#include "unit/test.h"
#include "replay/addresses.h"
#include "replay/torch.h"

#define MIB(n)  ((uint64_t)(n) << 20)
#define STREAMS 3
#define MOST    4000
#define PHASE   3000 /* steps: more is taken than given back, then the other way round */

static struct torch t;
static struct addresses addresses;
static uint32_t seed = 1, steps = 12000, hits;
static uint8_t *gone; /* by block: its number is spare */
static size_t gone_room;

static bool ask(void *context, enum torch_ask kind, uint64_t *address, uint64_t size)
{
    (void)context;
    if (kind == TORCH_SEGMENT)
        *address = addresses_take(&addresses, size);
    else if (kind == TORCH_RESERVE)
        *address = addresses_reserve(&addresses, size);
    return true;
}

static void give(void *context, enum torch_give kind, uint64_t address, uint64_t size)
{
    (void)context;
    if (kind == TORCH_FREE_SEGMENT)
        addresses_give(&addresses, address, size);
}

/* ---- the search through all ---- */

static void find_gone(void)
{
    if (gone_room < t.block_count) {
        gone_room = t.block_count * 2;
        gone = realloc(gone, gone_room);
        assert_non_null(gone);
    }
    memset(gone, 0, t.block_count);
    for (uint32_t b = t.spare; b; b = t.blocks[b].next)
        gone[b] = 1;
}

static bool is_candidate(uint32_t i, uint64_t size, uint16_t stream)
{
    const struct torch_block *b = &t.blocks[i];
    return !gone[i] && !b->allocated && !b->pending && b->mapped && b->stream == stream &&
           b->small == (size <= MIB(1)) && b->size >= size;
}

static bool lies_before(uint32_t i, uint32_t j)
{
    const struct torch_block *a = &t.blocks[i], *b = &t.blocks[j];
    if (a->size != b->size)
        return a->size < b->size;
    if (t.settings.ties != TORCH_BY_ADDRESS && a->made != b->made)
        return a->made < b->made;
    return a->address < b->address;
}

/* The first candidate behind AFTER (0: of all); 0: there is none. */
static uint32_t next_candidate(uint64_t size, uint16_t stream, uint32_t after)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < t.block_count; i++)
        if (is_candidate(i, size, stream) && (!after || lies_before(after, i)) &&
            (!best || lies_before(i, best)))
            best = i;
    return best;
}

static uint64_t could_have(uint32_t i)
{
    const struct torch_block *b = &t.blocks[i], *next = &t.blocks[b->next];
    return b->next && !next->mapped ? b->size + next->size : b->size;
}

/* 0: a new segment, or more of one, is needed. */
static uint32_t search(uint64_t size, uint16_t stream)
{
    uint64_t limit = t.settings.max_split;
    find_gone();
    uint32_t best = next_candidate(size, stream, 0), next;
    while (best && t.settings.expandable && (next = next_candidate(size, stream, best)) &&
           could_have(next) < could_have(best))
        best = next;
    if (!best)
        return 0;
    uint64_t has = t.blocks[best].size;
    bool refused = size < limit ? has >= limit : has >= size + MIB(20);
    return limit != TORCH_NO_SPLIT_LIMIT && refused ? 0 : best;
}

/* ---- a random program ---- */

/* Of any magnitude, few different ones, or all different. */
static uint64_t some_size(void)
{
    uint64_t r = (uint64_t)random();
    if (r % 4 == 0)
        return 512 * (1 + r / 4 % 40);
    if (r % 4 == 1)
        return MIB(1) + 512 * (1 + r / 4 % 12000);
    return (512 + (uint64_t)random() % MIB(60)) >> r / 4 % 17;
}

static uint32_t request(uint16_t stream)
{
    uint64_t wanted = some_size(), size = torch_round(&t.settings, wanted);
    uint32_t best = search(size, stream);
    uint64_t address = best ? t.blocks[best].address : 0;
    assert_int_equal(torch_hits(&t, wanted, stream), best != 0);
    uint32_t got = torch_malloc(&t, wanted, stream);
    assert_int_not_equal(got, 0);
    if (best)
        assert_int_equal(t.blocks[got].address, address);
    hits += best != 0;
    return got;
}

static void random_program(struct torch_settings settings)
{
    static uint32_t living[MOST];
    size_t n = 0;
    addresses_init(&addresses, MIB(1) << 26, NULL);
    torch_init(&t, &settings, &(struct torch_driver){NULL, ask, give});
    srandom(seed);
    size_t leaves = 0;
    hits = 0;
    for (uint32_t i = 0; i < steps; i++) {
        if (n == 0 || (n < MOST && random() % 100 < (i / PHASE % 2 ? 30 : 90))) {
            living[n++] = request((uint16_t)(random() % STREAMS));
        } else {
            size_t at = (size_t)random() % n;
            torch_release(&t, living[at], false);
            living[at] = living[--n];
        }
        for (int k = 0; k < 2; k++)
            leaves = t.pools[k].free.n > leaves ? t.pools[k].free.n : leaves;
        if (i % (2 * PHASE) == 2 * PHASE - 1)
            torch_empty_cache(&t);
    }
    assert_true(hits > steps / 10 && leaves > 10); /* else the search, or its hints, were hardly tried */
    torch_free(&t);
    addresses_free(&addresses);
}

TEST(test_native_takes_the_block_that_a_search_through_all_finds)
{
    random_program(torch_defaults());
}

TEST(test_so_do_the_orders_of_later_versions)
{
    struct torch_settings s = torch_defaults();
    s.ties = TORCH_BY_BLOCK;
    random_program(s);
    s.ties = TORCH_BY_SEGMENT;
    random_program(s);
    s.expandable = true;
    s.memory = MIB(80 << 10);
    s.reserve = MIB(200); /* so that streams have several */
    random_program(s);
}

TEST(test_the_limit_on_splitting_refuses_what_that_search_refuses)
{
    struct torch_settings s = torch_defaults();
    s.max_split = MIB(24);
    random_program(s);
}

TEST(test_expandable_takes_the_one_that_could_grow_least_as_that_search_does)
{
    struct torch_settings s = torch_defaults();
    s.expandable = true;
    s.memory = MIB(80 << 10);
    random_program(s);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        seed = (uint32_t)strtoul(argv[1], NULL, 10);
        steps = (uint32_t)strtoul(argv[2], NULL, 10);
    }
    int failed = run_all_tests(NULL, NULL);
    free(gone);
    return failed;
}
