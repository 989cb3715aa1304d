/* json.c - see json.h. */
#include "json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void json_open(struct json *j, FILE *out)
{
    *j = (struct json){.out = out};
    j->empty[0] = true;
}

void json_close(struct json *j)
{
    assert(j->depth == 0);
    fputc('\n', j->out);
}

/* Length of the valid UTF-8 sequence at S (NUL-terminated), 0 where there is none. */
static int utf8_length(const unsigned char *s)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (int n = 1; n <= 4; n++) {
        if ((s[0] & forms[n - 1].mask) != forms[n - 1].lead)
            continue;
        uint32_t code = n == 1 ? s[0] : s[0] & (unsigned char)~forms[n - 1].mask;
        for (int i = 1; i < n; i++) {
            if ((s[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (s[i] & 0x3f);
        }
        bool good = code >= forms[n - 1].least && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
        return good ? n : 0;
    }
    return 0;
}

static void put_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        if (n == 0) {
            fputs("\\ufffd", out);
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            fprintf(out, "\\%c", *s);
        } else if (*s < 0x20 || *s == 0x7f) {
            fprintf(out, "\\u%04x", *s);
        } else {
            fwrite(s, 1, (size_t)n, out);
        }
        s += n;
    }
    fputc('"', out);
}

static void put_name(struct json *j, const char *name)
{
    if (!j->empty[j->depth])
        fputc(',', j->out);
    j->empty[j->depth] = false;
    if (j->depth) {
        fputc('\n', j->out);
        for (int i = 0; i < j->depth; i++)
            fputs("  ", j->out);
    }
    if (name) {
        put_quoted(j->out, name);
        fputs(": ", j->out);
    }
}

void json_begin(struct json *j, const char *name, char bracket)
{
    put_name(j, name);
    assert(j->depth < (int)sizeof j->kinds);
    fputc(bracket, j->out);
    j->kinds[j->depth++] = bracket == '{' ? '}' : ']';
    j->empty[j->depth] = true;
}

void json_end(struct json *j)
{
    assert(j->depth > 0);
    bool empty = j->empty[j->depth--];
    if (!empty) {
        fputc('\n', j->out);
        for (int i = 0; i < j->depth; i++)
            fputs("  ", j->out);
    }
    fputc(j->kinds[j->depth], j->out);
}

void json_text(struct json *j, const char *name, const char *text)
{
    put_name(j, name);
    if (text)
        put_quoted(j->out, text);
    else
        fputs("null", j->out);
}

void json_int(struct json *j, const char *name, int64_t value)
{
    put_name(j, name);
    if (value == UNKNOWN)
        fputs("null", j->out);
    else
        fprintf(j->out, "%lld", (long long)value);
}

void json_ratio(struct json *j, const char *name, double value)
{
    put_name(j, name);
    if (isfinite(value))
        fprintf(j->out, "%.6g", value);
    else
        fputs("null", j->out);
}

void json_bool(struct json *j, const char *name, bool value)
{
    put_name(j, name);
    fputs(value ? "true" : "false", j->out);
}
