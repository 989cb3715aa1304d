/* addresses.c - see addresses.h. */
#include "addresses.h"

#include <errno.h>
#include <stdlib.h>

static size_t home(const struct vs_table *t, uint64_t key)
{
    /* addresses differ in their middle bits: multiply, then take the top half */
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    return (size_t)(h >> 32) & t->mask;
}

static size_t find(const struct vs_table *t, uint64_t key)
{
    size_t i = home(t, key);
    while (t->cells[i].value != VS_TABLE_NONE && t->cells[i].key != key)
        i = (i + 1) & t->mask;
    return i;
}

uint32_t vs_table_get(const struct vs_table *t, uint64_t key)
{
    return t->count ? t->cells[find(t, key)].value : VS_TABLE_NONE;
}

static int grow(struct vs_table *t)
{
    size_t size = t->cells ? (t->mask + 1) * 2 : 64;
    struct vs_table next = {.cells = malloc(size * sizeof *next.cells), .mask = size - 1, .count = t->count};
    if (!next.cells)
        return -ENOMEM;
    for (size_t i = 0; i < size; i++)
        next.cells[i].value = VS_TABLE_NONE;
    for (size_t i = 0; t->cells && i <= t->mask; i++)
        if (t->cells[i].value != VS_TABLE_NONE)
            next.cells[find(&next, t->cells[i].key)] = t->cells[i];
    free(t->cells);
    *t = next;
    return 0;
}

int vs_table_put(struct vs_table *t, uint64_t key, uint32_t value)
{
    if (!t->cells || t->count * 2 > t->mask) {
        int rc = grow(t);
        if (rc < 0)
            return rc;
    }
    size_t i = find(t, key);
    t->count += t->cells[i].value == VS_TABLE_NONE;
    t->cells[i] = (struct vs_cell){key, value};
    return 0;
}

/* Closes the gap at cell I: moves up those of the following cells that may stand there. */
static void close_gap(struct vs_table *t, size_t gap)
{
    for (size_t i = (gap + 1) & t->mask; t->cells[i].value != VS_TABLE_NONE; i = (i + 1) & t->mask) {
        size_t from_home = (i - home(t, t->cells[i].key)) & t->mask;
        if (from_home >= ((i - gap) & t->mask)) {
            t->cells[gap] = t->cells[i];
            gap = i;
        }
    }
    t->cells[gap].value = VS_TABLE_NONE;
}

uint32_t vs_table_remove(struct vs_table *t, uint64_t key)
{
    if (!t->count)
        return VS_TABLE_NONE;
    size_t i = find(t, key);
    uint32_t value = t->cells[i].value;
    if (value == VS_TABLE_NONE)
        return value;
    close_gap(t, i);
    t->count--;
    return value;
}

void vs_table_free(struct vs_table *t)
{
    free(t->cells);
    *t = (struct vs_table){0};
}
