/* grid.c - reads the axes of a sweep and fills in a point's values (grid.h). */
#include "grid.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";

static bool is_word(const char *text)
{
    return *text && !text[strspn(text, letters)] && strcmp(text, ".") != 0 && strcmp(text, "..") != 0;
}

static int add_value(struct grid_axis *axis, const char *option, const char *value)
{
    if (axis->n == GRID_VALUES)
        return complain("%s %s has more than %d values", option, axis->name, GRID_VALUES);
    for (size_t i = 0; i < axis->n; i++)
        if (!strcmp(axis->values[i], value))
            return complain("%s %s has %s twice", option, axis->name, value);
    axis->values[axis->n++] = xstrdup(value);
    return 0;
}

/* "512..2048": doubled from the first on, the last included.  1: it is no range. */
static int add_range(struct grid_axis *axis, const char *option, const char *text)
{
    char *end;
    long long first = strtoll(text, &end, 10);
    if (end == text || first < 1 || strncmp(end, "..", 2) != 0)
        return 1;
    const char *second = end + 2;
    long long last = strtoll(second, &end, 10);
    if (end == second || *end || last < first || last > 1ll << 40)
        return 1;
    int bad = 0;
    for (long long x = first; x < last && !bad; x *= 2) {
        char *value = xformat("%lld", x);
        bad = add_value(axis, option, value);
        free(value);
    }
    char *value = xformat("%lld", last);
    bad = bad ? bad : add_value(axis, option, value);
    free(value);
    return bad;
}

static int add_list(struct grid_axis *axis, const char *option, const char *text)
{
    char *list = xstrdup(text), *rest = list, *word;
    int bad = 0;
    while (!bad && (word = strsep(&rest, ","))) {
        if (!is_word(word))
            bad = complain("%s %s: '%s' is no value: letters, digits and ._+- are", option, axis->name,
                           shown(word));
        else if (strstr(word, ".."))
            bad = complain("%s %s: '%s' is no range: 1..64 is, whole numbers that rise", option, axis->name,
                           shown(word));
        else
            bad = add_value(axis, option, word);
    }
    free(list);
    return bad;
}

static int read_axis(struct grid *g, const char *word)
{
    size_t n = strcspn(word, "=");
    if (!word[n] || !n || strspn(word, letters) < n)
        return complain("%s takes NAME=1,2,4 or NAME=1..64, not '%s'", g->option, shown(word));
    if (g->n == GRID_AXES)
        return complain("%s is given more than %d times", g->option, GRID_AXES);
    struct grid_axis *axis = &g->axes[g->n++];
    axis->name = xformat("%.*s", (int)n, word);
    for (size_t i = 0; i + 1 < g->n; i++)
        if (!strcmp(g->axes[i].name, axis->name))
            return complain("%s %s is given twice", g->option, axis->name);
    int bad = add_range(axis, g->option, word + n + 1);
    return bad == 1 ? add_list(axis, g->option, word + n + 1) : bad;
}

int grid_read(struct grid *g, const char *option, const struct arg_list *words)
{
    int bad = 0;
    *g = (struct grid){.option = option, .points = 1};
    for (size_t i = 0; i < words->count && !bad; i++) {
        bad = read_axis(g, words->values[i]);
        if (!bad)
            g->points *= g->axes[g->n - 1].n;
        if (!bad && g->points > GRID_POINTS)
            bad = complain("%s: more than %d points", option, GRID_POINTS);
    }
    return bad;
}

void grid_free(struct grid *g)
{
    for (size_t a = 0; a < g->n; a++) {
        free(g->axes[a].name);
        for (size_t i = 0; i < g->axes[a].n; i++)
            free(g->axes[a].values[i]);
    }
    *g = (struct grid){0};
}

const char *grid_value(const struct grid *g, size_t point, size_t axis)
{
    for (size_t a = g->n - 1; a > axis; a--)
        point /= g->axes[a].n;
    return g->axes[axis].values[point % g->axes[axis].n];
}

int64_t grid_number(const struct grid *g, char *const *values, const char *name)
{
    for (size_t a = 0; a < g->n; a++) {
        char *end;
        if (strcmp(g->axes[a].name, name) != 0)
            continue;
        long long x = strtoll(values[a], &end, 10);
        return *end || x < 1 ? UNKNOWN : x;
    }
    return UNKNOWN;
}

char *grid_name(const struct grid *g, char *const *values)
{
    char *text = xstrdup("");
    for (size_t a = 0; a < g->n; a++)
        xappend(&text, "%s%s=%s", a ? "," : "", g->axes[a].name, values[a]);
    return text;
}

/* The axis whose name stands in braces at AT; g->n: none. */
static size_t axis_at(const struct grid *g, const char *at)
{
    for (size_t a = 0; a < g->n && *at == '{'; a++) {
        size_t n = strlen(g->axes[a].name);
        if (!strncmp(at + 1, g->axes[a].name, n) && at[n + 1] == '}')
            return a;
    }
    return g->n;
}

char *grid_fill(const struct grid *g, char *const *values, const char *word)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);
    while (*word) {
        size_t a = axis_at(g, word);
        if (a == g->n) {
            fputc(*word++, out);
        } else {
            fputs(values[a], out);
            word += strlen(g->axes[a].name) + 2;
        }
    }
    fclose(out);
    return text;
}

/* Of a word in braces at AT, "{name}", its length with them; 0: there is none.  What a shell or a regular
 * expression means by braces is none: ${name}, {2}, {}, { name }. */
static size_t placeholder_at(const char *at, bool after_dollar)
{
    static const char *const digits = "0123456789";
    if (*at != '{' || after_dollar || strchr(digits, at[1]))
        return 0;
    size_t n = strspn(at + 1, letters);
    return n && at[n + 1] == '}' ? n + 2 : 0;
}

/* The first "{NAME}" in the words that no axis has; NULL: none. */
static char *unknown(const struct grid *g, char *const *words)
{
    for (; *words; words++)
        for (const char *at = *words; (at = strchr(at, '{')); at++) {
            size_t n = placeholder_at(at, at > *words && at[-1] == '$');
            if (n && axis_at(g, at) == g->n)
                return xformat("%.*s", (int)n, at);
        }
    return NULL;
}

static bool uses(const struct grid *g, size_t axis, char *const *words)
{
    for (; *words; words++)
        for (const char *at = *words; (at = strchr(at, '{')); at++)
            if (axis_at(g, at) == axis)
                return true;
    return false;
}

int grid_check(const struct grid *g, char *const *command)
{
    for (size_t a = 0; a < g->n; a++)
        if (!uses(g, a, command))
            return complain("%s %s: {%s} stands nowhere in the command: every point would be the same",
                            g->option, g->axes[a].name, g->axes[a].name);
    char *word = unknown(g, command);
    int bad = word ? complain("%s: %s is in the command, and no axis has that name (braces that are the "
                              "command's own: put them into a script)",
                              g->option, shown(word))
                   : 0;
    free(word);
    return bad;
}
