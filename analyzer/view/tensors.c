/*
 * tensors.c - what blocks were asked for as, in the page: of the recording's table of tensors the rows that a
 * block in the page names, each with a number that is given when it is first named (view.h).
 */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "view.h"

int view_read_asked(struct trace *t, struct view_asked *a)
{
    *a = (struct view_asked){0};
    if (trace_asked(t, &a->rows, &a->count))
        return -1;
    a->number = xrealloc(NULL, (a->count + 1) * sizeof *a->number);
    a->used = xrealloc(NULL, (a->count + 1) * sizeof *a->used);
    view_forget_asked(a);
    return 0;
}

void view_forget_asked(struct view_asked *a)
{
    memset(a->number, 0, (a->count + 1) * sizeof *a->number);
    a->n_used = 0;
}

void view_free_asked(struct view_asked *a)
{
    free(a->rows);
    free(a->number);
    free(a->used);
    *a = (struct view_asked){0};
}

uint32_t view_use_asked(struct view_asked *a, uint32_t id)
{
    const struct trace_asked *row = id ? trace_find_asked(a->rows, a->count, id) : NULL;
    if (!row)
        return 0;
    size_t at = (size_t)(row - a->rows);
    if (!a->number[at]) {
        a->used[a->n_used++] = (uint32_t)at;
        a->number[at] = a->n_used;
    }
    return a->number[at];
}

void view_write_asked(struct json *j, const struct view_asked *a)
{
    json_begin(j, "tensors", '[');
    json_text(j, NULL, "");
    for (uint32_t i = 0; i < a->n_used; i++) {
        const struct trace_asked *row = &a->rows[a->used[i]];
        char *words = trace_tensor_words(row->made_for, row->element_type, row->shape);
        json_text(j, NULL, words ? shown(words) : "");
        free(words);
    }
    json_end(j);
    json_begin(j, "requests", '[');
    json_int(j, NULL, UNKNOWN);
    for (uint32_t i = 0; i < a->n_used; i++)
        json_int(j, NULL, a->rows[a->used[i]].request);
    json_end(j);
}
