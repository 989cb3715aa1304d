/*
 * whatif_edits.c - `vramscope whatif`: what the recorded program would take if it were changed (edit/).
 *
 * Without --edit each change is tried alone; with it those that are named, one after the other.  Every change
 * is another program, and independent of the others (whatif/answers.h).
 */
#include "whatif_edits.h"

#include <stdlib.h>

#include "base/shown.h"

int edits_check(const struct arg_list *edits)
{
    struct edit *all = xrealloc(NULL, (edits->count + 1) * sizeof *all);
    int status = 0;
    for (size_t i = 0; i < edits->count && !status; i++) {
        char *why = NULL;
        if (edit_parse(edits->values[i], &all[i], &why))
            why = edit_contradiction(all, i + 1);
        if (why)
            status = complain("whatif: --edit %s: %s", shown(edits->values[i]), why);
        free(why);
    }
    free(all);
    return status;
}

int edits_ask(struct trace *t, int64_t device, const struct edits_question *q, struct edits *out)
{
    *out = (struct edits){.rows = NULL};
    if (program_read(t, device, SIZE_MAX, q->native, &out->from, &out->facts)) {
        program_free_facts(&out->facts);
        return -1;
    }
    out->rows = answered_rows(&out->from, q->edits, &out->n);
    answered_work(&out->from, q, out->rows, out->n);
    return 0;
}

int edits_complain(const struct edits *e, const struct edits_question *q)
{
    const struct answered *row = &e->rows[e->n > 1];
    if (!q->edits->count || !row->why)
        return 0;
    char *names = row->edit_count > 1 ? xstrdup("") : xformat("%s: ", row->name);
    int status = complain("whatif: %s%s%s", names, row->nothing ? "nothing to change: " : "", row->why);
    free(names);
    return status;
}

void edits_free(struct edits *e)
{
    answered_free(e->rows, e->n);
    program_free(&e->from);
    program_free_facts(&e->facts);
}
