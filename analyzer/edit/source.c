/*
 * source.c - see source.h.
 *
 *      def forward(self, x, mask):                             the function, by its name and indent
 *          scores = torch.matmul(q, k) + mask                  a product: the scores are its own
 *          p = softmax(                                        the statement, from its line on until its
 *              scores, dim=-1, dtype=torch.float32             parentheses are closed
 *          ).to(q.dtype)
 *
 * Python's grammar is not read, so what could be otherwise is not known: a statement with a condition, a
 * function that names a wider type elsewhere, a string or a comment with such a word.
 */
#include "source.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "read/guard.h"

#define FILE_MOST  (INT64_C(8) << 20) /* bytes: no module of a person's is as long */
#define LINES_MOST 40                 /* of a statement */

struct part {
    const char *from, *to;
};

/* ---- parts of a text ---- */

static const char *line_at(const char *text, int64_t line)
{
    for (int64_t i = 1; i < line && text; i++) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text;
}

static size_t indent_of(const char *line)
{
    return strspn(line, " \t");
}

static bool is_blank(const char *line)
{
    char first = line[indent_of(line)];
    return !first || first == '\n' || first == '\r' || first == '#';
}

static int depth_after(const char *from, const char *to, int depth)
{
    for (; from < to && *from != '#'; from++)
        depth += strchr("([{", *from) ? 1 : strchr(")]}", *from) ? -1 : 0;
    return depth;
}

/* From LINE on until its parentheses are closed, and whatever else stands in its last line. */
static struct part statement_at(const char *line)
{
    struct part p = {line, line};
    int depth = 0;
    for (int i = 0; i < LINES_MOST && *p.to; i++) {
        const char *end = strchrnul(p.to, '\n');
        depth = depth_after(p.to, end, depth);
        p.to = *end ? end + 1 : end;
        if (depth <= 0)
            break;
    }
    return p;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* WORD, with no letter of a longer name beside it. */
static bool has_word(struct part p, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = p.from; (at = memmem(at, (size_t)(p.to - at), word, n)); at++)
        if ((at == p.from || !is_word(at[-1]) || !is_word(*word)) && !is_word(at[n]))
            return true;
    return false;
}

static bool has(struct part p, const char *text)
{
    return memmem(p.from, (size_t)(p.to - p.from), text, strlen(text)) != NULL;
}

/* From the line of the "def NAME(" that LINE lies in; NULL: it lies in none, or in another one's. */
static const char *function_of(const char *text, const char *line, const char *name)
{
    const char *def = NULL;
    for (const char *at = text; at && at < line; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        size_t indent = indent_of(at);
        if (is_blank(at))
            continue;
        if (def && indent <= indent_of(def) && !strchr(")]}", at[indent]))
            def = NULL;
        if (!strncmp(at + indent, "def ", 4))
            def = at;
    }
    const char *found = def ? def + indent_of(def) + 4 : "";
    size_t n = strlen(name);
    return !strncmp(found, name, n) && found[n] == '(' && indent_of(line) > indent_of(def) ? def : NULL;
}

/* ---- what it says ---- */

static bool is_wide(struct part p)
{
    return has(p, ".float()") || has_word(p, "torch.float32") || has_word(p, "torch.float");
}

static bool is_open(struct part p)
{
    return has_word(p, "if") || has_word(p, "else") || has_word(p, "lambda");
}

/* Whether NAME is made fp32 in a statement of its own, which no condition stands before: "q = q.float()". */
static bool is_widened(struct part body, const char *name, size_t n)
{
    static const char *const ways[] = {".to(torch.float32)", ".float()", ".to(dtype=torch.float32)"};
    size_t indent = indent_of(body.from); /* a line ends before it */
    struct part lines = {body.from - 1, body.to};
    bool found = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !found; i++) {
        char *text =
            xformat("\n%.*s%.*s = %.*s%s\n", (int)indent, body.from, (int)n, name, (int)n, name, ways[i]);
        found = has(lines, text);
        free(text);
    }
    return found;
}

/* The scores: the first product of the function, of something in fp32. */
static bool are_scores_wide(struct part body)
{
    static const char product[] = "matmul(";
    const char *at = memmem(body.from, (size_t)(body.to - body.from), product, sizeof product - 1);
    if (!at)
        return false;
    at += sizeof product - 1;
    size_t n = 0;
    while (is_word(at[n]))
        n++;
    return n && is_widened((struct part){body.from, at}, at, n);
}

/* Whether what stands from FROM on, up to a comma or a closed parenthesis, is the type of something else, or
 * where it is: "query.dtype", "dtype=query.dtype", "scores.device". */
static bool is_anothers(const char *from, const char *to)
{
    const char *end = from;
    while (end < to && (is_word(*end) || strchr(".=", *end)))
        end++;
    size_t n = (size_t)(end - from);
    return (n > 6 && !strncmp(end - 6, ".dtype", 6)) || (n > 7 && !strncmp(end - 7, ".device", 7));
}

/* Whether all types that it names, but for constants of torch's, are those of other tensors. */
static bool keeps_types(struct part p)
{
    static const char *const ways[] = {".to(", "dtype"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t n = strlen(ways[i]);
        for (const char *at = p.from; (at = memmem(at, (size_t)(p.to - at), ways[i], n)); at += n) {
            bool own = *at == '.' || at == p.from || at[-1] != '.'; /* not "x.dtype" */
            if (own && !is_anothers(*at == '.' ? at + n : at, p.to))
                return false;
        }
    }
    return true;
}

enum source_says source_says(const char *text, int64_t line, const char *function)
{
    static const char *const products[] = {"matmul", "bmm", "baddbmm", "einsum"};
    static const char *const types[] = {".float(", "torch.float", "float32", "double",
                                        "upcast",  "autocast",    ".type("};
    const char *at = line > 0 ? line_at(text, line) : NULL, *dot = strrchr(function, '.');
    const char *def = at && *at ? function_of(text, at, dot ? dot + 1 : function) : NULL;
    if (!def)
        return SOURCE_UNKNOWN;
    struct part statement = statement_at(at), before = {statement_at(def).to, statement.to};
    if (is_open(statement))
        return SOURCE_UNKNOWN;
    if (is_wide(statement))
        return SOURCE_FP32;
    while (before.from < at && is_blank(before.from))
        before.from = strchrnul(before.from, '\n') + 1;
    if (are_scores_wide((struct part){before.from, at}))
        return SOURCE_FP32_SCORES;
    bool makes = has(before, " @ ");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        makes = makes || has_word(before, products[i]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        makes = makes && !has(before, types[i]);
    return makes && keeps_types(before) ? SOURCE_AS_GIVEN : SOURCE_UNKNOWN;
}

/* ---- files ---- */

/* NULL: it is not there, or may not be what was run. */
static char *load(const char *path, int64_t before_ns)
{
    struct stat st;
    size_t n = strlen(path), done = 0;
    int fd = n > 3 && !strcmp(path + n - 3, ".py") && *path == '/' ? guard_open(path) : -1;
    if (fd < 0)
        return NULL;
    bool good =
        !fstat(fd, &st) && st.st_size <= FILE_MOST && st.st_mtim.tv_sec < before_ns / INT64_C(1000000000);
    char *text = good ? xrealloc(NULL, (size_t)st.st_size + 1) : NULL;
    while (good && done < (size_t)st.st_size) {
        ssize_t got = read(fd, text + done, (size_t)st.st_size - done);
        good = got > 0;
        done += good ? (size_t)got : 0;
    }
    close(fd);
    if (!good || memchr(text, 0, done)) {
        free(text);
        return NULL;
    }
    text[done] = '\0';
    return text;
}

enum source_says sources_say(struct sources *s, const char *path, int64_t line, const char *function)
{
    size_t i = 0;
    while (i < s->n && strcmp(s->files[i].path, path) != 0)
        i++;
    if (i == s->n)
        *PUSH(s->files, s->n) = (struct source_file){xstrdup(path), load(path, s->before_ns)};
    return s->files[i].text ? source_says(s->files[i].text, line, function) : SOURCE_UNKNOWN;
}

void sources_free(struct sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->files[i].path);
        free(s->files[i].text);
    }
    free(s->files);
    *s = (struct sources){0};
}
