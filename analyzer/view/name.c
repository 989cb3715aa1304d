/*
 * name.c - what a page is called that was given no name, and whether one of that name was made of something
 * else.  A page says in its head what it was made of, so who records again in the same place gets the new
 * page in the place of the old one.
 */
#include "view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LONGEST 100  /* bytes of a name without .html */
#define HEAD    4096 /* bytes of a page that its number is among */

static char *place_of(const char *path)
{
    char *place = realpath(path, NULL); /* of "." and "..", too, the name is wanted */
    return place ? place : xstrdup(path);
}

static char *stem_of(const char *operand)
{
    struct stat st;
    bool folder = !stat(operand, &st) && S_ISDIR(st.st_mode);
    char *place = folder ? place_of(operand) : xstrdup(operand);
    const char *slash = strrchr(place, '/'), *name = slash ? slash + 1 : place, *dot = strrchr(name, '.');
    size_t n = dot && dot > name && !folder ? (size_t)(dot - name) : strlen(name);
    char *stem = n ? xformat("%.*s", (int)n, name) : xstrdup("page");
    free(place);
    return stem;
}

char *view_name(char *const *operands, size_t n)
{
    char *first = stem_of(operands[0]), *all = xstrdup(first);
    for (size_t i = 1; i < n && strlen(all) <= LONGEST; i++) {
        char *stem = stem_of(operands[i]), *longer = xformat("%s+%s", all, stem);
        free(stem);
        free(all);
        all = longer;
    }
    char *name =
        n > 1 && strlen(all) > LONGEST ? xformat("%s+%zu.html", first, n - 1) : xformat("%s.html", all);
    free(first);
    free(all);
    return name;
}

static uint64_t number_of(const char *text)
{
    uint64_t h = 1469598103934665603u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h ^ h >> 29;
}

char *view_made_of(char *const *files, size_t n)
{
    uint64_t sum = n;
    for (size_t i = 0; i < n; i++) {
        char *place = place_of(files[i]);
        sum += number_of(place);
        free(place);
    }
    return xformat("%016llx", (unsigned long long)sum);
}

bool view_is_other(const char *path, const char *made_of)
{
    char head[HEAD + 1];
    struct stat st;
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) /* a pipe or a device loses nothing */
        return false;
    FILE *in = fopen(path, "r");
    if (!in)
        return errno != ENOENT;
    size_t n = fread(head, 1, HEAD, in);
    head[n] = '\0';
    fclose(in);
    char *own = xformat(VIEW_MADE_OF, made_of);
    bool other = !strstr(head, own);
    free(own);
    return other;
}
