/*
 * whatif_edits.c - `vramscope whatif`: what the recorded program would take if it were changed (edit/).
 *
 * Without --edit each change is tried alone; with it those that are named, one after the other.  Every change
 * is another program, and independent of the others (whatif/answers.h).
 */
#include "whatif_edits.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"

static int by_savings(const void *a, const void *b, void *base)
{
    int64_t x = answered_saves(base, a), y = answered_saves(base, b);
    return x < y   ? 1
           : x > y ? -1
                   : strcmp(((const struct answered *)a)->name, ((const struct answered *)b)->name);
}

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

/* What lived before the recording began is in no block: a sum without it would be no answer. */
static int refuse_late(const struct edits_question *q, struct json *j)
{
    static const char why[] = "the framework held memory before the recording began";
    if (j) {
        json_begin(j, "edits", '[');
        json_end(j);
        json_text(j, "refusal", NULL);
    } else if (q->edits->count) {
        return complain("whatif: --edit: not known: %s", why);
    } else {
        printf("changes of the program: not known: %s\n", why);
    }
    return 0;
}

int edits_answer(struct trace *t, int64_t device, const struct edits_question *q, struct json *j)
{
    struct edit_facts facts;
    struct program from;
    size_t n;
    if (q->late)
        return refuse_late(q, j);
    if (program_read(t, device, SIZE_MAX, q->native, &from, &facts)) {
        complain("whatif: %s", t->why);
        program_free_facts(&facts);
        return EXIT_FAILURE;
    }
    struct answered *rows = answered_rows(&from, q->edits, &n);
    answered_work(&from, q, rows, n);
    int status = 0;
    if (q->edits->count && rows[1].why) {
        char *names = rows[1].edit_count > 1 ? xstrdup("") : xformat("%s: ", rows[1].name);
        if (!j)
            status =
                complain("whatif: %s%s%s", names, rows[1].nothing ? "nothing to change: " : "", rows[1].why);
        free(names);
    }
    qsort_r(rows + 1, n - 1, sizeof *rows, by_savings, rows);
    if (j)
        answered_print_json(j, &from, q, rows, n);
    else if (!status)
        answered_print_text(&from, q, rows, n);
    answered_free(rows, n);
    program_free(&from);
    program_free_facts(&facts);
    if (j)
        json_text(j, "refusal", NULL);
    return status;
}
