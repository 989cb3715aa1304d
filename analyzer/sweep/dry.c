/* dry.c - words for `vramscope fit`, and what it answered (dry.h). */
#include "dry.h"

#include <stdlib.h>
#include <string.h>

#include "read/config.h"

#define ANSWER_MOST (64 << 20) /* bytes: it lists all that the program wrote */

/* ---- the question ---- */

struct options {
    struct dry_options dry;
};

static const struct option_row rows[] = {DRY_OPTIONS, {0}};

char **dry_words(const struct dry_options *o)
{
    char **words = NULL;
    size_t n = 0;
    *PUSH(words, n) = xstrdup("fit");
    *PUSH(words, n) = xstrdup("--json");
    for (const struct option_row *r = rows; r->name; r++) {
        const void *at = (const char *)o + r->offset;
        const char *text = r->kind != ARG_FLAG ? *(const char *const *)at : NULL;
        if (r->kind == ARG_FLAG && *(const bool *)at)
            *PUSH(words, n) = xformat("--%s", r->name);
        else if (text)
            *PUSH(words, n) = xformat("--%s=%s", r->name, text);
    }
    *PUSH(words, n) = NULL;
    return words;
}

void words_free(char **words)
{
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
}

/* ---- the answer ---- */

static void read_span(const char *path, const char *part, int64_t *least, int64_t *most)
{
    struct config c;
    char why[256];
    *least = *most = UNKNOWN;
    if (config_read_part(&c, path, part, ANSWER_MOST, why, sizeof why))
        return;
    *least = config_int(&c, "least_bytes");
    *most = config_int(&c, "most_bytes");
    config_free(&c);
}

static char *text_of(const struct config *c, const char *name)
{
    const char *text = config_text(c, name);
    return text ? xstrdup(text) : NULL;
}

/* Of what the program said. */
static char *last_line(const struct config *c)
{
    const char *text = config_text(c, "last_lines");
    size_t n = text ? strlen(text) : 0;
    while (n && text[n - 1] == '\n')
        n--;
    size_t from = n;
    while (from && text[from - 1] != '\n')
        from--;
    return n ? xformat("%.*s", (int)(n - from), text + from) : NULL;
}

void dry_answer_read(struct dry_answer *a, const char *path)
{
    struct config c;
    char why[256];
    *a = (struct dry_answer){.there = false};
    if (config_read_part(&c, path, "$.answers[0]", ANSWER_MOST, why, sizeof why))
        return;
    *a = (struct dry_answer){.there = true,
                             .certain = config_flag(&c, "certain", false),
                             .exact = config_flag(&c, "exact", false),
                             .verdict = text_of(&c, "verdict"),
                             .why = text_of(&c, "why"),
                             .last_line = last_line(&c),
                             .at_peak = {config_int(&c, "allocated_bytes"), config_int(&c, "reserved_bytes")},
                             .beside = config_int(&c, "beside_bytes"),
                             .left = config_int(&c, "left_bytes"),
                             .device = config_int(&c, "device_bytes")};
    config_free(&c);
    read_span(path, "$.answers[0].allocated", &a->allocated.least, &a->allocated.most);
    read_span(path, "$.answers[0].reserved", &a->reserved.least, &a->reserved.most);
}

void dry_answer_free(struct dry_answer *a)
{
    free(a->verdict);
    free(a->why);
    free(a->last_line);
}
