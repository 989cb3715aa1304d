/*
 * story.h - tests as text: what happens, and what then holds.
 *
 *   static const struct story stories[] = {
 *       {"name", "alloc 0x1000 4M in=pool; free 0x1000; last direct=0 mate=1 size=4M"}, ...
 *   };
 *   TELL(stories)      each is a test of its own
 *
 * Clauses are separated by `;`, their words by blanks.  Numbers are decimal or 0x..., with K, M or G behind
 * them and + between them; `unknown` is VS_BYTES_UNKNOWN, @name what the including file says.
 */
#ifndef TESTS_UNIT_STORY_H
#define TESTS_UNIT_STORY_H

#include "unit/test.h"

struct story {
    const char *name, *text;
};

/* Of the file that includes this one: what stories are told of, begun and ended around each; a clause's
 * words, a NULL behind them (false: it is none); the value of @NAME. */
static int story_begin(void **context), story_end(void **context);
static bool story_clause(void *context, char **word);
static uint64_t story_named(void *context, const char *name);

/* ---- words and numbers ---- */

struct word {
    const char *name;
    uint64_t value;
};

static char telling[512]; /* the clause, for who reads of a failure */

static const struct word *look_up(const struct word *words, const char *name)
{
    for (; words->name; words++)
        if (!strcmp(words->name, name))
            return words;
    return NULL;
}

static uint64_t number(void *context, const struct word *words, const char *text)
{
    static const char units[] = "KMG";
    const struct word *known = words ? look_up(words, text) : NULL;
    if (known)
        return known->value;
    if (!strcmp(text, "unknown"))
        return VS_BYTES_UNKNOWN;
    if (*text == '@')
        return story_named(context, text + 1);
    for (uint64_t sum = 0;;) {
        char *end;
        uint64_t n = strtoull(text, &end, 0);
        const char *unit = *end ? strchr(units, *end) : NULL;
        if (end == text)
            fail_msg("%s: no number: %s", telling, text);
        sum += unit ? n << 10 * (unit - units + 1) : n;
        text = end + (unit != NULL);
        if (!*text)
            return sum;
        if (*text++ != '+')
            fail_msg("%s: no number: %s", telling, text);
    }
}

/* ---- members of structs ---- */

/* A member of a struct, as key=value names it. */
struct field {
    const char *name;
    size_t at, size;
    const struct word *words;
};
#define MEMBER(type, member) offsetof(struct type, member), sizeof(((struct type *)NULL)->member)
#define FIELD(type, member)  #member, MEMBER(type, member)

/* Of KEY, up to the `=` before VALUE. */
static const struct field *field_of(const struct field *fields, const char *key, const char *value)
{
    size_t length = (size_t)(value - key - 1);
    for (; fields->name; fields++)
        if (strlen(fields->name) == length && !strncmp(fields->name, key, length))
            return fields;
    fail_msg("%s: no field: %s", telling, key);
    return NULL;
}

static void is(const char *what, uint64_t found, uint64_t wanted)
{
    if (found != wanted)
        fail_msg("%s: %s is %llu, not %llu", telling, what, (unsigned long long)found,
                 (unsigned long long)wanted);
}

static void fields(void *context, const struct field *of, const void *row, char **word)
{
    if (!row)
        fail_msg("%s: there is none", telling);
    for (; *word; word++) {
        const char *value = strchr(*word, '=');
        assert_non_null(value);
        const struct field *f = field_of(of, *word, ++value);
        uint64_t found = 0, wanted = number(context, f->words, value);
        memcpy(&found, (const char *)row + f->at, f->size);
        is(*word, found, f->size < 8 ? wanted & ((1ull << 8 * f->size) - 1) : wanted);
    }
}

/* ---- telling ---- */

static void tell_clause(void *context, char *clause)
{
    char *word[16] = {NULL}, *rest;
    size_t n = 0;
    snprintf(telling, sizeof telling, "%s", clause);
    for (char *w = strtok_r(clause, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        assert_true(n < 15);
        word[n++] = w;
    }
    if (n && !story_clause(context, word))
        fail_msg("no such clause: %s", telling);
}

static void tell(void **state)
{
    const struct story *story = *state;
    char text[2048], *rest;
    void *context;
    assert_true(strlen(story->text) < sizeof text);
    strcpy(text, story->text);
    assert_int_equal(story_begin(&context), 0);
    for (char *clause = strtok_r(text, ";", &rest); clause; clause = strtok_r(NULL, ";", &rest))
        tell_clause(context, clause);
    story_end(&context);
}

#define TELL(stories)                                                                                        \
    __attribute__((constructor)) static void tell_##stories(void)                                            \
    {                                                                                                        \
        for (size_t i = 0; i < sizeof stories / sizeof *stories; i++)                                        \
            add_test(__LINE__, &(struct CMUnitTest){stories[i].name, tell, NULL, NULL,                       \
                                                    (void *)(uintptr_t)&stories[i]});                        \
    }

#endif
