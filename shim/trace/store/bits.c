/*
 * bits.c - sets of ids: which rows of the journal's tables are in the database already.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

bool vs_bits_has(const struct vs_bits *b, uint64_t id)
{
    return id / 64 < b->n && b->words[id / 64] >> (id % 64) & 1;
}

void vs_bits_add(struct vs_bits *b, uint64_t id)
{
    if (id / 64 >= b->n) {
        size_t n = (id / 64 + 1) * 2;
        uint64_t *words = realloc(b->words, n * sizeof *words);
        if (!words)
            return; /* without memory it is written again next time, which is only slower */
        memset(words + b->n, 0, (n - b->n) * sizeof *words);
        b->words = words;
        b->n = n;
    }
    b->words[id / 64] |= 1ull << (id % 64);
}

void vs_bits_clear(struct vs_bits *b)
{
    if (b->words)
        memset(b->words, 0, b->n * sizeof *b->words);
}
