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
