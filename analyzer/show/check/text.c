/* text.c - the rows of a check for a person. */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "check.h"

const char *check_verdict_name(enum verdict v)
{
    static const char *const names[] = {
        [VERDICT_WITHIN] = "within", [VERDICT_BEYOND] = "beyond", [VERDICT_UNTOLD] = "cannot tell"};
    return names[v];
}

char *check_title(const struct check_row *r)
{
    char *title = xstrdup(shown(r->what));
    if (r->device != UNKNOWN)
        xappend(&title, ", device %lld", (long long)r->device);
    if (r->rank != UNKNOWN)
        xappend(&title, ", rank %lld", (long long)r->rank);
    if (r->process != UNKNOWN)
        xappend(&title, ", process %lld", (long long)r->process);
    if (r->dry)
        xappend(&title, ", %s", r->dry);
    return title;
}

/* What was measured, as far as that is known. */
static char *figure_of(const struct check_row *r)
{
    const char *unit = r->per_step ? " a step" : "";
    if (r->m.value == UNKNOWN)
        return xstrdup(r->per_step ? "" : "unknown");
    if (r->per_step && r->m.value == 0)
        return xstrdup("none found");
    return xformat("%s%s", units_bytes(r->m.value, false).s, unit);
}

/* The limit; in full where both look alike. */
static char *limit_of(const struct check_row *r)
{
    if (r->limit_bytes == UNKNOWN)
        return xstrdup("");
    char *over = xstrdup("");
    if (r->m.value != UNKNOWN && r->m.value > r->limit_bytes)
        xappend(&over, " (%s)", units_bytes_change(r->m.value - r->limit_bytes, false).s);
    char *limit = r->base_bytes == UNKNOWN
                      ? xformat(", limit %s%s", units_bytes(r->limit_bytes, false).s, over)
                      : xformat(", was %s, limit %s%s", units_bytes(r->base_bytes, false).s,
                                units_bytes(r->limit_bytes, false).s, over);
    free(over);
    return limit;
}

static char *moment_of(const struct check_cause *c)
{
    char *moment = xstrdup("");
    if (!c->known || c->t == UNKNOWN)
        return moment;
    xappend(&moment, "at %s", units_time(c->t).s);
    if (c->step != UNKNOWN)
        xappend(&moment, ", step %lld", (long long)c->step);
    if (c->phase && strcmp(c->phase, "none") != 0)
        xappend(&moment, ", in %s", shown(c->phase));
    else if (c->phase)
        xappend(&moment, ", outside any phase");
    return moment;
}

/* Adds a clause, behind a separator where there is something before it. */
static void clause(char **text, const char *separator, char *more)
{
    xappend(text, "%s%s", **text && *more ? separator : "", more);
    free(more);
}

char *check_finding(const struct check_row *r)
{
    char *text = figure_of(r);
    clause(&text, "", limit_of(r));
    clause(&text, "; ", xstrdup(r->why ? shown(r->why) : ""));
    clause(&text, "; ", moment_of(&r->cause));
    if (!r->per_step || !r->why)
        clause(&text, "; ", check_cause_words(r));
    return text;
}

void check_text(const struct check *c, size_t files, FILE *out)
{
    static const char *const marks[] = {
        [VERDICT_WITHIN] = "within", [VERDICT_BEYOND] = "BEYOND", [VERDICT_UNTOLD] = "CANNOT TELL"};
    const char *label = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const struct check_row *r = &c->rows[i];
        if (files > 1 && (!label || strcmp(label, r->label)))
            fprintf(out, "%s\n", shown(r->label));
        label = r->label;
        char *title = check_title(r), *finding = check_finding(r);
        wrap_print(out, files > 1 ? 2 : 0, files > 1 ? 15 : 13, "%-11s  %s: %s", marks[r->verdict], title,
                   finding);
        free(title);
        free(finding);
    }
    fprintf(out, "%s%zu within, %zu beyond, %zu that nobody can tell\n", c->count ? "\n" : "",
            c->verdicts[VERDICT_WITHIN], c->verdicts[VERDICT_BEYOND], c->verdicts[VERDICT_UNTOLD]);
}
