/* shown.c - see shown.h. */
#include "shown.h"

#include <stdio.h>
#include <string.h>

int shown_next(const unsigned char *s, int32_t *code)
{
    static const struct {
        unsigned char mask, lead;
        int32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    *code = -1;
    for (int n = 1; n <= 4; n++) {
        if ((s[0] & forms[n - 1].mask) != forms[n - 1].lead)
            continue;
        int32_t value = s[0] & (unsigned char)~forms[n - 1].mask;
        for (int i = 1; i < n; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 1;
            value = value << 6 | (s[i] & 0x3f);
        }
        if (value < forms[n - 1].least || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
            return 1;
        *code = value;
        return n;
    }
    return 1;
}

bool shown_acts(int32_t code)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {
        {0x00, 0x1f},       {0x7f, 0x9f}, /* control characters */
        {0xad, 0xad},       {0x61c, 0x61c},
        {0x180e, 0x180e},                     /* soft hyphen, Arabic mark, vowel separator */
        {0x200b, 0x200b},   {0x200e, 0x200f}, /* without a width, direction marks */
        {0x2028, 0x202e},                     /* separators of lines, bidirectional controls */
        {0x2060, 0x206f},   {0xfeff, 0xfeff},
        {0xfff9, 0xfffb},   /* invisible operators, byte order, annotations */
        {0xe0000, 0xe0fff}, /* tags */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* The escape of the character at S, which is a control character or (CODE -1) not UTF-8. */
static void put_escape(FILE *out, unsigned char byte, int32_t code)
{
    static const char names[] = "abtnvfr"; /* 7 to 13 */
    if (code >= 7 && code <= 13)
        fprintf(out, "\\%c", names[code - 7]);
    else if (code < 0x80) /* -1, too */
        fprintf(out, "\\x%02x", byte);
    else
        fprintf(out, code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
}

static bool is_plain(const char *text)
{
    int32_t code;
    for (const unsigned char *s = (const unsigned char *)text; *s; s += shown_next(s, &code))
        if (shown_next(s, &code), code < 0 || shown_acts(code))
            return false;
    return true;
}

static char *escape(const char *text)
{
    char *copy = NULL;
    size_t size;
    int32_t code;
    FILE *out = open_memstream(&copy, &size);
    for (const unsigned char *s = (const unsigned char *)text; out && *s;) {
        int n = shown_next(s, &code);
        if (code < 0 || shown_acts(code))
            put_escape(out, *s, code);
        else
            fwrite(s, 1, (size_t)n, out);
        s += n;
    }
    if (out)
        fclose(out);
    return copy ? copy : xstrdup("?");
}

struct kept { /* pairs of a text and what MAKE made of it; few need one, and the same ones again and again */
    char **at;
    size_t n;
};

static const char *keep(struct kept *k, const char *text, char *(*make)(const char *))
{
    for (size_t i = 0; i < k->n; i += 2)
        if (!strcmp(k->at[i], text))
            return k->at[i + 1];
    *PUSH(k->at, k->n) = xstrdup(text);
    *PUSH(k->at, k->n) = make(text);
    return k->at[k->n - 1];
}

const char *shown(const char *text)
{
    static struct kept kept;
    return !text || is_plain(text) ? text : keep(&kept, text, escape);
}

/* Whether a shell takes TEXT as one word, and as it is. */
static bool is_word(const char *text)
{
    static const char harmless[] = "_./,:=@%+-#"
                                   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const char *s = text;
    while (*s && ((unsigned char)*s >= 0x80 || strchr(harmless, *s)))
        s++;
    return !*s && *text && *text != '#';
}

static char *quote(const char *text)
{
    char *copy = NULL;
    size_t size;
    FILE *out = xmemstream(&copy, &size);
    fputc('\'', out);
    for (const char *s = text; *s; s++)
        fputs(*s == '\'' ? "'\\''" : (char[]){*s, 0}, out);
    fputc('\'', out);
    fclose(out);
    return copy;
}

const char *shown_word(const char *text)
{
    static struct kept kept;
    return is_word(text) ? shown(text) : keep(&kept, shown(text), quote);
}

char *shown_cut(const char *text, size_t most)
{
    int32_t code;
    const char *whole = shown(text);
    size_t at = 0, kept = 0, n = 0;
    while (whole[at]) {
        kept = n++ < most - 3 ? at + (size_t)shown_next((const unsigned char *)whole + at, &code) : kept;
        at += (size_t)shown_next((const unsigned char *)whole + at, &code);
    }
    return n > most ? xformat("%.*s...", (int)kept, whole) : xstrdup(whole);
}
