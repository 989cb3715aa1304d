/*
 * process.c - what the rows of a process share: ranges, steps, folded stretches, call stacks and their texts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "read/steps.h"
#include "view.h"

enum { STEPS = 20000 };

void view_use_stack(struct view_process *process, uint32_t row)
{
    const struct trace_stacks *s = &process->stacks;
    while (row && row <= s->count && !process->stack_used[row]) {
        process->stack_used[row] = true;
        const struct trace_stack_row *parent = trace_find_stack(s, s->rows[row - 1].parent);
        row = parent ? (uint32_t)(parent - s->rows) + 1 : 0;
    }
}

/* ---- texts ---- */

static uint32_t row_of(const struct trace_stacks *s, int64_t id)
{
    const struct trace_stack_row *r = trace_find_stack(s, id);
    return r ? (uint32_t)(r - s->rows) + 1 : 0;
}

static void write_stack_field(struct json *j, const struct view_process *p, const char *name, int field,
                              const uint32_t *frames)
{
    json_begin(j, name, '[');
    for (size_t i = 1; i <= p->stacks.count; i++) {
        const struct trace_stack_row *r = &p->stacks.rows[i - 1];
        if (!p->stack_used[i])
            continue;
        const int64_t values[] = {(int64_t)i, row_of(&p->stacks, r->parent), frames[i], p->tags.stack_line[i],
                                  p->tags.stack_layer[i]};
        json_int(j, NULL, values[field]);
    }
    json_end(j);
}

static void write_list(struct json *j, const char *name, const struct texts *texts, const bool *used)
{
    json_begin(j, name, '[');
    for (size_t i = 0; i < texts->n; i++)
        json_text(j, NULL, !used || used[i] ? texts->at[i] : "");
    json_end(j);
}

static void write_numbers(struct json *j, const char *name, const uint32_t *numbers, size_t n)
{
    json_begin(j, name, '[');
    for (size_t i = 0; i < n; i++)
        json_int(j, NULL, numbers[i]);
    json_end(j);
}

/* Of the texts those that a stack in use has. */
static void write_tags(struct json *j, const struct view_process *p)
{
    const struct view_tags *g = &p->tags;
    bool *line = xrealloc(NULL, g->lines.n), *layer = xrealloc(NULL, g->layers.n);
    memset(line, 0, g->lines.n);
    memset(layer, 0, g->layers.n);
    line[0] = layer[0] = true;
    for (size_t i = 1; i <= p->stacks.count; i++)
        if (p->stack_used[i])
            line[g->stack_line[i]] = layer[g->stack_layer[i]] = true;
    write_list(j, "lines", &g->lines, line);
    write_list(j, "layers", &g->layers, layer);
    write_numbers(j, "folds", g->layer_fold, g->layers.n);
    write_numbers(j, "owns", g->layer_own, g->layers.n);
    free(line);
    free(layer);
}

/* A frame's number in the page, for each row of the table; frames that differ in their addresses alone are
 * one. */
static uint32_t *number_frames(const struct view_process *p, struct texts *texts)
{
    const struct trace_stacks *s = &p->stacks;
    uint32_t *numbers = xrealloc(NULL, (s->count + 1) * sizeof *numbers);
    memset(numbers, 0, (s->count + 1) * sizeof *numbers);
    for (size_t i = 1; i <= s->count; i++) {
        if (!p->stack_used[i])
            continue;
        const struct trace_frame_row *f = trace_find_frame(s, s->rows[i - 1].frame);
        char *text = f ? xformat("%d\n%s\n%s", (int)f->is.kind, f->text ? shown(f->text) : "",
                                 f->file ? shown(f->file) : "")
                       : xstrdup("0\nunknown\n");
        numbers[i] = texts_index(texts, text, NULL);
        free(text);
    }
    return numbers;
}

static void write_texts(struct view_part *part, struct view_process *p, const struct texts *scopes)
{
    static const char *const fields[] = {"row", "parent", "frame", "line", "layer"};
    struct texts texts = {0};
    uint32_t *frames = number_frames(p, &texts);
    char *text = NULL;
    size_t size = 0;
    FILE *out = xmemstream(&text, &size);
    struct json j;
    json_open(&j, out);
    json_begin(&j, NULL, '{');
    for (int i = 0; i < 5; i++)
        write_stack_field(&j, p, fields[i], i, frames);
    write_list(&j, "frames", &texts, NULL);
    write_tags(&j, p);
    write_list(&j, "scopes", scopes, NULL);
    view_write_asked(&j, &p->asked);
    json_end(&j);
    json_close(&j);
    fclose(out);
    struct pack pack = {(unsigned char *)text, size, size};
    char *id = xformat("d%u", part->number++);
    pack_write(&pack, id, part->body);
    json_text(part->head, "texts", id);
    free(id);
    free(frames);
    texts_free(&texts);
}

/* ---- ranges ---- */

enum { PUSH_TIME, LENGTH, DEPTH, THREAD, NAME, PHASE, FIELDS };

static void write_scopes(struct view_part *part, const struct trace_scope *scopes, size_t n, size_t total,
                         struct texts *names)
{
    struct pack fields[FIELDS] = {0}, out = {0};
    int64_t before = 0;
    for (size_t i = 0; i < n; i++) {
        const struct trace_scope *s = &scopes[i];
        pack_signed(&fields[PUSH_TIME], s->push - before);
        pack_number(&fields[LENGTH],
                    s->pop == UNKNOWN || s->pop < s->push ? 0 : (uint64_t)(s->pop - s->push) + 1);
        pack_number(&fields[DEPTH], (uint64_t)s->depth);
        pack_number(&fields[THREAD], s->thread > 0 ? (uint64_t)s->thread : 0);
        pack_number(&fields[NAME], texts_index(names, s->name ? shown(s->name) : "unnamed", NULL));
        pack_number(&fields[PHASE], s->phase > 0 ? (uint64_t)s->phase : 0);
        before = s->push;
    }
    pack_number(&out, n);
    for (int i = 0; i < FIELDS; i++) {
        pack_section(&out, &fields[i]);
        pack_free(&fields[i]);
    }
    char *id = xformat("d%u", part->number++);
    pack_write(&out, id, part->body);
    json_text(part->head, "scopes", id);
    json_int(part->head, "scope_count", (int64_t)n);
    json_int(part->head, "scope_total", (int64_t)total);
    free(id);
}

/* ---- steps and stretches ---- */

/* Of more than STEPS every so many. */
static int write_steps(struct view_part *part, struct trace *t)
{
    struct trace_step_end *steps;
    size_t n, each;
    if (trace_step_ends(t, &steps, &n))
        return -1;
    each = n / STEPS + 1;
    json_begin(part->head, "steps", '[');
    for (size_t i = each - 1; i < n; i += each) {
        json_begin(part->head, NULL, '[');
        json_int(part->head, NULL, steps[i].step);
        json_int(part->head, NULL, steps[i].t);
        json_end(part->head);
    }
    json_end(part->head);
    json_int(part->head, "step_count", t->steps);
    free(steps);
    return 0;
}

static int write_stretches(struct view_part *part, struct trace *t)
{
    struct trace_stretch *stretches;
    size_t n;
    if (trace_stretches(t, &stretches, &n))
        return -1;
    json_begin(part->head, "stretches", '[');
    for (size_t i = 0; i < n; i++) {
        json_begin(part->head, NULL, '[');
        json_int(part->head, NULL, stretches[i].from);
        json_int(part->head, NULL, stretches[i].to);
        json_int(part->head, NULL, stretches[i].events);
        json_end(part->head);
    }
    if (t->unwritten) { /* there was no room for rows: from there on extremes alone are known */
        json_begin(part->head, NULL, '[');
        json_int(part->head, NULL, t->unwritten_from);
        json_int(part->head, NULL, t->t_last);
        json_int(part->head, NULL, t->unwritten);
        json_end(part->head);
    }
    json_end(part->head);
    free(stretches);
    return 0;
}

/* The peaks of what no row has, because it is in no device's total. */
static void write_outside(struct view_part *part, const struct trace *t)
{
    static const char *const kinds[] = {"pinned", "registered", "managed", "host_vmm", "imported"};
    json_begin(part->head, "outside", '[');
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < t->peak_count; i++) {
            const struct trace_peak *peak = &t->peaks[i];
            if (!peak->kind || strcmp(peak->kind, kinds[k]) || peak->bytes <= 0)
                continue;
            json_begin(part->head, NULL, '{');
            json_text(part->head, "kind", kinds[k]);
            json_int(part->head, "device", peak->device);
            json_int(part->head, "bytes", peak->bytes);
            json_bool(part->head, "at_least", peak->at_least);
            json_bool(part->head, "at_most", peak->at_most);
            json_end(part->head);
        }
    json_end(part->head);
}

static void write_facts(struct view_part *part, const struct view_process *p)
{
    const struct trace *t = p->t;
    char *incomplete = trace_not_whole_line(t);
    json_text(part->head, "label", shown(p->label));
    json_text(part->head, "command", t->process.command ? shown(t->process.command) : NULL);
    json_text(part->head, "host", t->process.host ? shown(t->process.host) : NULL);
    json_int(part->head, "pid", t->process.pid);
    json_int(part->head, "rank", t->process.rank);
    char *mark = trace_mark_line(t);
    json_text(part->head, "mark", mark);
    free(mark);
    json_int(part->head, "offset", p->offset);
    json_int(part->head, "last", t->t_last);
    json_text(part->head, "incomplete", shown(incomplete));
    free(incomplete);
    json_begin(part->head, "notes", '['); /* what the report says of the whole recording */
    for (size_t i = 0; i < t->loss_count; i++)
        if (t->losses[i].kind == LOSS_NOTE && t->losses[i].why)
            json_text(part->head, NULL, shown(t->losses[i].why));
    json_end(part->head);
    json_begin(part->head, "phases", '[');
    for (size_t i = 0; i < t->phase_name_count; i++)
        json_text(part->head, NULL, t->phase_names[i] ? shown(t->phase_names[i]) : "");
    json_end(part->head);
    write_outside(part, t);
}

int view_write_process(struct view_part *part, struct view_process *p)
{
    struct trace_scope *scopes;
    struct texts names = {0};
    size_t n, total;
    if (trace_scopes(p->t, part->room->scopes, &scopes, &n, &total))
        return -1;
    json_begin(part->head, NULL, '{');
    write_facts(part, p);
    write_scopes(part, scopes, n, total, &names);
    write_texts(part, p, &names);
    int result = write_steps(part, p->t) || write_stretches(part, p->t) ? -1 : 0;
    json_end(part->head);
    texts_free(&names);
    free(scopes);
    return result;
}
