/*
 * tensors.c - what blocks were asked for as, in the page (dims.h). Rows differ where the bytes that were
 * asked for do, and names only where words do.
 */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "read/living.h"
#include "view.h"

static void name_rows(struct view_asked *a)
{
    texts_index(&a->names, "no tensor is known", NULL);
    a->name[0] = 0;
    for (size_t i = 1; i < a->table.n; i++) {
        const struct asked *row = &a->table.at[i];
        char *words = trace_tensor_words(row->made_for, row->element_type, row->extents);
        a->name[i] = words ? texts_index(&a->names, shown(words), NULL) : 0;
        free(words);
    }
}

int view_read_asked(struct trace *t, struct view_asked *a)
{
    *a = (struct view_asked){0};
    if (asked_read(t, &a->table))
        return -1;
    a->name = xrealloc(NULL, a->table.n * sizeof *a->name);
    a->number = xrealloc(NULL, a->table.n * sizeof *a->number);
    a->used = xrealloc(NULL, a->table.n * sizeof *a->used);
    name_rows(a);
    view_forget_asked(a);
    return 0;
}

void view_free_asked(struct view_asked *a)
{
    asked_free(&a->table);
    free(a->name);
    free(a->number);
    free(a->used);
    texts_free(&a->names);
    *a = (struct view_asked){0};
}

void view_index_asked(struct trace_block *blocks, size_t n, const struct view_asked *a)
{
    for (size_t i = 0; i < n; i++)
        blocks[i].tensor = asked_find(&a->table, blocks[i].tensor);
}

void view_forget_asked(struct view_asked *a)
{
    memset(a->number, 0, a->table.n * sizeof *a->number);
    a->used_count = 0;
}

uint32_t view_use_asked(struct view_asked *a, uint32_t row)
{
    if (row && !a->number[row]) {
        a->used[a->used_count++] = row;
        a->number[row] = a->used_count;
    }
    return a->number[row];
}

void view_write_asked(struct json *j, const struct view_asked *a)
{
    json_begin(j, "tensors", '[');
    json_text(j, NULL, "");
    for (uint32_t i = 0; i < a->used_count; i++) {
        uint32_t name = a->name[a->used[i]];
        json_text(j, NULL, name ? a->names.at[name] : "");
    }
    json_end(j);
    json_begin(j, "tensor_names", '[');
    json_int(j, NULL, 0);
    for (uint32_t i = 0; i < a->used_count; i++)
        json_int(j, NULL, a->name[a->used[i]]);
    json_end(j);
    json_begin(j, "requests", '[');
    json_int(j, NULL, UNKNOWN);
    for (uint32_t i = 0; i < a->used_count; i++) {
        uint64_t bytes = a->table.at[a->used[i]].bytes;
        json_int(j, NULL, bytes ? (int64_t)bytes : UNKNOWN);
    }
    json_end(j);
}
