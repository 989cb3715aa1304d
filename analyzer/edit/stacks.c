/*
 * stacks.c - reads the call stacks: see stacks.h.
 *
 * A unit is a repeated part of the model, as the paths of its modules say (unit_names.c).
 */
#include "stacks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "read/lives.h"
#include "read/stream.h"
#include "read/stacks.h"
#include "names.h"
#include "trace/journal/journal.h"
#include "unit_names.h"

#define PATTERNS_MOST 6

static char *join(char *list, const char *more, const char *between)
{
    char *longer = xformat("%s%s%s", list ? list : "", list ? between : "", more);
    free(list);
    return longer;
}

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || !at[n]))
            return true;
    return false;
}

/* "ConvNeXt.features.*, ConvNeXt.features.*.*" */
static void name_units(struct edit_facts *f, const struct names *units)
{
    size_t patterns = 0;
    for (size_t i = 0; i < units->n && patterns <= PATTERNS_MOST; i++) {
        char *pattern = unit_names_pattern(units->text[i], units->length[i]);
        if (!has_word(f->units_name, shown(pattern)) && patterns++ < PATTERNS_MOST)
            f->units_name = join(f->units_name, shown(pattern), ", ");
        free(pattern);
    }
    if (patterns > PATTERNS_MOST)
        f->units_name = join(f->units_name, "others", " and ");
}

/* Which unit each of the model's LAYERS is in. */
static uint16_t *find_units(struct edit_facts *f, const struct names *layers)
{
    struct names units = {0};
    size_t *lengths = xrealloc(NULL, (layers->n + 1) * sizeof *lengths);
    uint16_t *of = xrealloc(NULL, (layers->n + 1) * sizeof *of);
    of[0] = EDIT_NO_UNIT;
    unit_names_find(layers->text + 1, layers->n - 1, lengths + 1);
    for (size_t i = 1; i < layers->n; i++) {
        uint16_t unit = lengths[i] ? names_number(&units, layers->text[i], lengths[i]) : EDIT_NO_UNIT;
        of[i] = unit < UNITS_MOST ? unit : EDIT_NO_UNIT;
    }
    f->units = units.n < UNITS_MOST ? (uint16_t)units.n : UNITS_MOST;
    name_units(f, &units);
    free(lengths);
    names_free(&units);
    return of;
}

#define IDS_LEAST 65536
#define IDS_RATIO 64 /* ids over rows: numbers are given in order, and few of them have no row */

/* One more than the greatest id, by which arrays are as long; 0: no recorder gave such ids (t->why). */
static size_t count_ids(struct trace *t, const struct trace_stacks *stacks)
{
    int64_t last = stacks->count ? stacks->rows[stacks->count - 1].id : 0; /* they are in order */
    if (last >= 0 && last < (int64_t)stacks->count * IDS_RATIO + IDS_LEAST)
        return (size_t)last + 1;
    snprintf(t->why, sizeof t->why,
             "%s is damaged: it has a call stack number %" PRId64
             ", and %zu call stacks: record again with vramscope run",
             shown(t->path), last, stacks->count);
    return 0;
}

static int read_layers(struct trace *t, struct edit_facts *f)
{
    struct trace_stacks stacks;
    struct names layers = {0};
    if (trace_stacks(t, &stacks))
        return -1;
    f->stack_count = count_ids(t, &stacks);
    if (!f->stack_count) {
        trace_free_stacks(&stacks);
        return -1;
    }
    f->stacks = xrealloc(NULL, f->stack_count * sizeof *f->stacks);
    for (size_t i = 0; i < f->stack_count; i++)
        f->stacks[i] = (struct edit_stack){.unit = EDIT_NO_UNIT};
    names_number(&layers, "", 0);
    for (size_t i = 0; i < stacks.count; i++) {
        const struct trace_stack_row *row = &stacks.rows[i];
        if (row->id <= 0 || row->id >= (int64_t)f->stack_count)
            continue;
        if (!row->layer)
            continue;
        f->layers = true;
        f->stacks[row->id].layer = names_number(&layers, row->layer, strlen(row->layer));
    }
    uint16_t *units = find_units(f, &layers);
    for (size_t i = 0; i < f->stack_count; i++)
        f->stacks[i].unit = f->stacks[i].layer < layers.n ? units[f->stacks[i].layer] : EDIT_NO_UNIT;
    free(units);
    f->layer_names = xrealloc(NULL, layers.n * sizeof *f->layer_names);
    for (; f->layer_count < layers.n; f->layer_count++)
        f->layer_names[f->layer_count] = xstrdup(layers.text[f->layer_count]);
    names_free(&layers);
    trace_free_stacks(&stacks);
    return 0;
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* What a frame says of all stacks that go through it. */
static void see_frame(struct edit_stack *s, const struct trace_frame *frame)
{
    const char *function = frame->function, *name = strrchr(function, '.');
    name = name ? name + 1 : function;
    if (begins(name, "_multi_tensor_") || begins(name, "_foreach_"))
        s->foreach = s->update = true;
    else if (begins(name, "_single_tensor_") || begins(name, "_fused_"))
        s->update = true;
    if (!strcmp(function, "Adam._init_group") || !strcmp(function, "AdamW._init_group") ||
        !strcmp(name, "_multi_tensor_adam") || !strcmp(name, "_multi_tensor_adamw") ||
        !strcmp(name, "_single_tensor_adam") || !strcmp(name, "_single_tensor_adamw"))
        s->adam = true;
    s->norm = s->norm || (frame->kind == VS_FRAME_LAYER && frame->file && strstr(frame->file, "Norm"));
    s->attends = s->attends || strcasestr(function, "attention");
    s->recurrent = s->recurrent || !strcmp(name, "CudnnRnnBackward0");
    s->convolves = s->convolves || begins(name, "ConvolutionBackward");
    s->squares = s->squares || begins(name, "PowBackward");
    s->softmax = s->softmax || !strcmp(name, "softmax") || begins(name, "SoftmaxBackward") ||
                 begins(name, "SafeSoftmaxBackward");
}

static int read_frames(struct trace *t, struct edit_facts *f)
{
    struct trace_paths paths;
    if (trace_load_paths(t, &paths))
        return -1;
    for (size_t i = 1; i < f->stack_count; i++) {
        const struct trace_node *node = trace_find_node(&paths, (int64_t)i);
        if (!node)
            continue;
        struct edit_stack *s = &f->stacks[i];
        if (node->parent > 0 && node->parent < (int64_t)i) { /* a parent comes before its children */
            const struct edit_stack *above = &f->stacks[node->parent];
            uint16_t unit = s->unit, layer = s->layer;
            *s = *above;
            s->unit = unit;
            s->layer = layer;
        }
        if (node->frame >= 0 && (size_t)node->frame < paths.frame_count && paths.frames[node->frame].function)
            see_frame(s, &paths.frames[node->frame]);
    }
    trace_free_paths(&paths);
    return 0;
}

int stacks_read(struct trace *t, struct edit_facts *facts)
{
    return read_layers(t, facts) || read_frames(t, facts) ? -1 : 0;
}

void stacks_order_units(struct edit_facts *f, const struct trace_blocks *blocks)
{
    uint16_t *order = xrealloc(NULL, (f->units + 1u) * sizeof *order), next = 0;
    for (size_t i = 0; i < f->units; i++)
        order[i] = EDIT_NO_UNIT;
    for (size_t i = 0; i < blocks->block_count && next < f->units; i++) {
        uint32_t stack = blocks->blocks[i].stack;
        uint16_t unit = stack < f->stack_count ? f->stacks[stack].unit : EDIT_NO_UNIT;
        if (unit != EDIT_NO_UNIT && order[unit] == EDIT_NO_UNIT &&
            program_is_forward(f, blocks->moments[blocks->blocks[i].born].phase))
            order[unit] = next++;
    }
    for (size_t i = 0; i < f->units; i++)
        if (order[i] == EDIT_NO_UNIT)
            order[i] = next++; /* made nothing in forward */
    for (size_t i = 0; i < f->stack_count; i++)
        if (f->stacks[i].unit != EDIT_NO_UNIT)
            f->stacks[i].unit = order[f->stacks[i].unit];
    free(order);
}
