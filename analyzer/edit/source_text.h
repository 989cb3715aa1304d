/*
 * source_text.h - lines, statements and functions in a text of Python (source_text.c).
 *
 *      def train(net):                       the function of both lines below, by its indent
 *          loss = F.cross_entropy(           a statement, up to where its parentheses are closed
 *              net(x).float(), y)
 *
 * Python's grammar is not read: strings and comments count as code where they look like it.
 */
#ifndef VS_EDIT_SOURCE_TEXT_H
#define VS_EDIT_SOURCE_TEXT_H

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_part {
    const char *from, *to;
};

static inline bool text_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Line number LINE of TEXT, from 1; NULL: there are fewer. */
const char *text_line(const char *text, int64_t line);
size_t text_indent(const char *line);
bool text_is_blank(const char *line);
/* The lines from LINE on until its parentheses are closed and no backslash continues it.  Other statements in
 * the last of them belong to it. */
struct text_part text_statement(const char *line);
/* Whether P has WORD, not as a part of a longer name. */
bool text_has_word(struct text_part p, const char *word);
bool text_has(struct text_part p, const char *text);
/* The line of "def NAME(" whose body has LINE; NULL: LINE is in no function, or in another one. */
const char *text_function(const char *text, const char *line, const char *name);

#endif
