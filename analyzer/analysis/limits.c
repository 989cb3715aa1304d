/* limits.c - see limits.h. */
#include "limits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "trace/roles.h"

/* ---- what was written ---- */

static char *copy(const char *text, size_t length)
{
    return xformat("%.*s", (int)length, text);
}

static bool read_number(const char *text, int64_t *out)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return end != text && !*end && value >= 0;
}

/* born: what made= was called before, in this version */
static const char *const keys[] = {"device", "rank", "phase", "born", "line", "layer", "role", "made"};
enum { KEYS = sizeof keys / sizeof *keys };

/* Which key TEXT begins with, an equals sign behind it; -1. */
static int key_at(const char *text)
{
    for (int i = 0; i < KEYS; i++) {
        size_t n = strlen(keys[i]);
        if (!strncmp(text, keys[i], n) && text[n] == '=')
            return i;
    }
    return -1;
}

/* Whether WORD stands at TEXT, and nothing else up to the next comma or the end. */
static bool word_at(const char *text, const char *word)
{
    size_t n = strlen(word);
    return !strncmp(text, word, n) && (!text[n] || text[n] == ',');
}

static bool term_at(const char *text)
{
    return key_at(text) >= 0 || word_at(text, "allocated") || word_at(text, "reserved");
}

/* The length of the term at TEXT: a comma ends it where another term follows, since names may have commas. */
static size_t term_length(const char *text)
{
    size_t n = 0;
    while (text[n] && !(text[n] == ',' && term_at(text + n + 1)))
        n++;
    return n;
}

/* NAME as it is called now: the word of before is taken too, in this version. */
static char *role_now(char *name)
{
    for (unsigned i = 0; vs_role_named(name) == VS_ROLE_UNTOLD && i < VS_ROLE_COUNT; i++)
        if (!strcmp(name, vs_role_before(vs_role_word(i)))) {
            free(name);
            return xstrdup(vs_role_word(i));
        }
    return name;
}

static int read_value(struct limit *l, int key, char *value, char *why, size_t size)
{
    char **const texts[] = {&l->phase, &l->born, &l->line, &l->layer, &l->role, &l->born};
    if (key < 2) {
        bool good = read_number(value, key == 0 ? &l->device : &l->rank);
        if (!good)
            snprintf(why, size, "%s= takes a number, not '%s'", keys[key], value);
        free(value);
        return good ? 0 : -1;
    }
    free(*texts[key - 2]);
    *texts[key - 2] = texts[key - 2] == &l->role ? role_now(value) : value;
    if (**texts[key - 2])
        return 0;
    snprintf(why, size, "%s= takes a name", keys[key]);
    return -1;
}

static int read_term(struct limit *l, const char *term, size_t length, char *why, size_t size)
{
    int key = key_at(term);
    if (key >= 0) {
        size_t skip = strlen(keys[key]) + 1;
        return read_value(l, key, copy(term + skip, length - skip), why, size);
    }
    if (length == strlen("reserved") && word_at(term, "reserved"))
        l->reserved = true;
    else if (length != strlen("allocated") || !word_at(term, "allocated")) {
        snprintf(why, size,
                 "'%.*s' is none of allocated, reserved, device=, rank=, phase=, made=, line=, layer=, role=",
                 (int)length, term);
        return -1;
    }
    return 0;
}

static int check_terms(const struct limit *l, char *why, size_t size)
{
    if (limit_is_held(l) && (l->phase || l->reserved)) {
        snprintf(why, size,
                 "%s is about all that was %s, and not about some blocks: made= is the phase that "
                 "blocks were made in",
                 l->phase ? "phase=" : "reserved", l->reserved ? "reserved" : "allocated");
        return -1;
    }
    return 0;
}

static void add_words(struct limit *l, const char *before, const char *name)
{
    if (!name)
        return;
    char *longer = xformat("%s%s%s", l->words, before, name);
    free(l->words);
    l->words = longer;
}

static void name_it(struct limit *l)
{
    bool held = limit_is_held(l);
    l->words = xstrdup(held ? "held" : l->reserved ? "peak reserved" : "peak allocated");
    add_words(l, " in phase ", l->phase);
    add_words(l, " by line ", l->line);
    add_words(l, l->line ? ", layer " : " by layer ", l->layer);
    add_words(l, l->line || l->layer ? ", role " : " by role ", l->role);
    add_words(l, l->line || l->layer || l->role ? ", made in " : " by what was made in ", l->born);
}

int limit_parse(struct limit *l, const char *text, char *why, size_t size)
{
    *l = (struct limit){.text = xstrdup(text), .device = UNKNOWN, .rank = UNKNOWN};
    const char *colon = strrchr(text, ':'); /* a line has one of its own: the last is meant */
    if (!colon || !units_read_bytes(colon + 1, &l->bytes)) {
        snprintf(why, size, "'%s' is no limit: SELECTOR:BYTES, such as phase=logits:4GiB", text);
        return -1;
    }
    if (units_lacks_unit(colon + 1)) {
        snprintf(why, size, "'%s': %s of what? A number alone is bytes: write %sGiB, or %sB", text, colon + 1,
                 colon + 1, colon + 1);
        return -1;
    }
    char *selector = copy(text, (size_t)(colon - text));
    int result = *selector ? 0 : -1;
    if (result)
        snprintf(why, size, "'%s' does not say of what: SELECTOR:BYTES, such as allocated:20GiB", text);
    for (const char *term = selector; !result; term++) {
        size_t n = term_length(term);
        result = read_term(l, term, n, why, size);
        term += n;
        if (!*term)
            break;
    }
    free(selector);
    if (!result)
        result = check_terms(l, why, size);
    name_it(l);
    return result;
}

void limit_free(struct limit *l)
{
    char *texts[] = {l->text, l->given, l->words, l->phase, l->born, l->line, l->layer, l->role};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
}

/* ---- which blocks are meant ---- */

bool limit_meets_line(const char *pattern, const char *line)
{
    static const char forward[] = "forward: ", by[] = " > ";
    size_t skip = sizeof forward - 1, n = strlen(pattern);
    if (!strncmp(line, forward, skip)) {
        if (!strncmp(pattern, forward, skip))
            return limit_meets_line(pattern + skip, line + skip);
        line += skip;
    }
    const char *called = strstr(line, by); /* "train.py:37 > model.py:41 f": either is meant */
    if (called && limit_meets_line(pattern, called + sizeof by - 1))
        return true;
    for (const char *at = line;; at++) {
        /* behind a file comes its line, behind that the function */
        if (!strncmp(at, pattern, n) && (!at[n] || at[n] == ':' || at[n] == ' '))
            return true;
        at += strcspn(at, "/");
        if (!*at)
            return false;
    }
}

bool limit_meets_layer(const char *pattern, const char *layer)
{
    size_t n = strlen(pattern);
    for (const char *at = layer;; at++) {
        if (!strncmp(at, pattern, n) && (!at[n] || at[n] == '.' || at[n] == '/'))
            return true;
        at += strcspn(at, "./");
        if (!*at)
            return false;
    }
}

/* ---- whether it is kept ---- */

enum verdict limit_verdict(const struct measured *m, int64_t limit_least, int64_t limit_most)
{
    if (m->most != NO_BOUND && m->most <= limit_least)
        return VERDICT_WITHIN;
    return m->least > limit_most ? VERDICT_BEYOND : VERDICT_UNTOLD;
}

bool tolerance_parse(struct tolerance *t, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    while (end != text && *end == ' ')
        end++;
    *t = (struct tolerance){0};
    if (end != text && !strcmp(end, "%")) {
        t->share = value / 100;
        return isfinite(value) && value >= 0;
    }
    return units_read_bytes(text, &t->bytes);
}

int64_t tolerance_limit(const struct tolerance *t, int64_t base)
{
    double more = round((double)base * t->share) + (double)t->bytes;
    return (double)base + more >= 9e18 ? INT64_MAX - 1 : base + (int64_t)more;
}
