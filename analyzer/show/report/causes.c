/*
 * causes.c - see causes.h.
 *
 * Each sentence must hold for every program that has its figure; tests/e2e/cli/cli_causes.sh has programs
 * for which careless wordings would be false.
 */
#include "causes.h"

#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "base/wrap.h"
#include "read/living.h"
#include "read/stacks.h"
#include "frames.h"

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
