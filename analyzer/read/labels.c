/*
 * labels.c - what a user calls the run by (`vramscope run --label batch=4`: "label.batch" in meta), and the
 * words for recordings that no GPU was involved in.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "core/options.h"
#include "sql.h"

int trace_load_labels(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT substr(key, 7), value FROM meta WHERE process = ? AND key >= "
                                       "'label.' AND key < 'label/' ORDER BY key",
                                       1, t->process.id);
    while (trace_sql_row(s)) {
        const char *name = trace_sql_text(t, s, 0), *value = trace_sql_text(t, s, 1);
        if (name && value && t->label_count < VS_LABELS_MOST) /* more, of a damaged file, say nothing */
            *PUSH(t->labels, t->label_count) = (struct trace_run_label){name, value};
    }
    return trace_sql_done(t, s);
}

const char *trace_run_label(const struct trace *t, const char *name)
{
    for (size_t i = 0; i < t->label_count; i++)
        if (!strcmp(t->labels[i].name, name))
            return t->labels[i].value;
    return NULL;
}

char *trace_run_labels(const struct trace *t)
{
    char *text = NULL;
    for (size_t i = 0; i < t->label_count; i++) {
        char *longer =
            xformat("%s%s%s=%s", text ? text : "", text ? ", " : "", t->labels[i].name, t->labels[i].value);
        free(text);
        text = longer;
    }
    return text;
}

/* ---- no GPU ---- */

const char *trace_mark(const struct trace *t)
{
    static const char *const marks[] = {NULL, "simulated driver, no GPU", "dry run, no GPU"};
    return marks[t->process.driver];
}

const char *trace_dry(const struct trace *t)
{
    const char *setup = t->process.dry ? t->process.dry : "";
    return t->process.driver == VS_DRIVER_DRY ? setup : NULL;
}

/* The value of NAME in "gpu=H200,bytes=150109880320"; the caller frees it. */
static char *value_of(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list ? list : ""; *at; at += strcspn(at, ","), at += *at == ',')
        if (!strncmp(at, name, n) && at[n] == '=')
            return xformat("%.*s", (int)strcspn(at + n + 1, ","), at + n + 1);
    return NULL;
}

/* " (H200, 139.8 GiB, 3 steps)" */
static char *setup_words(const char *setup)
{
    char *gpu = value_of(setup, "gpu"), *bytes = value_of(setup, "bytes"), *steps = value_of(setup, "steps"),
         *values = value_of(setup, "values"), *text = xstrdup("");
    if (gpu && bytes && steps) {
        free(text);
        text = xformat(" (%s, %s, %s%s%s)", shown(gpu), units_bytes(strtoll(bytes, NULL, 10), false).s,
                       strcmp(steps, "all") ? shown(steps) : "to its end",
                       strcmp(steps, "all") ? strcmp(steps, "1") ? " steps" : " step" : "",
                       values && !strcmp(values, "second") ? ", the second assumption about values" : "");
    }
    free(gpu);
    free(bytes);
    free(steps);
    free(values);
    return text;
}

char *trace_mark_line(const struct trace *t)
{
    if (t->process.driver == VS_DRIVER_REAL)
        return NULL;
    if (t->process.driver == VS_DRIVER_SIMULATED)
        return xstrdup("simulated driver: no GPU was involved");
    char *setup = setup_words(t->process.dry),
         *line = xformat("dry run%s: no GPU was involved, and times mean nothing", setup);
    free(setup);
    return line;
}
