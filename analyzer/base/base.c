/* base.c - see base.h. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shown.h"

int complain(const char *format, ...)
{
    va_list list;
    char *text = NULL;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    fprintf(stderr, "vramscope: %s\n", text ? shown(text) : "out of memory"); /* with names of files in it */
    free(text);
    return 2;
}

static void *enough(void *p)
{
    if (p)
        return p;
    complain("out of memory");
    exit(2);
}

void *xrealloc(void *p, size_t size)
{
    return enough(realloc(p, size ? size : 1));
}

FILE *xmemstream(char **text, size_t *size)
{
    return enough(open_memstream(text, size));
}

char *xstrdup(const char *text)
{
    return text ? enough(strdup(text)) : NULL;
}

void xappend(char **text, const char *format, ...)
{
    va_list list;
    char *more = NULL;
    va_start(list, format);
    if (vasprintf(&more, format, list) < 0)
        more = NULL;
    va_end(list);
    size_t n = strlen(*text);
    *text = xrealloc(*text, n + strlen(enough(more)) + 1);
    strcpy(*text + n, more);
    free(more);
}

char *xformat(const char *format, ...)
{
    va_list list;
    char *text = NULL;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    return enough(text);
}

void *grow(void *items, size_t n, size_t size)
{
    if (n && (n & (n - 1)))
        return items;
    return xrealloc(items, (n ? 2 * n : 1) * size);
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void *find_number(int64_t number, const void *items, size_t n, size_t size)
{
    return n ? bsearch(&number, items, n, size, by_number) : NULL;
}

size_t first_from(int64_t least, const void *items, size_t n, size_t size, size_t offset)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t number;
        memcpy(&number, (const char *)items + middle * size + offset, sizeof number);
        if (number < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- texts ---- */

static size_t hash_of(const char *text, size_t length)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 32);
}

static uint32_t *text_slot(const struct texts *x, const char *text, size_t length)
{
    size_t i = hash_of(text, length) & (x->room - 1);
    for (; x->slots[i]; i = (i + 1) & (x->room - 1)) {
        const char *there = x->at[x->slots[i] - 1];
        if (!strncmp(there, text, length) && !there[length])
            break;
    }
    return &x->slots[i];
}

static void texts_grow(struct texts *x)
{
    x->room = x->room ? 2 * x->room : 64;
    x->slots = xrealloc(x->slots, x->room * sizeof *x->slots);
    memset(x->slots, 0, x->room * sizeof *x->slots);
    for (size_t i = 0; i < x->n; i++)
        *text_slot(x, x->at[i], strlen(x->at[i])) = (uint32_t)i + 1;
}

uint32_t texts_index_part(struct texts *x, const char *text, size_t length, bool *is_new)
{
    if (2 * (x->n + 1) > x->room)
        texts_grow(x);
    uint32_t *slot = text_slot(x, text, length);
    bool added = *slot == 0;
    if (added) {
        *PUSH(x->at, x->n) = xformat("%.*s", (int)length, text);
        *slot = (uint32_t)x->n;
    }
    if (is_new)
        *is_new = added;
    return *slot - 1;
}

uint32_t texts_index(struct texts *x, const char *text, bool *is_new)
{
    return texts_index_part(x, text, strlen(text), is_new);
}

void texts_free(struct texts *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->at[i]);
    free(x->at);
    free(x->slots);
    *x = (struct texts){0};
}
