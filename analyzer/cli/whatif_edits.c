/*
 * whatif_edits.c - `vramscope whatif`: what the recorded program would take if it were changed (edit/).
 *
 * Without --edit each change is tried alone; with it those that are named, one after the other.  Every change
 * is another program, and independent of the others (whatif_answers.h).
 */
#include "whatif_edits.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "whatif_answers.h"

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

static char *name_of(const struct edit *edits, size_t n)
{
    char *name = xstrdup(edits[0].text);
    for (size_t i = 1; i < n; i++) {
        char *longer = xformat("%s %s", name, edits[i].text);
        free(name);
        name = longer;
    }
    return name;
}

/* The row of N edits; two, where one of them means two programs that are far from each other. */
static void add_rows(const struct program *from, const struct edit *edits, size_t n, struct answered **rows,
                     size_t *count)
{
    struct answered *row = PUSH(*rows, *count);
    *row = (struct answered){.edits = xrealloc(NULL, n * sizeof *edits), .edit_count = n};
    memcpy(row->edits, edits, n * sizeof *edits);
    for (size_t i = 0; i < n; i++) {
        struct edit other;
        if (!edit_split(from, &row->edits[i], &other))
            continue;
        row->name = name_of(row->edits, n);
        struct answered *second = PUSH(*rows, *count);
        *second = (struct answered){.edits = xrealloc(NULL, n * sizeof *edits), .edit_count = n};
        memcpy(second->edits, edits, n * sizeof *edits);
        second->edits[i] = other;
        second->name = name_of(second->edits, n);
        return;
    }
    row->name = name_of(row->edits, n);
}

static struct answered *rows_of(const struct program *from, const struct arg_list *names, size_t *n)
{
    struct answered *rows = NULL;
    size_t count;
    *n = 0;
    *PUSH(rows, *n) = (struct answered){.name = xstrdup("as recorded")};
    if (!names->count) {
        const struct edit *all = edit_all(&count);
        for (size_t i = 0; i < count; i++)
            add_rows(from, &all[i], 1, &rows, n);
        return rows;
    }
    struct edit *own = xrealloc(NULL, names->count * sizeof *own);
    char *why;
    for (size_t i = 0; i < names->count; i++)
        edit_parse(names->values[i], &own[i], &why);
    add_rows(from, own, names->count, &rows, n);
    free(own);
    return rows;
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
    struct answered *rows = rows_of(&from, q->edits, &n);
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
