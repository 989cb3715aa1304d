/*
 * glyphs.c - see glyphs.h.
 *
 * gnuplot's cairo terminals look for a character in all fonts that fontconfig knows, also in one with Chinese
 * characters.  Where no font has it they draw a box with the code's digits, which is wider than anything that
 * the layout made room for.  So fontconfig's fc-list is asked, once, and only where a name has a character
 * beyond those that every font has.
 */
#include "glyphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "read/guard.h"
#include "base/shown.h"

struct range {
    int32_t first, last;
};

/* DejaVu Sans, which the pictures ask for, has these; of others nobody knows where fc-list is missing. */
static const struct range usual[] = {{0x20, 0x7e}, {0xa0, 0x17f}};
static const struct range likely[] = {{0x180, 0x556}, {0x2010, 0x2027}, {0x2030, 0x205e}, {0x2190, 0x22ff}};

static bool is_in(const struct range *ranges, size_t n, int32_t code)
{
    for (size_t i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* "20-7e a0-17f 18f" of each font, a line a font. */
static size_t read_charsets(FILE *in, struct range **ranges)
{
    size_t n = 0;
    unsigned first, last;
    while (fscanf(in, "%x", &first) == 1) {
        int c = fgetc(in);
        last = first;
        if (c == '-' && fscanf(in, "%x", &last) != 1)
            break;
        if (first <= last && last <= 0x10ffff)
            *PUSH(*ranges, n) = (struct range){(int32_t)first, (int32_t)last};
    }
    return n;
}

static size_t ask_fontconfig(struct range **ranges)
{
    int ends[2], status;
    size_t n = 0;
    if (pipe(ends))
        return 0;
    pid_t pid = fork();
    if (pid == 0) {
        guard_memory_end();
        unsetenv("LD_PRELOAD");
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (!freopen("/dev/null", "w", stderr))
            _exit(127);
        execlp("fc-list", "fc-list", "--format", "%{charset}\n", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    if (pid > 0 && in)
        n = read_charsets(in, ranges);
    if (in)
        fclose(in);
    else
        close(ends[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    return n;
}

static bool has_glyph(int32_t code)
{
    static struct range *ranges;
    static size_t n;
    static bool asked;
    if (is_in(usual, sizeof usual / sizeof *usual, code))
        return true;
    if (!asked)
        n = ask_fontconfig(&ranges);
    asked = true;
    return n ? is_in(ranges, n, code) : is_in(likely, sizeof likely / sizeof *likely, code);
}

const char *glyphs_shown(const char *text, bool any)
{
    static char **kept; /* few names need it, and the same ones again and again */
    static size_t kept_count;
    char *out = NULL;
    size_t size;
    FILE *memory = any || !text ? NULL : open_memstream(&out, &size);
    if (!memory)
        return text;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int32_t code;
        int length = shown_next(s, &code);
        if (code < 0 || has_glyph(code))
            fwrite(s, 1, (size_t)length, memory);
        else
            fprintf(memory, code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
        s += length;
    }
    fclose(memory);
    for (size_t i = 0; i < kept_count; i++)
        if (!strcmp(kept[i], out)) {
            free(out);
            return kept[i];
        }
    return *PUSH(kept, kept_count) = out;
}
