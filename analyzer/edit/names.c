/* names.c - see names.h. */
#include "names.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define SLOTS (1u << 17) /* a power of two, twice as many as there are texts at the most */

/* FNV-1a. */
static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

uint16_t names_number(struct names *names, const char *text, size_t length)
{
    if (!names->slots) {
        names->slots = xrealloc(NULL, SLOTS * sizeof *names->slots);
        memset(names->slots, 0, SLOTS * sizeof *names->slots);
    }
    size_t at = hash_of(text, length) % SLOTS;
    for (; names->slots[at]; at = (at + 1) % SLOTS) {
        size_t i = names->slots[at] - 1u;
        if (names->length[i] == length && !memcmp(names->text[i], text, length))
            return (uint16_t)i;
    }
    if (names->n >= NAMES_MOST)
        return NAMES_MOST;
    names->text = grow(names->text, names->n, sizeof *names->text);
    names->length = grow(names->length, names->n, sizeof *names->length);
    names->text[names->n] = text;
    names->length[names->n++] = length;
    names->slots[at] = (uint16_t)names->n;
    return (uint16_t)(names->n - 1);
}

void names_free(struct names *names)
{
    free(names->text);
    free(names->length);
    free(names->slots);
    *names = (struct names){0};
}
