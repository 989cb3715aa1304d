/*
 * causes.c - why the peak is as high as it is: a sentence for each cause that the recording shows, and in
 * the whole report two bounds (savings.h).
 *
 * Each sentence must hold for every program that has its figure; tests/e2e/cli/cli_causes.sh has programs
 * for which careless wordings would be false.
 */
#include <stdlib.h>
#include <string.h>

#include "stack.h"
#include "report.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "read/living.h"
#include "read/stacks.h"

#define B(n)      units_bytes(n, exact).s
#define OF_STACKS 64 /* call stacks of temporaries that are examined */

static void look_for_foreach(struct trace *t, struct causes *c)
{
    for (size_t i = 0; i < c->stack_count && i < OF_STACKS; i++) {
        struct trace_frame *frames;
        size_t n;
        if (!c->stacks[i].stack || trace_stack(t, c->stacks[i].stack, &frames, &n))
            continue;
        int at = causes_foreach(frames, n);
        if (at >= 0) {
            int64_t more = c->stacks[i].bytes, room = c->temporaries - c->foreach_bytes;
            c->foreach_bytes += more < 0 ? 0 : more < room ? more : room; /* a damaged file has any number */
            if (!c->foreach_frame)
                c->foreach_frame = frame_text(&frames[at], false);
        }
        free(frames);
    }
}

void report_load_causes(struct trace *t, struct device_report *d, const struct trace_step_memory *m)
{
    struct peak_facts peak = {.seq = d->allocated->seq,
                              .bytes = d->allocated->bytes,
                              .phase = d->phase_at_peak,
                              .live = d->live,
                              .live_count = d->live_count,
                              .left = UNKNOWN};
    if (m->step != UNKNOWN)
        peak.left = trace_live_since(t, d->device, "backward", m->first_seq);
    d->causes = causes_of(&peak, m, &d->savings, &d->growth, t->phase_names, t->phase_name_count);
    if (d->causes.temporaries)
        look_for_foreach(t, &d->causes);
}

/* ": at least 3.06 GiB without them", if the replay gave a floor. */
static char *bound_text(const struct savings *s, const char *phase, bool exact)
{
    if (!s->known || s->floor == UNKNOWN || s->floor >= s->peak || !s->phases[0] ||
        strcmp(s->phases[0], phase) != 0)
        return xstrdup("");
    return xformat("; without what %s makes%s%s%s and frees again, the peak would be at least %s", phase,
                   s->phases[1] ? ", and what " : "", s->phases[1] ? shown(s->phases[1]) : "",
                   s->phases[1] ? " makes" : "", B(s->floor));
}

static void print_logits(const struct device_report *d, FILE *out, bool exact)
{
    const struct causes *c = &d->causes;
    if (!c->logits)
        return;
    char *line = c->logits_line ? line_text(c->logits_line) : NULL;
    char *bound = bound_text(&d->savings, "logits", exact);
    wrap_print(out, 4, 6, "logits: %s of it was made in logits%s%s%s", B(c->logits), line ? ", most by " : "",
               line ? line : "", bound);
    free(bound);
    free(line);
}

static void print_temporaries(const struct device_report *d, FILE *out, bool exact)
{
    const struct causes *c = &d->causes;
    if (!c->temporaries)
        return;
    char *bound = bound_text(&d->savings, "optimizer", exact);
    if (c->foreach_bytes * 2 > c->temporaries)
        wrap_print(out, 4, 6,
                   "optimizer: %s of it are temporaries of its foreach implementation (%s); foreach=False "
                   "makes them for one parameter at a time%s",
                   B(c->foreach_bytes), c->foreach_frame, bound);
    else
        wrap_print(out, 4, 6, "optimizer: %s of it were made in this optimizer step, and freed in it%s",
                   B(c->temporaries), bound);
    free(bound);
}

static void print_left(const struct device_report *d, FILE *out, bool exact)
{
    if (d->causes.left)
        wrap_print(out, 4, 6,
                   "kept: %s of it was made in backward by earlier steps: gradients, if zero_grad() comes "
                   "after the forward, with set_to_none=False, or not at all",
                   B(d->causes.left));
}

void report_causes_text(const struct device_report *d, FILE *out, bool exact)
{
    print_logits(d, out, exact);
    print_temporaries(d, out, exact);
    print_left(d, out, exact);
}

void report_causes_json(const struct device_report *d, struct json *j)
{
    const struct causes *c = &d->causes;
    json_begin(j, "causes", '{');
    json_int(j, "logits_bytes", c->logits ? c->logits : UNKNOWN);
    json_text(j, "logits_line", c->logits_line);
    json_int(j, "optimizer_temporary_bytes", c->temporaries ? c->temporaries : UNKNOWN);
    json_int(j, "optimizer_foreach_bytes", c->foreach_bytes ? c->foreach_bytes : UNKNOWN);
    json_text(j, "optimizer_foreach_frame", c->foreach_frame);
    json_int(j, "left_by_backward_bytes", c->left ? c->left : UNKNOWN);
    json_end(j);
}

/* ---- bounds ---- */

static void print_static(const struct savings *s, FILE *out, bool exact)
{
    int64_t fixed = s->static_bytes - s->left_bytes;
    wrap_print(out, 4, 6, "static memory, there before the step and after it, is %s of the peak's %s (%s)%s",
               B(fixed), B(s->peak), units_share(fixed, s->peak).s,
               s->left_bytes || s->states_bytes ? ";" : ":");
    if (s->left_bytes)
        wrap_print(out, 4, 6, "%s (%s) were left by earlier steps, each of which adds to it (growth)%s",
                   B(s->left_bytes), units_share(s->left_bytes, s->peak).s, s->states_bytes ? ";" : ":");
    if (s->states_bytes)
        wrap_print(out, 4, 6,
                   "%s (%s) were made by the optimizer in this step, and kept:", B(s->states_bytes),
                   units_share(s->states_bytes, s->peak).s);
    fprintf(out, "      less memory for loss and activations%s can save at most %s\n",
            s->left_bytes ? " of one step" : "", B(s->peak - s->static_bytes - s->states_bytes));
}

static void print_own(const struct savings *s, FILE *out, bool exact)
{
    bool outside = !s->floor_phase || !strcmp(s->floor_phase, "none");
    wrap_print(out, 4, 6,
               "without what %s makes%s%s%s and frees again, it would be at least %s, %s%s: at most %s (%s) "
               "lower",
               shown(s->phases[0]), s->phases[1] ? ", and " : "", s->phases[1] ? shown(s->phases[1]) : "",
               s->phases[1] ? " makes" : "", B(s->floor), outside ? "outside any phase" : "in ",
               outside ? "" : shown(s->floor_phase), B(s->peak - s->floor),
               units_share(s->peak - s->floor, s->peak).s);
}

static void print_uncalled(const struct savings *s, FILE *out)
{
    if (s->uncalled_classes <= 0)
        return;
    fprintf(out,
            "%s    an output layer of %lld classes ran where no hook sees it (torch.compile, F.linear,\n",
            s->known || s->why ? "" : "\n", (long long)s->uncalled_classes);
    fprintf(out,
            "      a fused loss): what its logits take is in other phases, and what another loss would save\n"
            "      is not known\n");
}

void report_savings_text(const struct savings *s, FILE *out, bool exact)
{
    if (!s->known && s->why)
        fprintf(out, "\n  what would lower the peak: unknown, %s\n", s->why);
    if (s->known) {
        fprintf(out, "\n  what would lower the peak (step %lld)\n", (long long)s->step);
        print_static(s, out, exact);
        if (s->floor != UNKNOWN && s->floor < s->peak)
            print_own(s, out, exact);
    }
    print_uncalled(s, out);
}

void report_savings_json(const struct savings *s, struct json *j)
{
    bool own = s->known && s->floor != UNKNOWN;
    json_begin(j, "savings", '{');
    json_text(j, "unknown_because", s->known ? NULL : s->why);
    json_int(j, "static_bytes", s->known ? s->static_bytes - s->left_bytes : UNKNOWN);
    json_int(j, "left_by_earlier_steps_bytes", s->known ? s->left_bytes : UNKNOWN);
    json_int(j, "made_by_optimizer_bytes", s->known ? s->states_bytes : UNKNOWN);
    json_int(j, "step_saves_at_most_bytes", s->known ? s->peak - s->static_bytes - s->states_bytes : UNKNOWN);
    json_begin(j, "without_phases", '[');
    for (int i = 0; own && i < 2 && s->phases[i]; i++)
        json_text(j, NULL, s->phases[i]);
    json_end(j);
    json_int(j, "peak_without_bytes", own ? s->floor : UNKNOWN);
    json_text(j, "peak_without_phase", own ? s->floor_phase : NULL);
    json_int(j, "phases_save_at_most_bytes", own ? s->peak - s->floor : UNKNOWN);
    json_int(j, "output_layer_not_called_classes", s->uncalled_classes > 0 ? s->uncalled_classes : UNKNOWN);
    json_end(j);
}
