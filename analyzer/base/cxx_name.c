/*
 * cxx_name.c - see shown.h.  One pass: brackets are skipped with their contents, so blanks are only met
 * behind a return type, which is then dropped, before a qualifier, and inside the name of an operator.
 */
#include "shown.h"

#include <ctype.h>
#include <string.h>

#include "base.h"

struct cut {
    const char *at; /* the rest of the name */
    char *out;
    size_t n;
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 128;
}

static void put(struct cut *c, const char *text)
{
    size_t n = strlen(text);
    memcpy(c->out + c->n, text, n);
    c->n += n;
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends_in(const struct cut *c, const char *with)
{
    size_t n = strlen(with);
    return c->n >= n && memcmp(c->out + c->n - n, with, n) == 0;
}

/* The symbols of operators, the longest first. */
static const char *const signs[] = {
    "()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&",
    "||", "++", "--",  "+=",  "-=",  "*=",  "/=", "%=", "^=", "&=", "|=", "<",  ">",  "=",
    "!",  "~",  "+",   "-",   "*",   "/",   "%",  "^",  "&",  "|",  ",",  NULL};

/* The length of the operator's symbol at TEXT; 0: there is none. */
static size_t operator_length(const char *text)
{
    size_t word = strlen("operator");
    if (!starts(text, "operator") || is_word(text[word]))
        return 0;
    for (const char *const *s = signs; *s; s++)
        if (starts(text + word, *s))
            return word + strlen(*s);
    return word;
}

/* The position behind the bracket that closes the one at TEXT, or the end of the text.  Arrows and
 * operators' symbols are not brackets. */
static const char *behind(const char *text)
{
    int depth = 0;
    for (const char *c = text; *c; c++) {
        size_t op = c > text && !is_word(c[-1]) ? operator_length(c) : 0;
        if (op) {
            c += op - 1;
        } else if (strchr("<([{", *c)) {
            depth++;
        } else if (strchr(">)]}", *c) && !(*c == '>' && c[-1] == '-')) {
            if (--depth == 0)
                return c + 1;
        }
    }
    return text + strlen(text);
}

/* Copies an operator's name: its symbol, or the words of new, delete or a conversion's type. */
static void take_operator(struct cut *c, size_t length)
{
    for (size_t i = 0; i < length; i++)
        c->out[c->n++] = c->at[i];
    c->at += length;
    if (c->at[-1] != 'r' || *c->at != ' ')
        return;
    while (*c->at && *c->at != '(') {
        if (*c->at == '<')
            c->at = behind(c->at);
        else
            c->out[c->n++] = *c->at++;
    }
}

/* A qualifier behind parameters, a clone's mark, or the blank between a return type and the name. */
static void take_blank(struct cut *c)
{
    static const char *const qualifiers[] = {"const", "volatile", "noexcept", "&&", "&", NULL};
    const char *next = c->at + 1;
    for (const char *const *q = qualifiers; *q; q++)
        if (starts(next, *q) && !is_word(next[strlen(*q)])) {
            c->at = next + strlen(*q);
            return;
        }
    if (*next && !strchr("[<", *next))
        c->n = 0;
    c->at = next;
}

/* Braces contain a lambda or another entity without a name. */
static void take_brace(struct cut *c)
{
    put(c, starts(c->at, "{lambda") ? "{lambda}" : "{unnamed}");
    c->at = behind(c->at);
    if (ends_in(c, "{lambda}::{lambda}"))
        c->n -= strlen("::{lambda}");
}

static void take(struct cut *c)
{
    static const char unnamed[] = "(anonymous namespace)";
    size_t op = c->n == 0 || !is_word(c->out[c->n - 1]) ? operator_length(c->at) : 0;
    if (op && ends_in(c, "{lambda}::") && starts(c->at, "operator()")) {
        c->n -= 2; /* the operator() of a lambda is the lambda itself */
        c->at += op;
    } else if (op) {
        take_operator(c, op);
    } else if (starts(c->at, unnamed)) {
        c->at += strlen(unnamed);
        c->at += starts(c->at, "::") ? 2 : 0;
    } else if (*c->at == '{') {
        take_brace(c);
    } else if (strchr("<([", *c->at)) {
        c->at = behind(c->at);
    } else if (*c->at == ' ') {
        take_blank(c);
    } else {
        c->out[c->n++] = *c->at++;
    }
}

/* "foo.constprop.0", "foo.cold": a compiler's copy of foo. */
static void drop_clones(struct cut *c)
{
    static const char *const marks[] = {".cold",  ".constprop.", ".isra.", ".lto_priv",
                                        ".part.", ".llvm.",      NULL};
    for (const char *const *m = marks; *m; m++) {
        char *at = strstr(c->out, *m);
        if (at && at > c->out)
            *at = 0;
    }
}

char *cxx_name(const char *name)
{
    /* only "{unnamed}" is longer than what it stands for, two characters or, at the end, one */
    struct cut c = {.at = name, .out = xrealloc(NULL, 5 * strlen(name) + 10)};
    while (*c.at)
        take(&c);
    c.out[c.n] = 0;
    drop_clones(&c);
    if (c.out[0] && !starts(c.out, "::"))
        return c.out;
    strcpy(c.out, name);
    return c.out;
}
