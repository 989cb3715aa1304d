/*
 * labels.c - what a user calls the run by (`vramscope run --label`): rows of meta, "label.batch" with "4".
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "core/labels.h"
#include "sql.h"

int trace_load_labels(struct trace *t)
{
    struct sqlite3_stmt *s = trace_sql(t,
                                       "SELECT substr(key, 7), value FROM meta WHERE process = ? AND key >= "
                                       "'label.' AND key < 'label/' ORDER BY key",
                                       1, t->process.id);
    int code = SQLITE_ERROR;
    while (s && (code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = trace_sql_text(t, s, 0), *value = trace_sql_text(t, s, 1);
        if (name && value && t->label_count < VS_LABELS_MOST) /* more, of a damaged file, say nothing */
            *PUSH(t->labels, t->label_count) = (struct trace_run_label){name, value};
    }
    return trace_sql_done(t, s, code);
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
