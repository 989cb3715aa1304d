/*
 * test_living.c - living.c: an address is found in its block and in no other, whatever came and went before.
 */
#include <pthread.h>

#include "unit/test.h"
#include "trace/uses/living.h"

static struct vs_living all_of_it[2];
#define MAP  (&all_of_it[0])
#define BASE UINT64_C(0x7f1200000000)
#define MIB  (UINT64_C(1) << 20)

static int fresh(void **state)
{
    vs_living_reset(&all_of_it[0]), vs_living_reset(&all_of_it[1]);
    return 0;
}

static void add(uint64_t start, uint64_t size, uint32_t id)
{
    bool added;
    assert_int_equal(vs_living_add(MAP, start, size, id, &added), 0);
    assert_true(added);
}

TEST(a_block_is_found_from_its_first_byte_to_its_last, fresh)
{
    add(BASE, 512, 1);
    add(BASE + 512, 1024, 2);
    add(BASE + 4096, 512, 3);
    assert_int_equal(vs_living_find(MAP, BASE), 1);
    assert_int_equal(vs_living_find(MAP, BASE + 511), 1);
    assert_int_equal(vs_living_find(MAP, BASE + 512), 2);
    assert_int_equal(vs_living_find(MAP, BASE + 1535), 2);
    assert_int_equal(vs_living_find(MAP, BASE + 4096), 3);
    assert_int_equal(vs_living_at(MAP, BASE + 600), 2); /* the unit that it begins in */
    assert_int_equal(vs_living_at(MAP, BASE + 1100), 0);
}

TEST(a_large_block_is_found_on_every_page, fresh)
{
    uint64_t start = BASE + 3 * 512, size = 40000 * MIB; /* across regions of 16 GiB */
    add(start, size, 7);
    add(start + size, 512, 8);
    for (uint64_t at = 0; at < size; at += 333 * MIB + 512)
        assert_int_equal(vs_living_find(MAP, start + at), 7);
    assert_int_equal(vs_living_find(MAP, start + size - 1), 7);
    assert_int_equal(vs_living_find(MAP, start + size), 8);
    vs_living_remove(MAP, start, size, 7);
    for (uint64_t at = 0; at < size; at += 333 * MIB + 512)
        assert_int_equal(vs_living_find(MAP, start + at), 0);
    assert_int_equal(vs_living_find(MAP, start + size), 8);
}

/* Of two whose begins have one place in the near table only the later one is in it. */
TEST(blocks_that_share_a_place_are_found_whichever_comes_or_goes_first, fresh)
{
    for (int first = 0; first < 2; first++) {
        uint64_t start[2] = {BASE, BASE + 512};
        while (vs_living_near_at(MAP, start[1]) != vs_living_near_at(MAP, start[0]))
            start[1] += 512;
        add(start[0], 1024, 1);
        add(start[1], 1024, 2);
        assert_int_equal(vs_living_find_near(MAP, start[0]), 0);
        assert_int_equal(vs_living_find_near(MAP, start[1] + 511), 2);
        for (int i = 0; i < 2; i++)
            assert_int_equal(vs_living_find(MAP, start[i] + 100), i + 1);
        vs_living_remove(MAP, start[first], 1024, (uint32_t)first + 1);
        assert_int_equal(vs_living_find(MAP, start[first]), 0);
        assert_int_equal(vs_living_find(MAP, start[!first]), !first + 1);
        vs_living_remove(MAP, start[!first], 1024, (uint32_t)!first + 1);
        assert_int_equal(vs_living_find(MAP, start[!first]), 0);
    }
    /* an id that has no room beside an address */
    add(BASE, 512, 1u << VS_LIVING_NEAR_ID_BITS);
    assert_int_equal(vs_living_find_near(MAP, BASE), 0);
    assert_int_equal(vs_living_find(MAP, BASE), 1u << VS_LIVING_NEAR_ID_BITS);
}

TEST(the_two_maps_know_nothing_of_each_other, fresh)
{
    bool added;
    add(BASE, 4096, 1);
    vs_living_add(&all_of_it[1], BASE, 20 * MIB, 2, &added);
    assert_int_equal(vs_living_find(&all_of_it[1], BASE + 10 * MIB), 2);
    assert_int_equal(vs_living_find(MAP, BASE + 10 * MIB), 0);
}

TEST(a_block_whose_end_was_not_seen_gives_way, fresh)
{
    bool added;
    add(BASE, 4096, 1);
    assert_int_equal(vs_living_add(MAP, BASE, 8192, 2, &added), 1);
    assert_true(added);
    vs_living_remove(MAP, BASE, 4096, 1); /* too late, and without effect */
    assert_int_equal(vs_living_find(MAP, BASE + 5000), 2);
}

TEST(what_no_map_can_hold_is_refused, fresh)
{
    bool added = true;
    vs_living_add(MAP, BASE, 0, 1, &added);
    assert_false(added);
    vs_living_add(MAP, (UINT64_C(1) << VS_LIVING_BITS) - 512, 1024, 1, &added);
    assert_false(added);
    vs_living_add(MAP, UINT64_MAX - 100, 200, 1, &added);
    assert_false(added);
    assert_int_equal(vs_living_find(MAP, UINT64_MAX), 0);
}

/* ---- against a list ---- */

#define BLOCKS 300

static struct {
    uint64_t start, size;
    uint32_t id; /* 0: none */
} list[BLOCKS];

static uint32_t listed(uint64_t address)
{
    for (int i = 0; i < BLOCKS; i++)
        if (list[i].id && address >= list[i].start && address - list[i].start < list[i].size)
            return list[i].id;
    return 0;
}

static bool taken(uint64_t start, uint64_t size)
{
    for (int i = 0; i < BLOCKS; i++)
        if (list[i].id && start < list[i].start + list[i].size && list[i].start < start + size)
            return true;
    return false;
}

/* What find says of ADDRESS, if its block reaches so far. */
static uint32_t found(uint64_t address)
{
    uint32_t id = vs_living_find(MAP, address);
    for (int i = 0; i < BLOCKS; i++)
        if (id && list[i].id == id)
            return address >= list[i].start && address - list[i].start < list[i].size ? id : 0;
    assert_int_equal(id, 0);
    return 0;
}

TEST(random_blocks_are_found_as_in_a_list, fresh)
{
    uint32_t next = 1;
    srandom(7);
    for (int round = 0; round < 60000; round++) {
        int i = (int)(random() % BLOCKS);
        if (list[i].id) {
            vs_living_remove(MAP, list[i].start, list[i].size, list[i].id);
            list[i].id = 0;
        } else {
            uint64_t units =
                random() % 8 == 0 ? (uint64_t)(random() % 20000) + 1 : (uint64_t)(random() % 40) + 1;
            uint64_t start = BASE + (uint64_t)(random() % 60000) * 512,
                     size = units * 512 - (uint64_t)(random() % 512);
            if (taken(start, units * 512))
                continue;
            list[i].start = start;
            list[i].size = size;
            list[i].id = next++;
            add(start, size, list[i].id);
        }
        for (int k = 0; k < 8; k++) {
            uint64_t address = BASE + (uint64_t)(random() % (60000 * 512));
            assert_int_equal(found(address), listed(address));
        }
    }
}

/* ---- several threads ---- */

#define THREADS 4

static void *work(void *argument)
{
    uint32_t own = (uint32_t)(uintptr_t)argument, seed = own;
    for (int round = 0; round < 40000; round++) {
        /* neighbours in the same words of bits, each of another thread */
        uint32_t place = (uint32_t)rand_r(&seed) % 500 * THREADS + own;
        uint64_t start = BASE + (uint64_t)place * 1024;
        bool added;
        vs_living_add(MAP, start, 1024, place + 1, &added);
        if (!added || vs_living_find(MAP, start + 700) != place + 1)
            return (void *)1;
        vs_living_remove(MAP, start, 1024, place + 1);
        if (vs_living_at(MAP, start) != 0)
            return (void *)1;
    }
    return NULL;
}

TEST(threads_find_what_they_added_themselves, fresh)
{
    pthread_t thread[THREADS];
    void *bad;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}
