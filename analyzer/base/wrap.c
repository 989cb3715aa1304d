/* wrap.c - see wrap.h. */
#include "wrap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base.h"
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
    print_words(out, indent, hang, PAGE_WIDTH, text);
    free(text);
}

/* ---- a terminal ---- */

static struct {
    FILE *terminal; /* NULL: nothing is wrapped */
    size_t width;
    char *line; /* the line that is not complete yet */
    size_t length;
} page;

static bool has_columns(const char *line)
{
    return strstr(line + strspn(line, " "), "  ") != NULL;
}

static void print_line(const char *line)
{
    size_t indent = strspn(line, " ");
    if (text_width(line) <= page.width || has_columns(line))
        fprintf(page.terminal, "%s\n", line);
    else
        print_words(page.terminal, (int)indent, (int)indent + 2, page.width, line + indent);
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
    return ferror(page.terminal) ? -1 : (ssize_t)size;
}

void wrap_terminal_begin(void)
{
    struct winsize size = {0};
    cookie_io_functions_t functions = {.write = take};
    if (page.terminal || !isatty(STDOUT_FILENO))
        return;
    FILE *wrapped = fopencookie(NULL, "w", functions);
    if (!wrapped)
        return;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= PAGE_WIDTH / 2;
    page.width = known ? size.ws_col : PAGE_WIDTH;
    page.terminal = stdout;
    stdout = wrapped;
}

void wrap_terminal_end(void)
{
    if (!page.terminal)
        return;
    FILE *wrapped = stdout;
    fclose(wrapped); /* flushes the rest */
    stdout = page.terminal;
    fwrite(page.line ? page.line : "", 1, page.length, stdout);
    free(page.line);
    page.line = NULL;
    page.length = 0;
    page.terminal = NULL;
}
