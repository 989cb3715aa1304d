/* ordered.c - an ordered set as sorted leaves (ordered.h). */
#include "ordered.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static inline bool before(struct ordered_key a, uint32_t x, struct ordered_key b, uint32_t y)
{
    if (a.first != b.first)
        return a.first < b.first;
    return a.second != b.second ? a.second < b.second : x < y;
}

#define HINTS      4096
#define HINTED     8 /* leaves: in fewer a search is as fast */
#define SIZE_DIGIT 3

/* Keys of a stream and within an eighth of their size share a hint. */
static size_t hint_of(struct ordered_key key)
{
    uint64_t size = (key.first & ((UINT64_C(1) << 48) - 1)) | 1 << SIZE_DIGIT;
    unsigned power = 63 - (unsigned)__builtin_clzll(size);
    uint64_t digit = size >> (power - SIZE_DIGIT) & ((1 << SIZE_DIGIT) - 1);
    return (key.first >> 48 << 9 | power << SIZE_DIGIT | digit) % HINTS;
}

static inline bool behind(const struct ordered *o, size_t leaf, struct ordered_key key, uint32_t value)
{
    return before(key, value, o->least[leaf], o->least_value[leaf]);
}

/* The leaf that KEY belongs into: the last whose least entry is not behind it.  From where the last key like
 * it lay the search goes in doubled steps, mostly none: a search through all leaves is half wrong guesses of
 * the processor's. */
static size_t leaf_for(const struct ordered *o, struct ordered_key key, uint32_t value)
{
    size_t low = 0, high = o->n, step = 1;
    uint32_t *hint = NULL;
    if (o->n >= HINTED) {
        hint = &o->hints[hint_of(key)];
        size_t at = *hint < o->n ? *hint : o->n - 1;
        if (behind(o, at, key, value)) {
            for (high = at; high > step && behind(o, high - step, key, value); step *= 2)
                high -= step;
            low = high > step ? high - step : 0;
        } else {
            for (low = at + 1; low + step <= o->n && !behind(o, low + step - 1, key, value); step *= 2)
                low += step;
            high = low + step <= o->n ? low + step - 1 : o->n;
        }
    }
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (behind(o, middle, key, value))
            high = middle;
        else
            low = middle + 1;
    }
    size_t leaf = low ? low - 1 : 0;
    if (hint)
        *hint = (uint32_t)leaf;
    return leaf;
}

/* The first entry of LEAF not before KEY. */
static uint32_t place_in(const struct ordered_leaf *leaf, struct ordered_key key, uint32_t value)
{
    uint32_t low = 0, high = leaf->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (before(leaf->key[middle], leaf->value[middle], key, value))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_leaf(struct ordered *o, size_t at, struct ordered_leaf *leaf)
{
    if (!o->hints)
        o->hints = memset(xrealloc(NULL, HINTS * sizeof *o->hints), 0, HINTS * sizeof *o->hints);
    if (o->n == o->room) {
        o->room = o->room ? o->room * 2 : 16;
        o->leaves = xrealloc(o->leaves, o->room * sizeof *o->leaves);
        o->least = xrealloc(o->least, o->room * sizeof *o->least);
        o->least_value = xrealloc(o->least_value, o->room * sizeof *o->least_value);
    }
    memmove(o->leaves + at + 1, o->leaves + at, (o->n - at) * sizeof *o->leaves);
    memmove(o->least + at + 1, o->least + at, (o->n - at) * sizeof *o->least);
    memmove(o->least_value + at + 1, o->least_value + at, (o->n - at) * sizeof *o->least_value);
    o->leaves[at] = leaf;
    o->least[at] = leaf->key[0];
    o->least_value[at] = leaf->value[0];
    o->n++;
}

static struct ordered_leaf *new_leaf(void)
{
    struct ordered_leaf *leaf = xrealloc(NULL, sizeof *leaf);
    leaf->n = 0;
    leaf->key[0] = (struct ordered_key){0, 0};
    leaf->value[0] = 0;
    return leaf;
}

/* The upper half of a full leaf becomes the next one. */
static void split(struct ordered *o, size_t at)
{
    struct ordered_leaf *low = o->leaves[at], *high = new_leaf();
    uint32_t half = ORDERED_LEAF / 2;
    high->n = low->n - half;
    memcpy(high->key, low->key + half, high->n * sizeof *high->key);
    memcpy(high->value, low->value + half, high->n * sizeof *high->value);
    low->n = half;
    add_leaf(o, at + 1, high);
}

void ordered_insert(struct ordered *o, struct ordered_key key, uint32_t value)
{
    if (o->n == 0)
        add_leaf(o, 0, new_leaf());
    size_t at = leaf_for(o, key, value);
    if (o->leaves[at]->n == ORDERED_LEAF) {
        split(o, at);
        at += !before(key, value, o->least[at + 1], o->least_value[at + 1]);
    }
    struct ordered_leaf *leaf = o->leaves[at];
    uint32_t i = place_in(leaf, key, value);
    memmove(leaf->key + i + 1, leaf->key + i, (leaf->n - i) * sizeof *leaf->key);
    memmove(leaf->value + i + 1, leaf->value + i, (leaf->n - i) * sizeof *leaf->value);
    leaf->key[i] = key;
    leaf->value[i] = value;
    leaf->n++;
    o->least[at] = leaf->key[0];
    o->least_value[at] = leaf->value[0];
}

void ordered_remove(struct ordered *o, struct ordered_key key, uint32_t value)
{
    size_t at = leaf_for(o, key, value);
    struct ordered_leaf *leaf = at < o->n ? o->leaves[at] : NULL;
    uint32_t i = leaf ? place_in(leaf, key, value) : 0;
    if (!leaf || i == leaf->n || before(key, value, leaf->key[i], leaf->value[i]))
        return; /* it is not there */
    leaf->n--;
    memmove(leaf->key + i, leaf->key + i + 1, (leaf->n - i) * sizeof *leaf->key);
    memmove(leaf->value + i, leaf->value + i + 1, (leaf->n - i) * sizeof *leaf->value);
    if (leaf->n) {
        o->least[at] = leaf->key[0];
        o->least_value[at] = leaf->value[0];
        return;
    }
    free(leaf);
    o->n--;
    memmove(o->leaves + at, o->leaves + at + 1, (o->n - at) * sizeof *o->leaves);
    memmove(o->least + at, o->least + at + 1, (o->n - at) * sizeof *o->least);
    memmove(o->least_value + at, o->least_value + at + 1, (o->n - at) * sizeof *o->least_value);
}

struct ordered_place ordered_from(const struct ordered *o, struct ordered_key key)
{
    if (o->n == 0)
        return (struct ordered_place){0, 0};
    size_t leaf = leaf_for(o, key, 0);
    uint32_t at = place_in(o->leaves[leaf], key, 0);
    if (at == o->leaves[leaf]->n)
        return (struct ordered_place){leaf + 1, 0};
    return (struct ordered_place){leaf, at};
}

void ordered_free(struct ordered *o)
{
    for (size_t i = 0; i < o->n; i++)
        free(o->leaves[i]);
    free(o->leaves);
    free(o->least);
    free(o->least_value);
    free(o->hints);
    *o = (struct ordered){0};
}
