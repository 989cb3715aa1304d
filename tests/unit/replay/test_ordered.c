/* test_ordered.c - the ordered set against a sorted array, over random insertions and removals. */

#include "unit/test.h"
#include "replay/ordered.h"

#define MOST 3000

static struct ordered_key keys[MOST]; /* in order */
static size_t n;

static size_t place_of(struct ordered_key k)
{
    size_t i = 0;
    while (i < n && (keys[i].first < k.first || (keys[i].first == k.first && keys[i].second < k.second)))
        i++;
    return i;
}

static void same_as_array(const struct ordered *o)
{
    size_t i = 0;
    for (struct ordered_place p = {0, 0}; !ordered_ends(o, p); p = ordered_next(o, p), i++) {
        assert_int_equal(ordered_key(o, p).first, keys[i].first);
        assert_int_equal(ordered_key(o, p).second, keys[i].second);
        assert_int_equal(ordered_value(o, p), (uint32_t)keys[i].second);
    }
    assert_int_equal(i, n);
}

static void look_up(const struct ordered *o, struct ordered_key k)
{
    size_t want = place_of(k);
    struct ordered_place p = ordered_from(o, k);
    assert_int_equal(ordered_ends(o, p), want == n);
    if (want < n)
        assert_int_equal(ordered_key(o, p).second, keys[want].second);
    assert_int_equal(ordered_back(o, &p), want > 0);
    if (want > 0)
        assert_int_equal(ordered_key(o, p).second, keys[want - 1].second);
}

/* Few different ones, or a stream and a size of any magnitude. */
static uint64_t some_first(void)
{
    if (random() % 2)
        return (uint64_t)random() % 40;
    return (uint64_t)random() % 5 << 48 | (uint64_t)random() >> random() % 28;
}

TEST(test_same_as_a_sorted_array)
{
    struct ordered o = {0};
    srandom(7);
    n = 0;
    for (uint32_t i = 1; i <= 20000; i++) {
        bool add = n == 0 || (n < MOST && random() % 5 < (i < 12000 ? 3 : 2));
        if (add) {
            struct ordered_key k = {some_first(), i};
            size_t at = place_of(k);
            memmove(keys + at + 1, keys + at, (n++ - at) * sizeof *keys);
            keys[at] = k;
            ordered_insert(&o, k, i);
        } else {
            size_t at = (size_t)random() % n;
            ordered_remove(&o, keys[at], (uint32_t)keys[at].second);
            memmove(keys + at, keys + at + 1, (--n - at) * sizeof *keys);
        }
        look_up(&o, (struct ordered_key){some_first(), (uint64_t)random() % 20000});
        if (i % 500 == 0)
            same_as_array(&o);
    }
    for (; n; n--)
        ordered_remove(&o, keys[n - 1], (uint32_t)keys[n - 1].second);
    same_as_array(&o);
    ordered_free(&o);
}

/* A damaged recording may have a hundred blocks at one address. */
TEST(test_equal_keys_are_told_apart_by_their_values)
{
    struct ordered o = {0};
    struct ordered_key k = {3, 4};
    for (uint32_t i = 1; i <= 300; i++)
        ordered_insert(&o, k, i * 11 % 301);
    for (uint32_t i = 300; i > 0; i--)
        ordered_remove(&o, k, i);
    assert_int_equal(o.n, 0);
    ordered_free(&o);
}

TEST(test_what_is_not_there_is_not_removed)
{
    struct ordered o = {0};
    ordered_remove(&o, (struct ordered_key){1, 1}, 1);
    for (uint32_t i = 2; i <= 300; i += 2)
        ordered_insert(&o, (struct ordered_key){1, i}, i);
    for (uint32_t i = 1; i <= 301; i += 2)
        ordered_remove(&o, (struct ordered_key){1, i}, i);
    ordered_remove(&o, (struct ordered_key){1, 2}, 3);
    for (uint32_t i = 2; i <= 300; i += 2)
        ordered_remove(&o, (struct ordered_key){1, i}, i);
    assert_int_equal(o.n, 0);
    ordered_free(&o);
}
