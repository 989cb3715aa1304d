/* peak_json.c - `vramscope peak` of a device as JSON. */
#include <stdlib.h>

#include "show/report/parts.h"
#include "trace/journal/journal.h"
#include "trace/roles.h"
#include "show/ranks/ranks.h"
#include "read/living.h"
#include "read/stacks.h"
#include "peak_page.h"
#include "show/report/unused.h"

static const char *frame_kind(const struct trace_frame *f)
{
    switch (f->kind) {
    case VS_FRAME_PYTHON:
        return "python";
    case VS_FRAME_NODE:
        return "autograd";
    case VS_FRAME_LAYER:
        return "layer";
    default:
        return "native";
    }
}

static void stack_json(struct trace *t, int64_t id, struct json *j)
{
    struct trace_frame *frames;
    size_t n;
    json_begin(j, "frames", '[');
    if (id && !trace_stack(t, id, &frames, &n)) {
        for (size_t i = 0; i < n; i++) {
            json_begin(j, NULL, '{');
            json_text(j, "kind", frame_kind(&frames[i]));
            json_text(j, "module", frames[i].module);
            json_int(j, "offset", frames[i].offset);
            json_text(j, "function", frames[i].function);
            json_text(j, "file", frames[i].file);
            json_int(j, "line", frames[i].line);
            json_end(j);
        }
        free(frames);
    }
    json_end(j);
}

static void tensor_json(const struct trace_tensor *x, struct json *j)
{
    json_text(j, "made_for", x->made_for);
    json_text(j, "element_type", x->element_type);
    json_text(j, "shape", x->shape);
    json_int(j, "request_bytes", x->request);
    json_text(j, "line", x->line);
    role_json(x->role, j);
}

static void groups_json(const struct peak_page *p, enum holder_by by, struct json *j)
{
    size_t n;
    struct holder *groups = peak_groups(p, by, &n);
    char *name = xformat("by_%s", peak_questions[by]);
    peak_sort_groups(p, groups, n, by);
    json_begin(j, name, '[');
    for (size_t i = 0; i < choice_rows(&p->o->choice, n, PEAK_ROWS); i++) {
        const struct holder *h = &groups[i];
        json_begin(j, NULL, '{');
        if (by == BY_STACK)
            json_int(j, "stack", h->stack);
        else if (by == BY_TENSOR)
            tensor_json(&h->tensor, j);
        else
            json_text(j, peak_questions[by],
                      by == BY_LINE       ? h->line
                      : by == BY_LAYER    ? h->layer
                      : by == BY_ROLE     ? h->role
                      : by == BY_PHASE    ? h->phase
                      : by == BY_CATEGORY ? h->category
                                          : h->owner);
        if (by == BY_LINE)
            json_bool(j, "workspace", h->role != NULL);
        if (by == BY_ROLE) {
            json_text(j, "old_role", vs_role_before(h->role));
            json_text(j, "phase", h->phase);
        }
        if (by == BY_LINE || by == BY_LAYER || by == BY_ROLE || by == BY_TENSOR || by == BY_LIBRARY ||
            by == BY_STACK) /* for rows without a line, library or stack */
            json_text(j, "category", h->category);
        json_int(j, "size_bytes", groups[i].bytes);
        json_int(j, "allocations", groups[i].count);
        if (by == BY_STACK)
            stack_json(p->t, groups[i].stack, j);
        json_end(j);
    }
    json_end(j);
    free(name);
    free(groups);
}

void peak_json(const struct peak_page *p, struct json *j)
{
    const struct device_report *d = p->d;
    int only = p->o->only;
    json_begin(j, NULL, '{');
    json_text(j, "at", p->oom ? "oom" : "peak");
    if (p->oom)
        oom_report_json(p->oom, p->t, j);
    json_int(j, "device", d->device);
    json_int(j, "allocated_bytes", trace_peak_bytes(d->allocated));
    json_int(j, "known_bytes", d->allocated->bytes);
    json_int(j, "held_bytes", d->held_bytes);
    json_int(j, "reserved_then_bytes", d->reserved_at_peak);
    report_away_json(d, j);
    json_int(j, "t_ns", d->allocated->t);
    json_int(j, "step", d->step_at_peak);
    json_text(j, "phase", d->phase_at_peak);
    for (int by = 0; by < PEAK_QUESTIONS; by++)
        if (only < 0 || by == only)
            groups_json(p, (enum holder_by)by, j);
    if (only < 0 || only == BY_ROLE) {
        report_parts_json(d->live, d->live_count, j);
        if (p->o->why)
            report_rules_json(p->t, d->device, p->oom ? p->oom->lead->seq : UNKNOWN, j);
    }
    if (only < 0 && !p->oom) {
        report_unused_json(p->t, &d->unused, "not_allocated", j);
        report_unused_json(p->t, &d->unused_most, "not_allocated_at_most_reserved", j);
    }
    if (only < 0 || only == PEAK_CAPTURES)
        report_captures_json(p->t, peak_captures(p), j);
    if (!p->oom) { /* these are about the peak */
        report_growth_json(p->t, &d->growth, j);
        report_savings_json(&d->savings, j);
        report_residual_json(d, j);
    }
    json_end(j);
}
