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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "read/guard.h"
#include "source_text.h"

#define FILE_MOST (INT64_C(8) << 20) /* bytes: no module of a person's is as long */

/* ---- what it says ---- */

static bool is_wide(struct text_part p)
{
    return text_has(p, ".float()") || text_has_word(p, "torch.float32") || text_has_word(p, "torch.float");
}

static bool is_open(struct text_part p)
{
    return text_has_word(p, "if") || text_has_word(p, "else") || text_has_word(p, "lambda");
}

/* Whether NAME is made fp32 in a statement of its own, which no condition stands before: "q = q.float()". */
static bool is_widened(struct text_part body, const char *name, size_t n)
{
    static const char *const ways[] = {".to(torch.float32)", ".float()", ".to(dtype=torch.float32)"};
    size_t indent = text_indent(body.from); /* a line ends before it */
    struct text_part lines = {body.from - 1, body.to};
    bool found = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !found; i++) {
        char *text =
            xformat("\n%.*s%.*s = %.*s%s\n", (int)indent, body.from, (int)n, name, (int)n, name, ways[i]);
        found = text_has(lines, text);
        free(text);
    }
    return found;
}

/* The scores: the first product of the function, of something in fp32. */
static bool are_scores_wide(struct text_part body)
{
    static const char product[] = "matmul(";
    const char *at = memmem(body.from, (size_t)(body.to - body.from), product, sizeof product - 1);
    if (!at)
        return false;
    at += sizeof product - 1;
    size_t n = 0;
    while (text_is_word(at[n]))
        n++;
    return n && is_widened((struct text_part){body.from, at}, at, n);
}

/* Whether what stands from FROM on, up to a comma or a closed parenthesis, is the type of something else, or
 * where it is: "query.dtype", "dtype=query.dtype", "scores.device". */
static bool is_anothers(const char *from, const char *to)
{
    const char *end = from;
    while (end < to && (text_is_word(*end) || strchr(".=", *end)))
        end++;
    size_t n = (size_t)(end - from);
    return (n > 6 && !strncmp(end - 6, ".dtype", 6)) || (n > 7 && !strncmp(end - 7, ".device", 7));
}

/* Whether all types that it names, but for constants of torch's, are those of other tensors. */
static bool keeps_types(struct text_part p)
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
    const char *at = line > 0 ? text_line(text, line) : NULL, *dot = strrchr(function, '.');
    const char *def = at && *at ? text_function(text, at, dot ? dot + 1 : function) : NULL;
    if (!def)
        return SOURCE_UNKNOWN;
    struct text_part statement = text_statement(at), before = {text_statement(def).to, statement.to};
    if (is_open(statement))
        return SOURCE_UNKNOWN;
    if (is_wide(statement))
        return SOURCE_FP32;
    while (before.from < at && text_is_blank(before.from))
        before.from = strchrnul(before.from, '\n') + 1;
    if (are_scores_wide((struct text_part){before.from, at}))
        return SOURCE_FP32_SCORES;
    bool makes = text_has(before, " @ ");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        makes = makes || text_has_word(before, products[i]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        makes = makes && !text_has(before, types[i]);
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

/* NULL: as load. */
static const char *text_of(struct sources *s, const char *path)
{
    size_t i = 0;
    while (i < s->n && strcmp(s->files[i].path, path) != 0)
        i++;
    if (i == s->n)
        *PUSH(s->files, s->n) = (struct source_file){xstrdup(path), load(path, s->before_ns)};
    return s->files[i].text;
}

enum source_says sources_say(struct sources *s, const char *path, int64_t line, const char *function)
{
    const char *text = text_of(s, path);
    return text ? source_says(text, line, function) : SOURCE_UNKNOWN;
}

enum source_says sources_say_of_loss(struct sources *s, const char *path, int64_t line, const char *caller,
                                     const char *function)
{
    const char *text = text_of(s, path);
    return text ? source_says_of_loss(text, line, caller, function) : SOURCE_UNKNOWN;
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
