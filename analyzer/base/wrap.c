/* wrap.c - see page.h. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "page.h"
#include "table.h"

static size_t word_width(const char *word, size_t bytes)
{
    char *copy = xformat("%.*s", (int)bytes, word);
    size_t width = text_width(copy);
    free(copy);
    return width;
}

static void print_words(FILE *out, int indent, int hang, size_t width_of_page, const char *text)
{
    size_t column = (size_t)fprintf(out, "%*s", indent, "");
    bool first = true;
    for (const char *word = text; *word;) {
        size_t bytes = strcspn(word, " "), width = word_width(word, bytes);
        if (!first && column + 1 + width > width_of_page) {
            column = (size_t)fprintf(out, "\n%*s", hang, "") - 1;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)bytes, word);
        column += width + !first;
        first = false;
        word += bytes;
        word += *word == ' ';
    }
    fputc('\n', out);
}

void wrap_print(FILE *out, int indent, int hang, const char *format, ...)
{
    va_list list;
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    if (!memory)
        return;
    va_start(list, format);
    vfprintf(memory, format, list);
    va_end(list);
    fclose(memory);
    print_words(out, indent, hang, page_width(), text);
    free(text);
}

/* ---- standard output ---- */

static struct {
    FILE *output; /* the real one; NULL: nothing is changed */
    size_t width;
    bool color, ascii, rows; /* rows: what comes is not broken */
    char *line;              /* the line that is not complete yet */
    size_t length;
} page;

static bool begins(const char *line, const char *const *words)
{
    line += strspn(line, " ");
    for (; *words; words++)
        if (!strncmp(line, *words, strlen(*words)))
            return true;
    return false;
}

/* The sequence that a line begins with: red what went wrong, bold what the eye looks for; NULL: neither. */
static const char *look_of(const char *line)
{
    static const char *const wrong[] = {"LOST:", "GAP:", "NO ROOM:", "OUT OF MEMORY", "out of memory", NULL};
    static const char *const head[] = {"device ", "peak: ", "== ", NULL};
    if (strchr(line, '\033'))
        return NULL;
    if (begins(line, wrong))
        return "\033[31m";
    return begins(line, head) || strstr(line, "▸ ") ? "\033[1m" : NULL;
}

/* Where LINE goes on: below its last column, where that begins in the first half of the page; else a little
 * to the right of its begin. */
static size_t hang_of(const char *line, size_t width)
{
    size_t indent = strspn(line, " "), hang = indent + 2;
    for (const char *at = line + indent; (at = strstr(at, "  "));) {
        at += strspn(at, " ");
        if ((size_t)(at - line) <= width / 2)
            hang = (size_t)(at - line);
    }
    return hang;
}

static void print_line(const char *whole)
{
    const char *look = page.color ? look_of(whole) : NULL;
    char *line = page.ascii ? page_in_ascii(whole) : xstrdup(whole);
    size_t indent = strspn(line, " ");
    bool fits = page.rows || text_width(line) <= page.width;
    fputs(look ? look : "", page.output);
    if (fits)
        fputs(line, page.output);
    else
        print_words(page.output, (int)indent, (int)hang_of(line, page.width), page.width, line + indent);
    fputs(look ? "\033[0m" : "", page.output);
    if (fits)
        fputc('\n', page.output);
    free(line);
}

static ssize_t take(void *cookie, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        *PUSH(page.line, page.length) = text[i] == '\n' ? 0 : text[i];
        if (text[i] != '\n')
            continue;
        print_line(page.line);
        page.length = 0;
    }
    return ferror(page.output) ? -1 : (ssize_t)size;
}

void wrap_rows(bool whole)
{
    if (!page.output)
        return;
    fflush(stdout); /* what was printed before is as it was to be */
    page.rows = whole;
}

void wrap_page_begin(bool whole)
{
    cookie_io_functions_t functions = {.write = take};
    page.color = page_color();
    page.ascii = page_ascii();
    if (page.output)
        return;
    FILE *wrapped = fopencookie(NULL, "w", functions);
    if (!wrapped)
        return;
    page.width = whole && !isatty(STDOUT_FILENO) ? SIZE_MAX : page_width();
    page.output = stdout;
    stdout = wrapped;
}

void wrap_page_end(void)
{
    if (!page.output)
        return;
    FILE *wrapped = stdout;
    fclose(wrapped); /* flushes the rest */
    stdout = page.output;
    fwrite(page.line ? page.line : "", 1, page.length, stdout);
    free(page.line);
    page.line = NULL;
    page.length = 0;
    page.output = NULL;
}
