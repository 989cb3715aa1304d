/*
 * unit_names.c - finds the units of a model: the modules that are checkpointed, or sharded, as a whole
 * (program.h).
 *
 * A unit is one of a list of modules, as their numbers say: alone (layers.3), or behind an underscore or a
 * hyphen (encoder_layer_3, block2-0). Where lists lie in each other it depends on what is between them:
 *
 *      T5.encoder.block.0.layer.1.wi      T5.encoder.block.0       a name: the outer one
 *      Mixtral.layers.0.mlp.experts.3     Mixtral.layers.0         likewise
 *      ConvNeXt.features.1.0.block.5      ConvNeXt.features.1.0    number upon number: features.1 is a stage,
 *      RegNet.block2.block2-0.f.a.0       RegNet.block2.block2-0   and its modules are the units
 *      ConvNeXt.features.2.1              ConvNeXt.features.2      no stage: no module in it has others in it
 *      ConvNeXt.classifier.2              -                        the same, where the model has better lists
 *
 * A number right behind a letter (down1) is a unit's where several modules have that name, with modules in
 * them, and no such list is in them.  Elsewhere it is none (layer1 of a ResNet, block2, conv1). A module in
 * which nothing was ever made is not known.
 */
#include "program.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

enum number { NUMBER_NO, NUMBER_LETTER, NUMBER_ALONE };

struct module {
    const char *name;             /* in some path, not ended */
    size_t length, stem, end;     /* stem: of the name, without its number; end: of the path */
    uint32_t parent, first, next; /* the first module in it, and the next one beside it */
    enum number number;
    size_t lists; /* modules in it that are numbered, and have modules in them */
    bool within;  /* in it, at any depth, are several of these together */
    bool stage;   /* all modules in it are numbered, and one has modules in it */
    bool several; /* a module of its name is beside it */
};

struct tree {
    struct module *at;
    size_t n;
};

static enum number number_of(const char *name, size_t length, size_t *stem)
{
    size_t digits = length;
    while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
        digits--;
    *stem = digits;
    if (digits == length)
        return NUMBER_NO;
    return digits == 0 || name[digits - 1] == '_' || name[digits - 1] == '-' ? NUMBER_ALONE : NUMBER_LETTER;
}

/* Paths come in order, so that a module that is there already is its parent's last one. */
static uint32_t child(struct tree *t, uint32_t parent, const char *name, size_t length, size_t end)
{
    uint32_t last = t->at[parent].first;
    if (last != NONE && t->at[last].length == length && !memcmp(t->at[last].name, name, length))
        return last;
    struct module m = {.name = name, .length = length, .end = end, .parent = parent, .first = NONE};
    m.number = number_of(name, length, &m.stem);
    m.next = last;
    t->at[parent].first = (uint32_t)t->n;
    *PUSH(t->at, t->n) = m;
    return (uint32_t)t->n - 1;
}

/* The module that PATH ends with. */
static uint32_t add(struct tree *t, const char *path)
{
    uint32_t at = 0;
    for (const char *from = path;;) {
        const char *end = strchrnul(from, '.');
        at = child(t, at, from, (size_t)(end - from), (size_t)(end - path));
        if (!*end)
            return at;
        from = end + 1;
    }
}

static int rank(char c)
{
    return c == '.' ? 1 : c ? (unsigned char)c + 2 : 0;
}

/* A module, then what is in it, then any other: the end and a dot come before all other characters. */
static int by_modules(const void *a, const void *b)
{
    const char *const *const *left = a, *const *const *right = b;
    const char *x = **left, *y = **right;
    while (*x && *x == *y)
        x++, y++;
    return rank(*x) - rank(*y);
}

/* By path, the module that it ends with. */
static void add_all(struct tree *t, const char *const *paths, size_t n, uint32_t *modules)
{
    const char *const **order = xrealloc(NULL, (n + 1) * sizeof *order);
    for (size_t i = 0; i < n; i++)
        order[i] = &paths[i];
    if (n)
        qsort(order, n, sizeof *order, by_modules);
    for (size_t i = 0; i < n; i++)
        modules[order[i] - paths] = add(t, *order[i]);
    free(order);
}

static bool same_stem(const struct module *a, const struct module *b)
{
    return a->stem == b->stem && !memcmp(a->name, b->name, a->stem);
}

static bool has_modules(const struct module *m)
{
    return m->first != NONE;
}

/* Modules in M of one name and several numbers, which have modules in them. */
static void see_several(struct tree *t, const struct module *m)
{
    struct module *last = NULL;
    for (uint32_t i = m->first; i != NONE; i = t->at[i].next) {
        struct module *c = &t->at[i];
        if (c->number != NUMBER_LETTER || !has_modules(c))
            continue;
        if (last && same_stem(c, last))
            c->several = last->several = true;
        last = c;
    }
}

/* What the modules in M say of it.  They come behind it, so theirs is known. */
static void see_children(struct tree *t, struct module *m)
{
    m->stage = m->number != NUMBER_NO;
    for (uint32_t i = m->first; i != NONE; i = t->at[i].next) {
        const struct module *c = &t->at[i];
        m->stage = m->stage && c->number == NUMBER_ALONE && same_stem(c, &t->at[m->first]);
        m->lists += c->number == NUMBER_ALONE && has_modules(c);
        m->within = m->within || c->within;
    }
    m->stage = m->stage && m->lists;
    m->within = m->within || m->lists > 1;
    see_several(t, m);
}

static bool is_unit(const struct module *m)
{
    return !m->stage && (m->number == NUMBER_ALONE || (m->several && !m->within));
}

/* The outermost unit that MODULE is or lies in; NONE: none.  The root and the model are no units. */
static uint32_t unit_of(const struct tree *t, uint32_t module)
{
    uint32_t unit = NONE;
    for (uint32_t i = module; i != NONE && t->at[i].parent != NONE && t->at[i].parent != 0;
         i = t->at[i].parent)
        unit = is_unit(&t->at[i]) ? i : unit;
    return unit;
}

/* Whether it stands for itself only: neither it nor a module beside it has others in it. */
static bool is_plain(const struct tree *t, uint32_t unit)
{
    return !has_modules(&t->at[unit]) && !t->at[t->at[unit].parent].lists;
}

void unit_names_find(const char *const *paths, size_t n, size_t *lengths)
{
    struct tree t = {.at = NULL};
    uint32_t *units = xrealloc(NULL, (n + 1) * sizeof *units);
    bool better = false;
    *PUSH(t.at, t.n) = (struct module){.name = "", .parent = NONE, .first = NONE, .next = NONE};
    add_all(&t, paths, n, units);
    for (size_t i = t.n; i-- > 0;)
        see_children(&t, &t.at[i]);
    for (size_t i = 0; i < n; i++) {
        units[i] = unit_of(&t, units[i]);
        better = better || (units[i] != NONE && !is_plain(&t, units[i]));
    }
    for (size_t i = 0; i < n; i++)
        lengths[i] = units[i] == NONE || (better && is_plain(&t, units[i])) ? 0 : t.at[units[i]].end;
    free(units);
    free(t.at);
}

/* Whether NAME up to a dot is PATTERN up to one. */
static bool same_name(const char *name, const char *pattern)
{
    const char *star = NULL, *from = NULL;
    while (*name && *name != '.') {
        if (*pattern == '*') {
            star = pattern++;
            from = name;
        } else if (*pattern == *name) {
            pattern++, name++;
        } else if (star) { /* what it stands for is longer */
            pattern = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern || *pattern == '.';
}

size_t unit_names_match(const char *path, const char *pattern)
{
    const char *at = path;
    while (same_name(at, pattern)) {
        const char *end = strchrnul(at, '.'), *more = strchrnul(pattern, '.');
        if (!*more)
            return (size_t)(end - path);
        if (!*end)
            return 0;
        at = end + 1;
        pattern = more + 1;
    }
    return 0;
}

/* Without its numbers, where it ends with one. */
static char *add_name(char *to, const char *name, size_t length)
{
    size_t stem;
    bool number = number_of(name, length, &stem) != NUMBER_NO;
    for (size_t i = 0; i < length; i++) {
        bool digit = number && isdigit((unsigned char)name[i]);
        if (!digit)
            *to++ = name[i];
        else if (i + 1 == length || !isdigit((unsigned char)name[i + 1]))
            *to++ = '*';
    }
    return to;
}

char *unit_names_pattern(const char *path, size_t length)
{
    char *text = xrealloc(NULL, length + 1), *to = text;
    const char *end = path + length, *from = memchr(path, '.', length);
    from = from ? from : end;
    memcpy(to, path, (size_t)(from - path)); /* the model's own name */
    to += from - path;
    while (from < end) {
        const char *dot = memchr(from + 1, '.', (size_t)(end - from - 1));
        dot = dot ? dot : end;
        *to++ = '.';
        to = add_name(to, from + 1, (size_t)(dot - from - 1));
        from = dot;
    }
    *to = '\0';
    return text;
}
