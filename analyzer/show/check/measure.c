/*
 * measure.c - one limit held against one process: what its figure can have been, and what made it.  Where
 * events were lost, or the process was killed or ran out of memory and did not go on, it may have been
 * greater than what was seen, and no limit is called kept; what was seen beyond a limit is beyond it all the
 * same.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "base/args.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/curve.h"
#include "read/living.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "read/tape.h"
#include "check.h"
#include "trace/roles.h"

/* ---- rows ---- */

struct check_row *check_add_row(struct check *c, size_t limit, char *given, char *what, const char *label,
                                const char *path)
{
    struct check_row *r = PUSH(c->rows, c->count);
    *r = (struct check_row){.verdict = VERDICT_UNTOLD,
                            .limit = limit,
                            .given = given,
                            .what = what,
                            .label = xstrdup(label),
                            .path = xstrdup(path),
                            .process = UNKNOWN,
                            .rank = UNKNOWN,
                            .device = UNKNOWN,
                            .m = {UNKNOWN, 0, NO_BOUND},
                            .limit_bytes = UNKNOWN,
                            .base_bytes = UNKNOWN,
                            .cause = {.t = UNKNOWN, .step = UNKNOWN}};
    return r;
}

struct check_row *check_add(struct check *c, const struct check_file *f, int64_t device, size_t limit,
                            char *given, char *what)
{
    const struct trace *t = &f->trace;
    struct check_row *r = check_add_row(c, limit, given, what, t->label ? t->label : t->path, t->path);
    r->dry = trace_dry(t) ? xstrdup(trace_mark(t)) : NULL;
    r->process = t->processes > 1 ? t->process.id : UNKNOWN;
    r->rank = t->process.rank;
    r->device = device;
    return r;
}

/* Of limit INDEX. */
static struct check_row *add_limit(struct check *c, const struct check_file *f, int64_t device, size_t index,
                                   const struct limit *l)
{
    struct check_row *r = check_add(c, f, device, index, xstrdup(l->given), xstrdup(l->words));
    r->limit_bytes = l->bytes;
    return r;
}

void check_judge(struct check_row *r, char *doubt, int64_t limit_least, int64_t limit_most)
{
    if (doubt)
        r->m.most = NO_BOUND;
    r->verdict = limit_verdict(&r->m, limit_least, limit_most);
    if (r->verdict == VERDICT_UNTOLD && !r->why)
        r->why = doubt;
    else
        free(doubt);
}

/* ---- what stands against a figure ---- */

/* The last out-of-memory on DEVICE, or of host memory, after which no step ended. */
static const struct trace_oom_kept *fatal_oom(const struct check_file *f, int64_t device)
{
    struct trace *t = (struct trace *)&f->trace;
    const struct trace_oom_kept *o = oom_with_role(f->ooms, f->oom_count, OOM_LAST, device);
    o = o ? o : oom_with_role(f->ooms, f->oom_count, OOM_LAST, -1);
    return o && trace_steps_after(t, o->t) == 0 ? o : NULL;
}

static char *oom_words(const struct trace_oom_kept *o)
{
    return xformat("it ran out of memory: %s were asked for beside %s allocated%s%s, and no step ended after "
                   "that",
                   units_bytes(o->requested, false).s, units_bytes(o->framework + o->direct, false).s,
                   o->phase && strcmp(o->phase, "none") ? " in " : "",
                   o->phase && strcmp(o->phase, "none") ? shown(o->phase) : "");
}

static bool disagrees(const struct trace *t, int64_t device, bool late)
{
    for (size_t i = 0; i < t->mismatch_count; i++)
        if (t->mismatches[i].device == device && trace_mismatch_is_late(&t->mismatches[i]) == late)
            return true;
    return false;
}

char *check_doubt_seen(const struct check_file *f, int64_t device, const struct check_options *o)
{
    const struct trace *t = &f->trace;
    char *line = trace_not_whole_line(t);
    for (size_t i = 0; !line && i < f->report.device_count; i++)
        if (device == UNKNOWN || f->report.devices[i].device == device)
            line = report_unseen_words(&f->report.devices[i]);
    if (line)
        return line;
    if (t->end == TRACE_END_MERGED && t->came_to_exit != 1 && !o->allow_killed)
        return xformat("the process was killed%s left without its exit handlers%s: what it may have used "
                       "later is unknown (--allow-killed takes it as ended)",
                       t->came_to_exit == 0 ? " or" : ",",
                       t->came_to_exit == 0 ? "" : ", or ended before all was written (VRAMSCOPE_EXIT_MS)");
    const struct trace_oom_kept *oom = fatal_oom(f, device);
    if (oom)
        return oom_words(oom);
    if (disagrees(t, device, true))
        return xstrdup("the recording began late: what the framework had used before is unknown");
    return disagrees(t, device, false)
               ? xstrdup("our totals and the framework's disagree: vramscope report says where")
               : NULL;
}

char *check_doubt(const struct check_file *f, int64_t device, const struct check_options *o)
{
    char *doubt = check_doubt_seen(f, device, o);
    int64_t before = trace_imported_before((struct trace *)&f->trace);
    if (doubt || before == UNKNOWN)
        return doubt;
    return before ? xformat("the snapshot's trace begins with %s reserved: what was used before is unknown",
                            units_bytes(before, false).s)
                  : xstrdup("the snapshot's trace has one entry: what was used before it is unknown");
}

bool check_too_high(const struct trace *t, int64_t device, const char *kind)
{
    for (size_t i = 0; i < t->bound_count; i++)
        if ((t->bounds[i].device == device || t->bounds[i].device < 0) &&
            (!t->bounds[i].kind || !strcmp(t->bounds[i].kind, kind)))
            return true;
    return false;
}

/* ---- causes ---- */

void check_cause_at(struct check_cause *cause, struct trace *t, int64_t when, const char *phase)
{
    cause->known = true;
    cause->t = when;
    cause->step = trace_step_at(t, when);
    cause->phase = phase ? xstrdup(phase) : NULL;
}

static void cause_of_peak(struct check_row *r, struct check_file *f, const struct device_report *d,
                          bool reserved)
{
    struct trace *t = &f->trace;
    struct trace_live *live = NULL;
    size_t n = 0;
    const struct trace_peak *p = reserved ? d->reserved : d->allocated;
    if (!p)
        return;
    check_cause_at(&r->cause, t, p->t, reserved ? NULL : d->phase_at_peak);
    if (d->allocated && !trace_live(t, d->device, &live, &n) && (!reserved || d->allocated->t == p->t))
        check_cause(&r->cause, &f->trace, live, n, NULL, 0);
    free(live);
}

/* What lived when a phase was at its greatest; nothing where the file does not have that moment in full. */
static struct trace_live *live_at_greatest(struct trace *t, const struct trace_phase *p, size_t *n)
{
    struct trace_live *live = NULL;
    int64_t sum = 0, seq = p->t_allocated == UNKNOWN ? UNKNOWN : trace_last_seq(t, p->t_allocated);
    *n = 0;
    if (seq == UNKNOWN || !trace_all_events(t, seq, INT64_MAX) || trace_live_at(t, p->device, seq, &live, n))
        return NULL;
    for (size_t i = 0; i < *n; i++)
        sum += live[i].size;
    if (sum == p->allocated)
        return live;
    *n = 0;
    free(live);
    return NULL;
}

void check_cause_of_phase(struct check_row *r, struct check_file *f, const struct trace_phase *p,
                          struct check_file *base, const struct trace_phase *q)
{
    size_t n, m = 0;
    if (p->t_allocated == UNKNOWN)
        return;
    check_cause_at(&r->cause, &f->trace, p->t_allocated, p->name);
    struct trace_live *live = live_at_greatest(&f->trace, p, &n),
                      *before = base ? live_at_greatest(&base->trace, q, &m) : NULL;
    if (live && (before || !base))
        check_cause(&r->cause, &f->trace, live, n, before, m);
    free(live);
    free(before);
}

/* ---- all that was allocated, or reserved ---- */

struct measured check_measure_peak(const struct check_file *f, const struct device_report *d, bool reserved,
                                   char **why)
{
    const struct trace_peak *p = reserved ? d->reserved : d->allocated;
    if (!p)
        return (struct measured){UNKNOWN, 0, NO_BOUND};
    struct measured m = {trace_peak_bytes(p), p->at_most ? 0 : p->bytes, p->bytes};
    if (p->at_least) { /* it uses no more than it reserved */
        m.most = d->reserved ? d->reserved->bytes : NO_BOUND;
        *why = xformat("%s is known to be allocated: a library's pool does not report what it uses of its "
                       "memory",
                       units_bytes(p->bytes, false).s);
    }
    if (check_too_high(&f->trace, d->device, reserved ? "reserved" : "allocated"))
        m.least = 0;
    return m;
}

/* Launches of CUDA graphs use what the driver holds for their memory nodes, though no call allocates it. */
static void add_graphs(struct check_row *r, const struct check_file *f, const struct device_report *d)
{
    struct trace_with_graphs most;
    if (r->m.value == UNKNOWN || trace_most_with_graphs((struct trace *)&f->trace, d->device, &most) ||
        most.graphs == 0 || most.bytes <= r->m.value)
        return;
    r->m.least = r->m.least == r->m.value ? most.bytes : r->m.least;
    r->m.value = r->m.most = most.bytes;
    r->why = xformat("%s of it are held for memory nodes of CUDA graphs, which no call allocates",
                     units_bytes(most.graphs, false).s);
}

/* The out-of-memory that asked for what would have been beyond the limit; NULL: there is none. */
static const struct trace_oom_kept *asked_beyond(const struct check_file *f, int64_t device, bool reserved,
                                                 int64_t limit)
{
    const struct trace_oom_kept *o = fatal_oom(f, device);
    if (!o || o->device != device || o->requested <= 0)
        return NULL;
    int64_t wanted = reserved ? o->reserved + (o->asked_driver > 0 ? o->asked_driver : 0)
                              : o->framework + o->direct + o->requested;
    return wanted > limit ? o : NULL;
}

static void cause_of_oom(struct check_row *r, struct check_file *f, const struct trace_oom_kept *o)
{
    struct trace_live *live = NULL;
    size_t n = 0;
    check_cause_at(&r->cause, &f->trace, o->t, o->phase);
    if (!trace_live_at_oom(&f->trace, o->seq, &live, &n))
        check_cause(&r->cause, &f->trace, live, n, NULL, 0);
    free(live);
}

static void check_peak(struct check *c, struct check_file *f, const struct device_report *d, size_t index,
                       const struct check_options *o)
{
    const struct limit *l = &o->limits[index];
    struct check_row *r = add_limit(c, f, d->device, index, l);
    r->m = check_measure_peak(f, d, l->reserved, &r->why);
    if (!l->reserved)
        add_graphs(r, f, d);
    check_judge(r, check_doubt(f, d->device, o), l->bytes, l->bytes);
    const struct trace_oom_kept *oom =
        r->verdict == VERDICT_UNTOLD ? asked_beyond(f, d->device, l->reserved, l->bytes) : NULL;
    if (oom) {
        r->verdict = VERDICT_BEYOND;
        cause_of_oom(r, f, oom);
    } else if (r->verdict == VERDICT_BEYOND)
        cause_of_peak(r, f, d, l->reserved);
}

/* Whether NAME is the one that was GIVEN, as it is or as pages print it. */
static bool is_called(const char *name, const char *given)
{
    return !strcmp(name, given) || !strcmp(shown(name), given);
}

const struct trace_phase *check_find_phase(const struct trace *t, int64_t device, const char *name)
{
    for (size_t i = 0; i < t->phase_count; i++)
        if (t->phases[i].device == device && t->phases[i].name && is_called(t->phases[i].name, name))
            return &t->phases[i];
    return NULL;
}

static char *no_phase(const struct trace *t, const char *name)
{
    const char **names = NULL;
    size_t n = 0;
    for (size_t i = 0; i < t->phase_count; i++)
        if (t->phases[i].name)
            *PUSH(names, n) = t->phases[i].name;
    *PUSH(names, n) = NULL;
    const char *near = args_nearest(name, names);
    char *words = near ? xformat("it has no phase '%s': did you mean '%s'?", shown(name), shown(near))
                       : xformat("it has no phase '%s': vramscope report says which it has", shown(name));
    free(names);
    return words;
}

static void check_phase(struct check *c, struct check_file *f, const struct device_report *d, size_t index,
                        const struct check_options *o)
{
    const struct limit *l = &o->limits[index];
    const struct trace_phase *p = check_find_phase(&f->trace, d->device, l->phase);
    struct check_row *r = add_limit(c, f, d->device, index, l);
    char *doubt = check_doubt(f, d->device, o);
    if (!p) {
        r->nothing = !doubt;
        r->why = doubt ? doubt : no_phase(&f->trace, l->phase);
        return;
    }
    r->m.value = l->reserved ? p->reserved : p->allocated;
    r->m.most = r->m.value;
    if (r->m.value == UNKNOWN && !l->reserved) {
        r->m.most = p->reserved == UNKNOWN ? NO_BOUND : p->reserved;
        r->why = xstrdup("a library's pool does not report what it uses of its memory");
    }
    bool high =
        r->m.value == UNKNOWN || check_too_high(&f->trace, d->device, l->reserved ? "reserved" : "allocated");
    r->m.least = high ? 0 : r->m.value;
    check_judge(r, doubt, l->bytes, l->bytes);
    if (r->verdict == VERDICT_BEYOND && !l->reserved)
        check_cause_of_phase(r, f, p, NULL, NULL);
}

/* ---- what some blocks held ---- */

static enum trace_held_class is_text(const char *wanted, const char *name)
{
    return !wanted ? HELD_YES : !name ? HELD_MAYBE : is_called(name, wanted) ? HELD_YES : HELD_NOT;
}

static bool meets_line(const char *pattern, const char *line)
{
    return limit_meets_line(pattern, line) || limit_meets_line(pattern, shown(line));
}

static bool meets_layer(const char *pattern, const char *layer)
{
    return limit_meets_layer(pattern, layer) || limit_meets_layer(pattern, shown(layer));
}

static enum trace_held_class of_stack(void *context, const char *line, bool unseen_line, const char *layer,
                                      bool unseen_layer)
{
    const struct limit *l = context;
    enum trace_held_class by_line = HELD_YES, by_layer = HELD_YES;
    if (l->line)
        by_line = line          ? meets_line(l->line, line) ? HELD_YES : HELD_NOT
                  : unseen_line ? HELD_MAYBE
                                : HELD_NOT;
    if (l->layer)
        by_layer = layer          ? meets_layer(l->layer, layer) ? HELD_YES : HELD_NOT
                   : unseen_layer ? HELD_MAYBE
                                  : HELD_NOT;
    return by_line < by_layer ? by_line : by_layer;
}

static enum trace_held_class of_block(void *context, const char *phase, const char *role)
{
    const struct limit *l = context;
    enum trace_held_class by_phase = is_text(l->born, phase), by_role = is_text(l->role, role);
    if (by_role == HELD_NOT && vs_role_named(role) == VS_ROLE_UNTOLD)
        by_role = HELD_MAYBE; /* nothing showed what it is for: it may be of the role that is asked for */
    return by_phase < by_role ? by_phase : by_role;
}

static bool is_meant(const struct limit *l, const struct trace_live *b)
{
    bool line = !l->line || (b->line && meets_line(l->line, b->line)),
         layer = !l->layer || (b->layer && meets_layer(l->layer, b->layer));
    return line && layer && of_block((void *)l, b->phase, b->role) == HELD_YES;
}

/* Takes what is not meant out of LIVE; how many are left. */
static size_t keep_meant(const struct limit *l, struct trace_live *live, size_t n, int64_t *bytes)
{
    size_t kept = 0;
    *bytes = 0;
    for (size_t i = 0; i < n; i++)
        if (is_meant(l, &live[i])) {
            *bytes += live[i].size;
            live[kept++] = live[i];
        }
    return kept;
}

static char *none_meant(const struct limit *l)
{
    const char *by = l->line ? "line" : l->layer ? "layer" : l->role ? "role" : "phase";
    return xformat("no block of it is known: vramscope peak --by %s says which there are%s", by,
                   l->role    ? " (uses are followed by run --access)"
                   : l->layer ? " (layers are recorded by vramscope run)"
                              : "");
}

/* Where events are folded only the peak is there in full. */
static int measure_folded(struct check_row *r, struct check_file *f, const struct limit *l)
{
    struct trace_live *live;
    size_t n;
    int64_t bytes;
    if (trace_live(&f->trace, r->device, &live, &n))
        return -1;
    n = keep_meant(l, live, n, &bytes);
    r->m = (struct measured){bytes, bytes, NO_BOUND};
    r->nothing = n == 0;
    r->why = xstrdup("events were folded (VRAMSCOPE_MAX_BYTES): what it held is known of the peak alone");
    if (bytes > l->bytes)
        check_cause(&r->cause, &f->trace, live, n, NULL, 0);
    free(live);
    return 0;
}

static int measure_held(struct check_row *r, struct check_file *f, const struct limit *l)
{
    struct trace_held_by by = {(void *)l, of_stack, of_block, l->role != NULL};
    struct trace_held held;
    struct trace_live *live = NULL;
    size_t n = 0;
    int64_t bytes;
    if (trace_held_most(&f->trace, r->device, &by, &held))
        return -1;
    r->m = (struct measured){held.most, held.most, held.possible};
    r->nothing = held.blocks == 0;
    if (held.blocks && held.possible > held.most)
        r->why =
            xformat("it held %s for certain, and up to %s with blocks of which the recording does not say "
                    "it",
                    units_bytes(held.most, false).s, units_bytes(held.possible, false).s);
    if (held.most <= l->bytes)
        return 0;
    check_cause_at(&r->cause, &f->trace, held.t, NULL);
    if (!trace_live_at(&f->trace, r->device, held.seq, &live, &n))
        check_cause(&r->cause, &f->trace, live, keep_meant(l, live, n, &bytes), NULL, 0);
    free(live);
    return 0;
}

static void check_held(struct check *c, struct check_file *f, const struct device_report *d, size_t index,
                       const struct check_options *o)
{
    const struct limit *l = &o->limits[index];
    struct check_row *r = add_limit(c, f, d->device, index, l);
    char *doubt = check_doubt(f, d->device, o);
    if (f->trace.thinned ? measure_folded(r, f, l) : measure_held(r, f, l)) {
        c->unusable += complain("%s", f->trace.why) != 0;
        free(doubt);
        return;
    }
    if (r->nothing) {
        free(r->why);
        r->nothing = !doubt;
        r->m.value = UNKNOWN;
        r->why = doubt ? doubt : none_meant(l);
        return;
    }
    if (check_too_high(&f->trace, d->device, "allocated"))
        r->m.least = 0;
    if (!doubt && d->allocated && d->allocated->at_least)
        doubt = xstrdup("a library's pool does not report what it uses of its memory");
    check_judge(r, doubt, l->bytes, l->bytes);
}

void check_limit(struct check *c, struct check_file *f, size_t index, const struct check_options *o)
{
    const struct limit *l = &o->limits[index];
    size_t before = c->count;
    if (l->rank != UNKNOWN && l->rank != f->trace.process.rank) {
        struct check_row *r = add_limit(c, f, UNKNOWN, index, l);
        r->nothing = true;
        r->why = xformat("no file is of rank %lld", (long long)l->rank);
        return;
    }
    for (size_t i = 0; i < f->report.device_count; i++) {
        const struct device_report *d = &f->report.devices[i];
        if (l->device != UNKNOWN && l->device != d->device)
            continue;
        if (limit_is_held(l))
            check_held(c, f, d, index, o);
        else if (l->phase)
            check_phase(c, f, d, index, o);
        else
            check_peak(c, f, d, index, o);
    }
    if (c->count > before)
        return;
    struct check_row *r = add_limit(c, f, l->device, index, l);
    char *doubt = check_doubt(f, l->device, o);
    r->nothing = !doubt;
    r->why = doubt                    ? doubt
             : f->report.device_count ? xformat("device %lld is not used in it", (long long)l->device)
                                      : xstrdup(trace_no_device(&f->trace));
}
