/*
 * source_text.c - lines, statements and functions in a text of Python (source_text.h), from its line breaks,
 * indents and parentheses alone.
 */
#include "source_text.h"

#include <string.h>

#define LINES_MOST 40 /* of a statement */

const char *text_line(const char *text, int64_t line)
{
    for (int64_t i = 1; i < line && text; i++) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text;
}

size_t text_indent(const char *line)
{
    return strspn(line, " \t");
}

bool text_is_blank(const char *line)
{
    char first = line[text_indent(line)];
    return !first || first == '\n' || first == '\r' || first == '#';
}

/* How many parentheses are open at TO, or at a comment before it, if DEPTH are at FROM. */
static int depth_after(const char *from, const char *to, int depth)
{
    for (; from < to && *from != '#'; from++)
        depth += strchr("([{", *from) ? 1 : strchr(")]}", *from) ? -1 : 0;
    return depth;
}

struct text_part text_statement(const char *line)
{
    struct text_part p = {line, line};
    int depth = 0;
    for (int i = 0; i < LINES_MOST && *p.to; i++) {
        const char *end = strchrnul(p.to, '\n');
        bool goes_on = end > p.to && end[-1] == '\\' && !memchr(p.to, '#', (size_t)(end - p.to));
        depth = depth_after(p.to, end, depth);
        p.to = *end ? end + 1 : end;
        if (depth <= 0 && !goes_on)
            break;
    }
    return p;
}

bool text_has_word(struct text_part p, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = p.from; (at = memmem(at, (size_t)(p.to - at), word, n)); at++)
        if ((at == p.from || !text_is_word(at[-1]) || !text_is_word(*word)) && !text_is_word(at[n]))
            return true;
    return false;
}

bool text_has(struct text_part p, const char *text)
{
    return memmem(p.from, (size_t)(p.to - p.from), text, strlen(text)) != NULL;
}

const char *text_function(const char *text, const char *line, const char *name)
{
    const char *def = NULL;
    for (const char *at = text; at && at < line; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        size_t indent = text_indent(at);
        if (text_is_blank(at))
            continue;
        if (def && indent <= text_indent(def) && !strchr(")]}", at[indent]))
            def = NULL;
        if (!strncmp(at + indent, "def ", 4))
            def = at;
    }
    const char *found = def ? def + text_indent(def) + 4 : "";
    size_t n = strlen(name);
    return !strncmp(found, name, n) && found[n] == '(' && text_indent(line) > text_indent(def) ? def : NULL;
}
