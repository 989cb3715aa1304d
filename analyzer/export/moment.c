/* moment.c - which devices an export has, and what lived on them at a moment (export.h, moment.h). */
#include "moment.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "base/args.h"
#include "base/units.h"
#include "read/trace.h"
#include "read/curve.h"
#include "read/ooms.h"

/* ---- what an export is about ---- */

bool export_wants(const struct export_options *o, int64_t device)
{
    return device >= 0 && (o->device == UNKNOWN || o->device == device);
}

size_t export_devices(struct trace *t, const struct export_options *o, int64_t **out)
{
    size_t n = 0;
    *out = NULL;
    for (size_t i = 0; i < t->peak_count; i++) /* in the order of devices */
        if (t->peaks[i].kind && !strcmp(t->peaks[i].kind, "allocated") && export_wants(o, t->peaks[i].device))
            *PUSH(*out, n) = t->peaks[i].device;
    if (!n)
        complain("%s", absent_device(t, o->device));
    return n;
}

int export_past_end(const struct trace *t, const char *option, int64_t moment)
{
    if (t->t_last == UNKNOWN || moment <= t->t_last)
        return EXIT_GOOD;
    return complain("export: %s is beyond the end: %s lasted %.9g s%s", option, t->path,
                    (double)t->t_last / 1e9, t->end == TRACE_END_RUNNING ? " so far" : "");
}

/* What lived was read after how much it was: of a run that goes on it may be a later, greater peak's. */
static void take_rest(const struct trace *t, struct moment *m)
{
    int64_t held = 0;
    for (size_t i = 0; i < m->count; i++)
        held += m->live[i].size;
    if (t->end == TRACE_END_RUNNING && held > m->bytes)
        m->bytes = held;
    m->rest = m->bytes - held;
}

/* ---- the peak ---- */

static int load_peak(struct trace *t, int64_t device, struct moment *m)
{
    const struct trace_peak *peak = trace_find_peak(t, device, "allocated");
    *m = (struct moment){.device = device,
                         .t = peak->t,
                         .bytes = peak->bytes,
                         .at_least = peak->at_least,
                         .what = "at the peak"};
    return trace_live(t, device, &m->live, &m->count);
}

static int load_peaks(struct trace *t, const struct export_options *o, struct moment **out, size_t *n)
{
    int64_t *devices;
    size_t count = export_devices(t, o, &devices);
    int status = count ? EXIT_GOOD : EXIT_USAGE;
    for (size_t i = 0; status == EXIT_GOOD && i < count; i++)
        if (load_peak(t, devices[i], PUSH(*out, *n)))
            status = complain("%s", t->why);
    free(devices);
    return status;
}

/* ---- out of memory ---- */

static const struct trace_oom_kept *find_oom(const struct trace_oom_kept *kept, size_t n, int64_t role,
                                             int64_t device)
{
    return role == OOM_LAST && device == UNKNOWN ? oom_last(kept, n) : oom_with_role(kept, n, role, device);
}

static int load_kept(struct trace *t, const struct trace_oom_kept *oom, struct moment *m)
{
    *m = (struct moment){.device = oom->device,
                         .t = oom->t,
                         .bytes = oom->framework + oom->direct,
                         .at_least = oom->unknown_use > 0,
                         .what = "when memory ran out"};
    return trace_live_at_oom(t, oom->seq, &m->live, &m->count) ? complain("%s", t->why) : EXIT_GOOD;
}

static int load_oom(struct trace *t, const struct export_options *o, int64_t role, struct moment **out,
                    size_t *n)
{
    struct trace_oom_kept *kept;
    size_t count;
    int status;
    if (trace_ooms_kept(t, &kept, &count))
        return complain("%s", t->why);
    const struct trace_oom_kept *found = find_oom(kept, count, role, o->device);
    if (!found)
        status = complain("export: %s: memory never ran out%s: --at=peak has the peak", t->path,
                          o->device == UNKNOWN ? "" : " on that device");
    else if (found->device < 0)
        status =
            complain("export: %s: it was the host's memory that ran out, of which vramscope peak --at=%s "
                     "says more",
                     t->path, o->at);
    else
        status = load_kept(t, found, PUSH(*out, *n));
    free(kept);
    return status;
}

/* ---- any time ---- */

static int load_at(struct trace *t, const struct export_options *o, int64_t when, struct moment **out,
                   size_t *n)
{
    int64_t *devices, seq = trace_seq_at(t, when);
    if (export_past_end(t, "--at", when))
        return EXIT_USAGE;
    if (seq + 1 < trace_first_whole_seq(t))
        return complain("export: %s: what lived at %s is not known: events after it are folded "
                        "(VRAMSCOPE_MAX_BYTES); --at=peak is",
                        t->path, o->at);
    if (!seq)
        return complain("export: %s: nothing was recorded until %s: --at=peak has the peak", t->path, o->at);
    size_t count = export_devices(t, o, &devices);
    int status = count ? EXIT_GOOD : EXIT_USAGE;
    for (size_t i = 0; status == EXIT_GOOD && i < count; i++) {
        const struct trace_peak *peak = trace_find_peak(t, devices[i], "allocated");
        struct moment *m = PUSH(*out, *n);
        *m = (struct moment){.device = devices[i],
                             .t = when,
                             .bytes = trace_allocated_at(t, devices[i], seq),
                             .at_least = peak->at_least,
                             .what = "then"};
        if (trace_live_at(t, devices[i], seq, &m->live, &m->count))
            status = complain("%s", t->why);
    }
    free(devices);
    return status;
}

int moments_load(struct trace *t, const struct export_options *o, struct moment **out, size_t *n)
{
    static const struct {
        const char *name;
        int64_t role;
    } ooms[] = {{"oom", OOM_LAST}, {"first-oom", OOM_FIRST}, {"largest-oom", OOM_LARGEST}};
    int64_t when, role = 0;
    int status;
    *out = NULL;
    *n = 0;
    for (size_t i = 0; o->at && i < sizeof ooms / sizeof *ooms; i++)
        role = strcmp(o->at, ooms[i].name) ? role : ooms[i].role;
    if (!o->at || !strcmp(o->at, "peak"))
        status = load_peaks(t, o, out, n);
    else if (role)
        status = load_oom(t, o, role, out, n);
    else if (units_read_time(o->at, &when))
        status = load_at(t, o, when, out, n);
    else
        status = complain("export: --at takes peak, oom, first-oom, largest-oom or a time such as 1.5s, not "
                          "'%s'",
                          o->at);
    for (size_t i = 0; status == EXIT_GOOD && i < *n; i++) {
        struct moment *m = &(*out)[i];
        take_rest(t, m);
        if (m->rest < 0) /* a damaged file: no sum of what it has can be right */
            status = complain("export: %s is damaged: device %lld held less than what lived there: record "
                              "again with vramscope run",
                              t->path, (long long)m->device);
        else if (m->at_least)
            complain("export: %s: of device %lld pools of libraries held memory whose use is unknown: what "
                     "is known is exported",
                     t->path, (long long)m->device);
    }
    return status;
}

void moments_free(struct moment *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(m[i].live);
    free(m);
}

char *moment_title(const struct moment *m)
{
    return xformat("device %lld %s, %s%s", (long long)m->device, m->what, m->at_least ? "at least " : "",
                   units_bytes(m->bytes, false).s);
}

void moment_each(const struct moment *m, struct places *p, moment_visit *visit, void *context)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct trace_live *live = &m->live[i];
        struct moment_sample s = {.bytes = live->size, .count = live->count, .live = live};
        char *name = NULL;
        s.frames = places_path(p, live->stack, &s.frame_count);
        if (!s.frame_count)
            s.name = name = places_stackless(p, live->category, live->owner);
        if (live->size > 0)
            visit(context, m, &s);
        free(name);
    }
    struct moment_sample rest = {.name = MOMENT_REST, .bytes = m->rest};
    if (m->rest > 0)
        visit(context, m, &rest);
}
