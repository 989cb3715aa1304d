/*
 * stacks.c - what call stacks tell of blocks: the unit of the model, and how the optimizer works (program.h).
 */
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "read/stacks.h"
#include "trace/journal/journal.h"

/* ---- layers and frames ---- */

#define LAYERS_MOST UINT16_MAX /* beyond these a layer is none */

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

static int read_layers(struct trace *t, const struct trace_stacks *stacks, struct edit_facts *f)
{
    struct texts layers = {0};
    f->stack_count = count_ids(t, stacks);
    if (!f->stack_count)
        return -1;
    f->stacks = xrealloc(NULL, f->stack_count * sizeof *f->stacks);
    memset(f->stacks, 0, f->stack_count * sizeof *f->stacks);
    texts_index(&layers, "", NULL);
    for (size_t i = 0; i < stacks->count; i++) {
        const struct trace_stack_row *row = &stacks->rows[i];
        if (row->id <= 0 || row->id >= (int64_t)f->stack_count || !row->layer)
            continue;
        f->layers = true;
        size_t layer = texts_index(&layers, row->layer, NULL);
        f->stacks[row->id].layer = (uint16_t)(layer < LAYERS_MOST ? layer : 0);
    }
    f->layer_names = layers.at;
    f->layer_count = layers.n;
    free(layers.slots);
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

static void read_frames(const struct trace_stacks *stacks, struct edit_facts *f)
{
    for (size_t i = 1; i < f->stack_count; i++) {
        const struct trace_stack_row *node = trace_find_stack(stacks, (int64_t)i);
        if (!node)
            continue;
        struct edit_stack *s = &f->stacks[i];
        if (node->parent) { /* a parent comes before its children */
            const struct edit_stack *above = &f->stacks[node->parent];
            uint16_t layer = s->layer;
            *s = *above;
            s->layer = layer;
        }
        const struct trace_frame_row *row = trace_find_frame(stacks, node->frame);
        if (row && row->is.function)
            see_frame(s, &row->is);
    }
}

int stacks_read(struct trace *t, struct edit_facts *facts)
{
    struct trace_stacks stacks;
    if (trace_stacks(t, &stacks))
        return -1;
    int result = read_layers(t, &stacks, facts);
    if (!result)
        read_frames(&stacks, facts);
    trace_free_stacks(&stacks);
    return result;
}

/* ---- units ---- */

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
static void name_units(struct edit_facts *f, const size_t *lengths)
{
    size_t patterns = 0;
    for (size_t i = 0; i < f->layer_count && patterns <= PATTERNS_MOST; i++) {
        char *pattern = lengths[i] ? unit_names_pattern(f->layer_names[i], lengths[i]) : NULL;
        if (pattern && !has_word(f->units_name, shown(pattern)) && patterns++ < PATTERNS_MOST)
            f->units_name = join(f->units_name, shown(pattern), ", ");
        free(pattern);
    }
    if (patterns > PATTERNS_MOST)
        f->units_name = join(f->units_name, "others", " and ");
}

/* Numbers the N units of LAYERS in the order in which forward came to them, and behind these what it never
 * came to. */
static void put_in_order(const struct program *p, uint16_t *layers, size_t n)
{
    size_t count = p->facts->layer_count;
    uint16_t *order = xrealloc(NULL, (n + 1) * sizeof *order), next = 0;
    for (size_t i = 0; i < n; i++)
        order[i] = EDIT_NO_UNIT;
    for (size_t i = 0; i < p->block_count && next < n; i++) {
        uint16_t layer = program_stack(p, &p->blocks[i])->layer;
        uint16_t unit = layer < count ? layers[layer] : EDIT_NO_UNIT;
        if (unit != EDIT_NO_UNIT && order[unit] == EDIT_NO_UNIT &&
            program_is_forward(p->facts, p->events[p->blocks[i].born].phase))
            order[unit] = next++;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = order[i] == EDIT_NO_UNIT ? next++ : order[i];
    for (size_t i = 0; i < count; i++)
        layers[i] = layers[i] == EDIT_NO_UNIT ? EDIT_NO_UNIT : order[layers[i]];
    free(order);
}

uint16_t *stacks_units(const struct program *p, const size_t *lengths, uint16_t *n)
{
    const struct edit_facts *f = p->facts;
    struct texts units = {0};
    uint16_t *of = xrealloc(NULL, (f->layer_count + 1) * sizeof *of);
    for (size_t i = 0; i < f->layer_count; i++) {
        size_t unit = lengths[i] ? texts_index_part(&units, f->layer_names[i], lengths[i], NULL) : UNITS_MOST;
        of[i] = unit < UNITS_MOST ? (uint16_t)unit : EDIT_NO_UNIT;
    }
    *n = units.n < UNITS_MOST ? (uint16_t)units.n : UNITS_MOST;
    put_in_order(p, of, *n);
    texts_free(&units);
    return of;
}

void stacks_find_units(const struct program *p, struct edit_facts *f)
{
    size_t *lengths = xrealloc(NULL, (f->layer_count + 1) * sizeof *lengths);
    lengths[0] = 0;
    unit_names_find((const char *const *)f->layer_names + 1, f->layer_count - 1, lengths + 1);
    uint16_t *units = stacks_units(p, lengths, &f->units);
    for (size_t i = 0; i < f->stack_count; i++)
        f->stacks[i].unit = f->stacks[i].layer < f->layer_count ? units[f->stacks[i].layer] : EDIT_NO_UNIT;
    name_units(f, lengths);
    free(lengths);
    free(units);
}
