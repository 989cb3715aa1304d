/* sizes.c - see sizes.h. */
#include "sizes.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void sizes_sort(struct sizes *s)
{
    if (s->n)
        qsort(s->at, s->n, sizeof *s->at, by_size);
}

size_t sizes_from(const struct sizes *s, uint64_t size)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->at[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sizes_have(const struct sizes *s, uint64_t size)
{
    size_t at = sizes_from(s, size);
    return at < s->n && s->at[at] == size;
}
