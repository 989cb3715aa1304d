/*
 * against.c - one process held against one of another run: its devices' peaks, and those of the phases that
 * both have.  If the other run lost events its peak may have been higher than what was seen: nobody can tell
 * whether a higher one of this run is beyond it.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "read/living.h"

static char *given_against(const struct check_options *o)
{
    return xformat("--against %s --tolerance %s", o->against, o->tolerance_text);
}

static const struct device_report *device_in(const struct check_file *f, const struct check_file *other,
                                             int64_t device)
{
    for (size_t i = 0; i < f->report.device_count; i++)
        if (f->report.devices[i].device == device)
            return &f->report.devices[i];
    return f->report.device_count == 1 && other->report.device_count == 1 ? &f->report.devices[0] : NULL;
}

/* Where the base's own figure is in doubt the limit is, too. */
static void judge_against(struct check_row *r, struct check_file *f, struct check_file *base,
                          int64_t base_device, const struct measured *of_base, const struct check_options *o)
{
    char *doubt = check_doubt(base, base_device, o), *here = check_doubt(f, r->device, o);
    r->base_bytes = of_base->value;
    r->limit_bytes = of_base->value == UNKNOWN ? UNKNOWN : tolerance_limit(&o->tolerance, of_base->value);
    int64_t least = tolerance_limit(&o->tolerance, of_base->least),
            most = doubt || of_base->most == NO_BOUND ? INT64_MAX
                                                      : tolerance_limit(&o->tolerance, of_base->most);
    check_judge(r, here, least, most);
    if (r->verdict == VERDICT_UNTOLD && !r->why && doubt)
        r->why = xformat("of %s: %s", base->trace.path, doubt);
    free(doubt);
}

static void cause_against(struct check_row *r, struct check_file *f, const struct device_report *d,
                          struct check_file *base, const struct device_report *b)
{
    struct trace_live *live = NULL, *before = NULL;
    size_t n = 0, m = 0;
    check_cause_at(&r->cause, &f->trace, d->allocated->t, d->phase_at_peak);
    if (!trace_live_beside(&f->trace, &base->trace, d->device, &live, &n) &&
        !trace_live_beside(&base->trace, &f->trace, b->device, &before, &m) && m)
        check_cause(&r->cause, &f->trace, live, n, before, m);
    free(live);
    free(before);
}

static void against_peak(struct check *c, struct check_file *f, const struct device_report *d,
                         struct check_file *base, const struct device_report *b, bool reserved,
                         const struct check_options *o)
{
    char *of_base = NULL;
    struct check_row *r = check_add(c, f, d->device, CHECK_AGAINST, given_against(o),
                                    xstrdup(reserved ? "peak reserved" : "peak allocated"));
    r->m = check_measure_peak(f, d, reserved, &r->why);
    struct measured m = check_measure_peak(base, b, reserved, &of_base);
    free(of_base);
    judge_against(r, f, base, b->device, &m, o);
    if (r->verdict == VERDICT_BEYOND && d->allocated)
        cause_against(r, f, d, base, b);
}

static void against_phase(struct check *c, struct check_file *f, const struct trace_phase *p,
                          struct check_file *base, const struct trace_phase *q, const struct check_options *o)
{
    struct check_row *r = check_add(c, f, p->device, CHECK_AGAINST, given_against(o),
                                    xformat("peak allocated in phase %s", p->name));
    bool high = check_too_high(&f->trace, p->device, "allocated"),
         base_high = check_too_high(&base->trace, q->device, "allocated");
    bool unknown = p->allocated == UNKNOWN, base_unknown = q->allocated == UNKNOWN;
    r->m = (struct measured){p->allocated, unknown || high ? 0 : p->allocated,
                             unknown ? NO_BOUND : p->allocated};
    struct measured m = {q->allocated, base_unknown || base_high ? 0 : q->allocated,
                         base_unknown ? NO_BOUND : q->allocated};
    if (unknown || base_unknown)
        r->why = xstrdup("a library's pool does not report what it uses of its memory");
    judge_against(r, f, base, q->device, &m, o);
    if (r->verdict == VERDICT_BEYOND)
        check_cause_of_phase(r, f, p, base, q);
}

static void no_base(struct check *c, const struct check_file *f, int64_t device, char *why,
                    const struct check_options *o)
{
    struct check_row *r = check_add(c, f, device, CHECK_AGAINST, given_against(o), xstrdup("peak allocated"));
    r->why = why;
}

void check_against(struct check *c, struct check_file *f, struct check_file *base,
                   const struct check_options *o)
{
    if (!base) {
        no_base(c, f, UNKNOWN,
                f->trace.process.rank == UNKNOWN
                    ? xformat("no file of %s stands for this one", o->against)
                    : xformat("%s has no rank %lld", o->against, (long long)f->trace.process.rank),
                o);
        return;
    }
    if (!f->report.device_count)
        no_base(c, f, UNKNOWN, xstrdup(trace_no_device(&f->trace)), o);
    for (size_t i = 0; i < f->report.device_count; i++) {
        const struct device_report *d = &f->report.devices[i], *b = device_in(base, f, d->device);
        if (!b) {
            no_base(c, f, d->device, xformat("%s does not use device %lld", o->against, (long long)d->device),
                    o);
            continue;
        }
        against_peak(c, f, d, base, b, false, o);
        against_peak(c, f, d, base, b, true, o);
        for (size_t k = 0; k < f->trace.phase_count; k++) {
            const struct trace_phase *p = &f->trace.phases[k];
            const struct trace_phase *q = p->device == d->device && p->name && strcmp(p->name, "none") != 0
                                              ? check_find_phase(&base->trace, b->device, p->name)
                                              : NULL;
            if (q)
                against_phase(c, f, p, base, q, o);
        }
    }
}
