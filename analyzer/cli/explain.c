/*
 * explain.c - `vramscope explain WORD`: the paragraph of docs/report.md on a word of our pages.
 *
 * The document lies in the command as it stands.  Each entry of its section "Words" is one line, in which
 * bold words are explained: "- **residual**, **unexplained**: what the driver says ...".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/args.h"
#include "base/shown.h"
#include "base/page.h"

__asm__(".pushsection .rodata,\"a\",@progbits\n"
        ".hidden explain_page\n"
        ".global explain_page\n"
        ".type explain_page, @object\n"
        "explain_page:\n"
        ".incbin \"" EXPLAIN_PAGE "\"\n"
        ".byte 0\n"
        ".size explain_page, . - explain_page\n"
        ".popsection\n");
extern const char explain_page[];

static const struct option_row rows[] = {{0}};

struct word {
    char *text;
    const char *entry; /* its line of the document, behind "- " */
};

/* The words of all entries, in the order of the document. */
static struct word *read_words(size_t *count)
{
    struct word *words = NULL;
    const char *line = strstr(explain_page, "\n## Words\n");
    for (line = line ? strchr(line + 1, '\n') : NULL; line && strncmp(line + 1, "## ", 3) != 0;
         line = strchr(line + 1, '\n')) {
        const char *at = line + 3, *end;
        if (strncmp(line + 1, "- **", 4) != 0)
            continue;
        while (!strncmp(at, "**", 2) && (end = strstr(at + 2, "**")) != NULL) {
            *PUSH(words, *count) = (struct word){xformat("%.*s", (int)(end - at - 2), at + 2), line + 3};
            at = end + 2 + (strncmp(end + 2, ", ", 2) ? 0 : 2);
        }
    }
    return words;
}

/* Without the marks of Markdown: **bold**, *slanted*, `code`, [text](address). */
static void print_entry(const char *entry)
{
    char *text = xformat("%.*s", (int)strcspn(entry, "\n"), entry), *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == ']' && from[1] == '(')
            from += strcspn(from, ")");
        else if (!strchr("*`[", *from))
            *to++ = *from;
    }
    *to = 0;
    wrap_print(stdout, 0, 2, "%s", text);
    free(text);
}

/* One or many, "activations", and with more behind it, "made in backward": MORE. */
static bool is_word(const char *asked, const char *word, bool more)
{
    size_t n = strlen(word);
    return !strncasecmp(asked, word, n) &&
           (more ? asked[n] == ' ' : !asked[n] || !strcasecmp(asked + n, "s"));
}

static const char *find(const char *asked, const struct word *words, size_t count)
{
    for (int more = 0; more < 2; more++)
        for (size_t i = 0; i < count; i++)
            if (is_word(asked, words[i].text, more))
                return words[i].entry;
    return NULL;
}

static int no_word(const char *asked, const struct word *words, size_t count)
{
    const char **names = xrealloc(NULL, (count + 1) * sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = words[i].text;
    names[count] = NULL;
    const char *near = args_nearest(asked, names);
    int status = near ? complain("explain: no word '%s': did you mean '%s'?", shown(asked), near)
                      : complain("explain: no word '%s': 'vramscope explain' lists them", shown(asked));
    free(names);
    return status;
}

/* "optimizer state" is one word, with quotes or without. */
static char *join(char **operands, int n)
{
    char *text = xstrdup(operands[0]);
    for (int i = 1; i < n; i++)
        xappend(&text, " %s", operands[i]);
    return text;
}

static int call(void *options, char **operands, int n)
{
    int status = EXIT_GOOD;
    size_t count = 0;
    struct word *words = read_words(&count);
    for (size_t i = 0; n == 0 && i < count; i++)
        puts(words[i].text);
    if (n > 0) {
        char *asked = join(operands, n);
        const char *entry = find(asked, words, count);
        if (entry)
            print_entry(entry);
        else
            status = no_word(asked, words, count);
        free(asked);
    }
    for (size_t i = 0; i < count; i++)
        free(words[i].text);
    free(words);
    return status;
}

const struct command command_explain = {
    "explain", "what a word of the pages means",
    "[WORD]",  "What a word of the pages means; without one, which words there are.",
    rows,      call,
    .size = 0};
