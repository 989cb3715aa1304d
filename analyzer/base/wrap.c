/* wrap.c - see wrap.h. */
#include "wrap.h"

#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "table.h"

static size_t word_width(const char *word, size_t bytes)
{
    char *copy = xformat("%.*s", (int)bytes, word);
    size_t width = text_width(copy);
    free(copy);
    return width;
}

static void print_words(FILE *out, int indent, int hang, const char *text)
{
    size_t column = (size_t)fprintf(out, "%*s", indent, "");
    bool first = true;
    for (const char *word = text; *word;) {
        size_t bytes = strcspn(word, " "), width = word_width(word, bytes);
        if (!first && column + 1 + width > PAGE_WIDTH) {
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
    print_words(out, indent, hang, text);
    free(text);
}
