/* json.c - see json.h. */
#include "json.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "shown.h"

void json_open(struct json *j, FILE *out)
{
    *j = (struct json){.out = out};
    j->empty[0] = true;
}

void json_close(struct json *j)
{
    while (j->depth)
        json_end(j);
    fputc('\n', j->out);
}

/* By UTF-16 units, of which the characters beyond the first 65536 take two. */
static void put_escape(FILE *out, int32_t code)
{
    if (code > 0xffff)
        fprintf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                (unsigned)(0xdc00 + ((code - 0x10000) & 0x3ff)));
    else
        fprintf(out, "\\u%04x", (unsigned)code);
}

static void put_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int32_t code;
        int n = shown_next(s, &code);
        if (code < 0)
            put_escape(out, 0xfffd);
        else if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (shown_acts(code))
            put_escape(out, code);
        else
            fwrite(s, 1, (size_t)n, out);
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

void json_document(struct json *j, FILE *out)
{
    json_open(j, out);
    json_begin(j, NULL, '{');
    json_int(j, "json_version", JSON_VERSION);
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
