/* test_export_map.c - the tables of an export find what was put into them, and nothing that was taken out. */

#include "unit/test.h"
#include "export/map.h"

TEST(numbers_are_found_until_they_are_removed)
{
    enum { KEYS = 700, TURNS = 40000 };
    static int64_t model[KEYS + 1]; /* value + 1; 0: not there */
    struct map m = {0};
    uint32_t dice = 1;
    for (int i = 0; i < TURNS; i++) {
        dice = dice * 1664525 + 1013904223;
        int64_t key = 1 + (dice >> 8) % KEYS;
        if ((dice >> 24) % 3) {
            map_put(&m, key * 4096, i); /* that differ in the bits a poor hash would drop */
            model[key] = i + 1;
        } else {
            map_remove(&m, key * 4096);
            model[key] = 0;
        }
        if (i % 500 == 0)
            for (int64_t k = 1; k <= KEYS; k++)
                assert_int_equal(map_get(&m, k * 4096), model[k] - 1);
    }
    assert_int_equal(map_get(&m, 0), -1);
    assert_int_equal(map_get(&m, -5), -1);
    map_free(&m);
    assert_int_equal(map_get(&m, 4096), -1);
}

TEST(texts_keep_their_numbers_while_the_table_grows)
{
    enum { TEXTS = 1000 };
    static char text[TEXTS][16];
    struct texts x = {0};
    bool is_new;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < TEXTS; i++) {
            snprintf(text[i], sizeof text[i], "name %zu", i);
            assert_int_equal(texts_index(&x, text[i], &is_new), i);
            assert_int_equal(is_new, round == 0);
        }
    assert_int_equal(x.n, TEXTS);
    assert_int_equal(texts_index(&x, "name 7", NULL), 7); /* by what it says, not by where it lies */
    texts_free(&x);
}
