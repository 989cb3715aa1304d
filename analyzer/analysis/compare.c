/* compare.c - see compare.h. */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

static struct compared *find(const struct comparison *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->rows[i].name, name))
            return &c->rows[i];
    return NULL;
}

void compare_add(struct comparison *c, enum compare_side side, const char *name, int64_t value)
{
    struct compared *row = find(c, name);
    if (!row) {
        row = PUSH(c->rows, c->count);
        *row = (struct compared){xstrdup(name), {UNKNOWN, UNKNOWN}};
    }
    bool first = row->value[side] == UNKNOWN || value == UNKNOWN;
    /* unsigned, because the numbers of a damaged file may overflow */
    row->value[side] = first ? value : (int64_t)((uint64_t)row->value[side] + (uint64_t)value);
}

int64_t compare_find(const struct comparison *c, enum compare_side side, const char *name)
{
    const struct compared *row = find(c, name);
    return row ? row->value[side] : UNKNOWN;
}

static int64_t amount(int64_t value)
{
    return value == UNKNOWN ? 0 : value;
}

int64_t compare_distance(int64_t a, int64_t b)
{
    uint64_t distance = a < b ? (uint64_t)b - (uint64_t)a : (uint64_t)a - (uint64_t)b;
    return distance > INT64_MAX ? INT64_MAX : (int64_t)distance;
}

static int64_t distance(const struct compared *row)
{
    int64_t a = amount(row->value[SIDE_A]), b = amount(row->value[SIDE_B]);
    return compare_distance(a, b);
}

static int by_change(const void *a, const void *b)
{
    const struct compared *x = a, *y = b;
    int64_t first[] = {distance(x), amount(x->value[SIDE_A])},
            second[] = {distance(y), amount(y->value[SIDE_A])};
    for (int i = 0; i < 2; i++)
        if (first[i] != second[i])
            return first[i] > second[i] ? -1 : 1;
    return strcmp(x->name, y->name);
}

void compare_sort(struct comparison *c)
{
    if (c->count)
        qsort(c->rows, c->count, sizeof *c->rows, by_change);
}

void compare_free(struct comparison *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->rows[i].name);
    free(c->rows);
    *c = (struct comparison){0};
}

int64_t compare_change(int64_t a, int64_t b)
{
    return a == UNKNOWN || b == UNKNOWN ? UNKNOWN : (int64_t)((uint64_t)b - (uint64_t)a);
}

static bool holds(const int64_t *devices, size_t n, int64_t device)
{
    for (size_t i = 0; i < n; i++)
        if (devices[i] == device)
            return true;
    return false;
}

struct compared_devices *compare_devices(const int64_t *a, size_t a_count, const int64_t *b, size_t b_count,
                                         size_t *count)
{
    struct compared_devices *pairs = NULL;
    *count = 0;
    if (a_count == 1 && b_count == 1) {
        *PUSH(pairs, *count) = (struct compared_devices){a[0], b[0]};
        return pairs;
    }
    for (size_t i = 0; i < a_count; i++)
        *PUSH(pairs, *count) = (struct compared_devices){a[i], holds(b, b_count, a[i]) ? a[i] : UNKNOWN};
    for (size_t i = 0; i < b_count; i++)
        if (!holds(a, a_count, b[i]))
            *PUSH(pairs, *count) = (struct compared_devices){UNKNOWN, b[i]};
    return pairs;
}
