/*
 * savings.c - bounds on a lower peak, in two sentences: the bytes below which no change of one step's work
 * can get, and the bytes that a change of the phase at the peak could save at most.
 */
#include <string.h>

#include "report.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/wrap.h"

#define B(n) units_bytes(n, exact).s

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
