/*
 * test_near.c - lists of addresses, which are packed: a list leaves in the rows what its words leave one by
 * one, wherever they lie.
 */
#include <stdlib.h>

#include "use_kit.h"

#include "trace/access.h"

#define GIB (UINT64_C(1) << 30)

TEST(every_address_that_can_be_packed_comes_back)
{
    srandom(1);
    for (int round = 0; round < 200000; round++) {
        uint64_t first = ((uint64_t)random() << 18 ^ (uint64_t)random()) & ((UINT64_C(1) << 49) - 1) & ~15ull;
        uint64_t at[VS_NEAR_WORDS], packed[VS_USE_SLOT_WORDS];
        uint16_t base = vs_near_base(first);
        bool sure = random() % 2, near = true;
        for (int i = 0; i < (int)VS_NEAR_WORDS; i++) {
            uint64_t far = (uint64_t)random() << (random() % 6) & ~15ull;
            at[i] = i == 0 ? first : random() % 2 ? first + far : first - far;
            uint64_t above = at[i] - ((uint64_t)base << 33);
            near = near && above < (UINT64_C(1) << 35) - 16;
        }
        assert_int_equal(vs_near_pack(at, base, sure, packed), near);
        for (int i = 0; near && i < (int)VS_NEAR_WORDS; i++) {
            uint64_t word = vs_near_word((uint32_t)(packed[i / 2] >> i % 2 * 32), base);
            assert_true(word == (at[i] | (sure ? VS_USE_SURE : 0)));
        }
    }
}

TEST(what_is_not_near_or_no_multiple_of_16_is_not_packed)
{
    const uint16_t base = vs_near_base(BASE);
    const uint64_t above = (uint64_t)base << 33;
    const struct {
        uint64_t word;
        bool packed;
    } each[] = {{above, true},
                {above - 16, false},
                {above + 8, false},
                {above + 1, false},
                {above + 32 * GIB - 32, true},
                {above + 32 * GIB - 16, false},
                {above + 32 * GIB, false},
                {0, false},
                {UINT64_MAX, false},
                {above | VS_USE_SURE, false}};
    assert_true(above <= BASE - 8 * GIB && BASE - above < 16 * GIB);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        for (int place = 0; place < (int)VS_NEAR_WORDS; place++) {
            uint64_t at[VS_NEAR_WORDS], packed[VS_USE_SLOT_WORDS];
            for (int k = 0; k < (int)VS_NEAR_WORDS; k++)
                at[k] = BASE;
            at[place] = each[i].word;
            assert_int_equal(vs_near_pack(at, base, false, packed), each[i].packed);
            if (each[i].packed)
                assert_true(vs_near_word((uint32_t)(packed[place / 2] >> place % 2 * 32), base) ==
                            each[i].word);
        }
    assert_int_equal(vs_near_base(0), 0);
    assert_int_equal(vs_near_base(100 * 16), 0);
    assert_int_equal(vs_near_base((UINT64_C(1) << 49) - 16), UINT16_MAX - 1);
    assert_true(vs_near_word(0, base) == 0);
}

/* ---- a list and its words ---- */

#define BLOCKS 48
#define WORDS  96

struct said {
    uint64_t last_ns, sure_last_ns, first_ns;
    uint32_t uses;
    uint16_t kinds;
    uint8_t phases, sure_phases;
};

static const uint64_t places[] = {BASE, BASE + 7 * GIB, BASE + 40 * GIB, BASE - 3 * GIB, 3 * GIB};

static uint64_t block_at(int i)
{
    return places[i % 5] + (uint64_t)i * 4096;
}

static void give(const uint64_t *word, uint32_t n, bool sure, bool at_once)
{
    struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
    struct vs_use_batch batch;
    u.now = 5000;
    vs_use_batch_begin(&batch);
    for (uint32_t i = 0; i < (at_once ? 1 : n); i++) {
        if (at_once)
            vs_use_words(&u, &batch, word, n, sure);
        else
            vs_use_add(&u, &batch, word[i], sure);
        if (!at_once && batch.n >= 16) {
            vs_use_flush(&u, &batch);
            take();
        }
    }
    vs_use_flush(&u, &batch);
    take();
}

static void record_list(const uint64_t *word, uint32_t n, bool sure, bool at_once, struct said *said)
{
    assert_int_equal(begin(NULL), 0);
    for (int i = 0; i < BLOCKS; i++)
        born(VS_OP_BLOCK_ALLOC, block_at(i), 2048);
    push(1, "optimizer");
    give(word, n, sure, at_once);
    for (int i = 0; i < BLOCKS; i++) {
        const struct vs_access_row *r = died(VS_OP_BLOCK_FREE, block_at(i));
        said[i] = (struct said){.last_ns = r->last_ns,
                                .sure_last_ns = r->sure_last_ns,
                                .first_ns = r->first_ns,
                                .uses = r->uses,
                                .kinds = r->kinds,
                                .phases = r->phases,
                                .sure_phases = r->sure_phases};
    }
}

/* Mostly addresses of blocks near each other, as a list of tensors has; now and then anything else. */
static uint64_t any_word(int kind)
{
    int i = (int)(random() % BLOCKS);
    if (kind == 0)
        i -= i % 5;
    switch (random() % (kind == 2 ? 8 : 64)) {
    case 0:
        return (uint64_t)random();
    case 1:
        return block_at(i) + 2048; /* behind it */
    case 2:
        return block_at(i) + 12;
    case 3:
        return 0;
    default:
        return block_at(i) + (random() % 3 == 0 ? 2032 : 0);
    }
}

TEST(a_list_leaves_the_rows_that_its_words_leave, begin)
{
    uint64_t word[WORDS];
    uint32_t used = 0;
    srandom(2);
    for (int round = 0; round < 300; round++) {
        struct said one[BLOCKS] = {0}, list[BLOCKS] = {0};
        uint32_t n = (uint32_t)(random() % (WORDS + 1));
        bool sure = random() % 2;
        for (uint32_t i = 0; i < n; i++)
            word[i] = any_word(round % 3);
        record_list(word, n, sure, false, one);
        record_list(word, n, sure, true, list);
        assert_memory_equal(one, list, sizeof one);
        for (int i = 0; i < BLOCKS; i++)
            used += one[i].uses;
    }
    assert_in_range(used, 2000, 300 * BLOCKS);
}

/* Also where it does not begin at a multiple of 8, as in a buffer of parameters. */
TEST(a_list_takes_a_slot_for_eight_addresses, begin)
{
    uint64_t word[WORDS];
    char shifted[sizeof word + 3];
    struct vs_journal_stats before, after;
    for (int i = 0; i < BLOCKS; i++)
        born(VS_OP_BLOCK_ALLOC, block_at(i), 2048);
    for (int i = 0; i < WORDS; i++)
        word[i] = BASE + (uint64_t)(i / 5) * 4096;
    memcpy(shifted + 3, word, sizeof word);
    for (int offset = 0; offset <= 3; offset += 3) {
        struct vs_use u = vs_use_begin(1, VS_ACCESS_KERNEL);
        struct vs_use_batch batch;
        vs_use_batch_begin(&batch);
        vs_journal_stats(j, &before);
        vs_use_words(&u, &batch, offset ? shifted + 3 : (char *)word, WORDS, true);
        vs_use_flush(&u, &batch);
        vs_journal_stats(j, &after);
        assert_int_equal(after.head - before.head, WORDS / 8);
        take();
    }
}
