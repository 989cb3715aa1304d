/* report.c - see report.h. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

static int load_held(struct trace *t, struct device_report *d)
{
    if (trace_live(t, d->device, &d->live, &d->live_count))
        return -1;
    d->held_bytes = holders_total(d->live, d->live_count);
    d->held = holders_composition(d->live, d->live_count, &d->held_count);
    return 0;
}

static int load_residual(struct trace *t, struct device_report *d)
{
    struct trace_sample *samples = NULL;
    size_t n = 0;
    int result = trace_samples(t, d->device, &samples, &n);
    if (!result)
        d->residual = residual_of(samples, n);
    free(samples);
    return result;
}

static int load_device(struct trace *t, int64_t id, struct device_report *d)
{
    const struct trace_device *device = trace_find_device(t, id);
    *d = (struct device_report){
        .device = id, .reserved_at_peak = UNKNOWN, .unused_at_peak = UNKNOWN, .step_at_peak = UNKNOWN};
    d->name = device ? device->name : NULL;
    d->total_bytes = device ? device->total_bytes : UNKNOWN;
    d->allocated = trace_find_peak(t, id, "allocated");
    d->reserved = trace_find_peak(t, id, "reserved");
    d->framework = trace_find_peak(t, id, "framework");
    d->direct = trace_find_peak(t, id, "direct");
    if (d->allocated) {
        d->reserved_at_peak = trace_reserved_at(t, id, d->allocated->seq);
        d->step_at_peak = trace_step_at(t, d->allocated->t);
        d->phase_at_peak = trace_phase_at_peak(t, id);
        if (d->reserved_at_peak != UNKNOWN)
            d->unused_at_peak = d->reserved_at_peak - d->allocated->bytes;
    }
    return load_held(t, d) || load_residual(t, d) ? -1 : 0;
}

static bool has_device(const struct report *r, int64_t id)
{
    for (size_t i = 0; i < r->device_count; i++)
        if (r->devices[i].device == id)
            return true;
    return false;
}

static int add_device(struct report *r, int64_t id)
{
    if (id < 0 || has_device(r, id))
        return 0;
    return load_device(r->trace, id, PUSH(r->devices, r->device_count));
}

int report_load(struct report *r, struct trace *t)
{
    *r = (struct report){.trace = t};
    int result = t->oom_total == UNKNOWN ? trace_load_ooms(t) : 0;
    for (size_t i = 0; i < t->loss_count; i++)
        r->lost_events += t->losses[i].events == UNKNOWN ? 0 : t->losses[i].events;
    /* devices that anything happened on; `device` may list more */
    for (size_t i = 0; !result && i < t->peak_count; i++)
        result = add_device(r, t->peaks[i].device);
    return result;
}

void report_free(struct report *r)
{
    for (size_t i = 0; i < r->device_count; i++) {
        free(r->devices[i].held);
        free(r->devices[i].live);
    }
    free(r->devices);
    r->devices = NULL;
    r->device_count = 0;
}

char *report_holder_name(const struct holder *h)
{
    const char *category = h->category ? h->category : "unknown";
    const char *asked = h->owner ? h->owner : h->no_stack ? "no call stack" : "unknown library";
    bool outside = h->phase && !strcmp(h->phase, "none");
    if (!strcmp(category, "before recording"))
        return xstrdup("held by the framework before the recording began");
    if (!strncmp(category, "framework", 9))
        return outside ? xstrdup("framework blocks born outside any phase")
                       : xformat("framework blocks born in %s", h->phase ? h->phase : "an unknown phase");
    return xformat("%s, %s%s%s", category, asked,
                   outside    ? ", born outside any phase"
                   : h->phase ? ", born in "
                              : "",
                   outside || !h->phase ? "" : h->phase);
}
