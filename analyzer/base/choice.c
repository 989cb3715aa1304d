/* choice.c - see choice.h. */
#include "choice.h"

#include <string.h>

bool choice_sorts(const struct choice *c, const char *word)
{
    return c && c->sort && !strcmp(c->sort, word);
}

int choice_check(const struct choice *c, const char *command, const char *sorts)
{
    size_t n = c->sort ? strlen(c->sort) : 0;
    if (!n)
        return c->sort ? complain("%s: --sort takes %s, not ''", command, sorts) : 0;
    for (const char *at = sorts; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (!strncmp(at, c->sort, n) && (at[n] == '|' || !at[n]))
            return 0;
    }
    return complain("%s: --sort takes %s, not '%s'", command, sorts, c->sort);
}

int choice_stretch(const char *command, const int64_t *steps, int64_t from, int64_t to)
{
    if (steps[0] && (from || to != UNKNOWN))
        return complain("%s: --step and --from or --to exclude each other", command);
    if (to != UNKNOWN && from > to)
        return complain("%s: --from is later than --to: %.9g s, and %.9g s", command, (double)from / 1e9,
                        (double)to / 1e9);
    return 0;
}
