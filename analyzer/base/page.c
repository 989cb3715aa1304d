/* page.c - see page.h. */
#include "page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shown.h"

#define LEAST 20
#define MOST  10000

size_t page_width(void)
{
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    long n = columns ? strtol(columns, NULL, 10) : 0;
    if (n <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        n = size.ws_col;
    if (n <= 0)
        return PAGE_COLUMNS;
    return n < LEAST ? LEAST : n > MOST ? MOST : (size_t)n;
}

size_t page_room(void)
{
    const char *columns = getenv("COLUMNS");
    bool said = columns && strtol(columns, NULL, 10) > 0;
    return said || isatty(STDOUT_FILENO) ? page_width() : PAGE_ENDLESS;
}

static bool is_dumb(const char *terminal)
{
    return terminal && !strcmp(terminal, "dumb");
}

bool page_color(void)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color) && terminal && *terminal && !is_dumb(terminal);
}

bool page_ascii(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    if (isatty(STDOUT_FILENO) && is_dumb(getenv("TERM")))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *locale = getenv(names[i]);
        if (locale && *locale)
            return !strcasestr(locale, "utf-8") && !strcasestr(locale, "utf8");
    }
    return false;
}

static const char *ascii_of(int32_t code)
{
    static const struct {
        int32_t code;
        const char *text;
    } known[] = {{0x2500, "-"},  {0x2502, "|"},   {0x2514, "+"}, {0x2524, "|"},  {0x251c, "+"},
                 {0x25bc, "v"},  {0x25b2, "^"},   {0x25b8, ">"}, {0x2264, "<="}, {0x2265, ">="},
                 {0xd7, "x"},    {0x2026, "..."}, {0x2581, "."}, {0x2582, "."},  {0x2583, ":"},
                 {0x2584, ":"},  {0x2585, "|"},   {0x2586, "|"}, {0x2587, "#"},  {0x2588, "#"},
                 {0x2591, "-"},  {0x2592, "="},   {0x2593, "%"}, {0xb5, "u"},    {0x2013, "-"},
                 {0x2014, "-"},  {0x2018, "'"},   {0x2019, "'"}, {0x201c, "\""}, {0x201d, "\""},
                 {0x2192, "->"}, {0x2190, "<-"},  {0xb1, "+-"},  {0xb7, "."},    {0x2248, "~"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            return known[i].text;
    return NULL;
}

char *page_in_ascii(const char *text)
{
    char *out = NULL;
    size_t size;
    FILE *memory = open_memstream(&out, &size);
    if (!memory)
        return xstrdup(text);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int32_t code;
        int length = shown_next(s, &code);
        const char *other = code > 0x7f ? ascii_of(code) : NULL;
        if (code >= 0 && code <= 0x7f)
            fputc(*s, memory);
        else if (other)
            fputs(other, memory);
        else if (code < 0)
            fprintf(memory, "\\x%02x", *s);
        else
            fprintf(memory, code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
        s += length;
    }
    fclose(memory);
    return out;
}
