/*
 * perfetto.c - a trace for Perfetto (ui.perfetto.dev): curves of memory over phases and allocations.  The
 * format is github.com/google/perfetto's protos/perfetto/trace; docs/reference/synthetic-track-event.md there
 * says which fields to use.
 *
 *      process  python train.py
 *        steps                                 slices
 *        device 0: NVIDIA H200
 *          allocated, reserved                 counters, in bytes
 *          on the host                         counter, of allocated, where any was
 *          driver used                         counter, from the samples
 *          allocations                         instants, each with its size and call stack
 *        python 4711                           slices: phases and ranges of a thread
 *
 * Slices of one track must lie within each other: a range that does not goes to another track of the same
 * name, which Perfetto draws below.  Times are the wall clock's, and the numbers of tracks are made from the
 * process, so `cat` joins the traces of one host.
 */
#include "perfetto.h"

#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "read/curve.h"
#include "read/steps.h"
#include "read/tables.h"

/* ---- the devices ---- */

static void put_device_tracks(struct perfetto *w, int64_t device)
{
    struct perfetto_device *d = PUSH(w->devices, w->device_count);
    const struct trace_device *known = trace_find_device(w->t, device);
    const struct trace_peak *peak = trace_find_peak(w->t, device, "allocated");
    const char *dry = trace_dry(w->t) ? trace_mark(w->t) : NULL;
    char *name = xformat("device %lld%s%s%s%s", (long long)device, known && known->name ? ": " : "",
                         known && known->name ? known->name : "", dry ? ", " : "", dry ? dry : "");
    *d = (struct perfetto_device){.device = device, .allocated_was = UNKNOWN, .reserved_was = UNKNOWN};
    uint64_t group = perfetto_track(w, w->process_track, name, PERFETTO_PLAIN);
    d->allocated = perfetto_track(w, group, peak && peak->at_least ? "allocated (known)" : "allocated",
                                  PERFETTO_COUNTER);
    d->reserved = perfetto_track(w, group, "reserved", PERFETTO_COUNTER);
    d->allocations = perfetto_track(w, group, "allocations", PERFETTO_PLAIN);
    d->group = group;
    free(name);
}

static int put_samples(struct perfetto *w, const struct perfetto_device *d)
{
    struct trace_sample *samples;
    size_t n;
    uint64_t own = 0, whole = 0; /* tracks */
    if (trace_samples(w->t, d->device, &samples, &n))
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct trace_sample *s = &samples[i];
        bool process = s->source && !strcmp(s->source, "nvml_process");
        uint64_t *track = process ? &own : &whole;
        if (s->driver_used == UNKNOWN || s->t < w->o->from || s->t > w->o->to)
            continue;
        if (!*track)
            *track = perfetto_track(w, d->group, process ? "driver used" : "driver used (whole device)",
                                    PERFETTO_COUNTER);
        perfetto_counter(w, s->t, *track, s->driver_used);
    }
    free(samples);
    return 0;
}

static int put_aways(struct perfetto *w, const struct perfetto_device *d)
{
    struct trace_away *aways;
    size_t n;
    uint64_t track = 0;
    if (trace_aways(w->t, d->device, &aways, &n))
        return -1;
    char *words = trace_away_always(w->t, d->device),
         *name = words ? xformat("on the host (%s)", words) : xstrdup("on the host");
    for (size_t i = 0; i < n; i++) {
        if (aways[i].t < w->o->from || aways[i].t > w->o->to)
            continue;
        if (!track)
            track = perfetto_track(w, d->group, name, PERFETTO_COUNTER);
        perfetto_counter(w, aways[i].t, track, aways[i].bytes);
    }
    free(words);
    free(name);
    free(aways);
    return 0;
}

static struct perfetto_device *find_device(struct perfetto *w, int64_t device)
{
    for (size_t i = 0; i < w->device_count; i++)
        if (w->devices[i].device == device)
            return &w->devices[i];
    return NULL;
}

/* What an event is called on the track of allocations; NULL: it is not shown there. */
static const char *allocation_name(const struct trace_row *e)
{
    if (e->op == VS_OP_BLOCK_OOM)
        return "out of memory";
    if (e->status == CUDA_OUT_OF_MEMORY && e->op < VS_OP_BLOCK_ALLOC && e->op != VS_OP_FREE_FAILED)
        return "refused by the driver";
    if (e->status)
        return NULL;
    if (e->op == VS_OP_BLOCK_ALLOC)
        return "framework block";
    if (e->op != VS_OP_ALLOC && e->op != VS_OP_PHYS_CREATE)
        return NULL;
    return e->managed                    ? "memory for a pool"
           : e->space == VS_SPACE_DEVICE ? "direct"
                                         : trace_space_name(e->space);
}

static bool put_row(void *context, const struct trace_row *e)
{
    struct perfetto *w = context;
    struct perfetto_device *d = trace_row_counts(e) ? find_device(w, e->device) : NULL;
    if (!d || e->t < w->o->from || e->t > w->o->to)
        return !w->out->error;
    bool allocated = d->allocated_was != e->framework + e->direct, reserved = d->reserved_was != e->reserved;
    const char *name = allocation_name(e);
    d->allocated_was = e->framework + e->direct;
    d->reserved_was = e->reserved;
    if (name) {
        perfetto_allocation(w, d, e, name, allocated, reserved);
        return !w->out->error;
    }
    if (allocated)
        perfetto_counter(w, e->t, d->allocated, e->framework + e->direct);
    if (reserved)
        perfetto_counter(w, e->t, d->reserved, e->reserved);
    return !w->out->error;
}

/* ---- what was folded ---- */

struct folded { /* while a device's curve is visited */
    struct perfetto *w;
    struct perfetto_device *d;
    struct lanes lanes;
};

/* Of a folded stretch the greatest, when it was reached, and what it left; that is said on a track. */
static void put_folded(void *context, const struct trace_point *p)
{
    struct folded *f = context;
    struct perfetto *w = f->w;
    if (!p->folded || p->t_last < w->o->from || p->t > w->o->to)
        return;
    perfetto_counter(w, p->t_max, f->d->allocated, p->allocated_max);
    perfetto_counter(w, p->t_last, f->d->allocated, p->allocated_last);
    perfetto_counter(w, p->t_last, f->d->reserved, p->reserved_last);
    lanes_put(&f->lanes, w, p->t, p->t_last, "folded: only the greatest is here", "folded");
}

static int put_folded_device(struct perfetto *w, struct perfetto_device *d)
{
    struct folded f = {w, d, {.parent = d->group, .name = "folded (VRAMSCOPE_MAX_BYTES)"}};
    struct trace_point before;
    int result = trace_curve(w->t, d->device, 0, INT64_MAX, 0, &before, put_folded, &f);
    lanes_end(&f.lanes, w);
    return result;
}

/* ---- steps, phases, ranges ---- */

static int put_steps(struct perfetto *w)
{
    struct trace_step_end *ends;
    size_t n;
    uint64_t track = 0;
    int64_t from, to;
    if (trace_step_ends(w->t, &ends, &n))
        return -1;
    for (size_t i = 0; i < n; i++) {
        bool known = i > 0 || trace_step_span(w->t, ends[i].step, ends[i].step, &from, &to);
        from = i > 0 ? ends[i - 1].t : known ? from : ends[i].t;
        if (ends[i].t < w->o->from || from > w->o->to)
            continue;
        char *name = xformat("step %lld", (long long)ends[i].step);
        if (!track)
            track = perfetto_track(w, w->process_track, "steps", PERFETTO_PLAIN);
        perfetto_begin_slice(w, from, track, name, "step");
        free(name);
        perfetto_end_slice(w, ends[i].t, track);
    }
    free(ends);
    return 0;
}

struct thread_lanes {
    int64_t thread; /* -1: ranges that cross threads */
    struct lanes lanes;
};

struct spans { /* while ranges are visited */
    struct perfetto *w;
    struct trace_thread *threads;
    size_t thread_count;
    struct thread_lanes *at;
    size_t n;
    struct map by_thread; /* thread + 2 to index */
};

static const struct trace_thread *find_thread(const struct spans *s, int64_t id)
{
    for (size_t i = 0; i < s->thread_count; i++)
        if (s->threads[i].id == id)
            return &s->threads[i];
    return NULL;
}

static struct lanes *lanes_of(struct spans *s, int64_t thread)
{
    int64_t index = map_get(&s->by_thread, thread + 2);
    if (index < 0) {
        index = (int64_t)s->n;
        map_put(&s->by_thread, thread + 2, index);
        *PUSH(s->at, s->n) = (struct thread_lanes){thread, {.name = "ranges"}};
        struct lanes *lanes = &s->at[index].lanes;
        if (thread < 0) {
            lanes->parent = s->w->process_track;
            lanes->name = "ranges that cross threads";
        } else {
            lanes->parent = perfetto_thread(s->w, find_thread(s, thread));
            lanes->first_is_parent = true;
        }
    }
    return &s->at[index].lanes;
}

static bool put_span(void *context, const struct trace_span_row *r)
{
    struct spans *s = context;
    struct perfetto *w = s->w;
    const char *phase =
        r->phase > 0 && (size_t)r->phase < w->t->phase_name_count ? w->t->phase_names[r->phase] : NULL;
    int64_t end = r->lost && r->t_pop == UNKNOWN ? r->t_push : r->t_pop == UNKNOWN ? INT64_MAX : r->t_pop;
    if (end < w->o->from || r->t_push > w->o->to)
        return !w->out->error;
    lanes_put(lanes_of(s, r->crosses ? -1 : r->thread), w, r->t_push, end, phase ? phase : r->name,
              phase ? "phase" : "range");
    return !w->out->error;
}

static int put_spans(struct perfetto *w)
{
    struct spans s = {.w = w};
    int result = trace_threads(w->t, &s.threads, &s.thread_count);
    if (!result)
        result = trace_each_range(w->t, put_span, &s);
    for (size_t i = 0; i < s.n; i++)
        lanes_end(&s.at[i].lanes, w);
    free(s.at);
    free(s.threads);
    map_free(&s.by_thread);
    return result;
}

/* ---- the file ---- */

/* Numbers that another process's trace is unlikely to have: small ones take few bytes, so 28 bits. */
static uint64_t number_of_process(const struct trace *t)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *c = t->process.host ? t->process.host : ""; *c; c++)
        h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    h = (h ^ (uint64_t)t->process.pid) * UINT64_C(0x100000001b3);
    h = (h ^ (uint64_t)t->process.start_realtime_ns) * UINT64_C(0x100000001b3);
    return (h >> 20 & 0x7ffffff) + 1;
}

static int put_devices(struct perfetto *w, const int64_t *devices, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_device_tracks(w, devices[i]);
    for (size_t i = 0; i < n; i++)
        if (put_samples(w, &w->devices[i]) || put_aways(w, &w->devices[i]) ||
            (w->t->thinned && put_folded_device(w, &w->devices[i])))
            return -1;
    return trace_rows(w->t, 0, put_row, w);
}

static void free_writer(struct perfetto *w)
{
    free(w->devices);
    texts_free(&w->event_names);
    texts_free(&w->functions);
    texts_free(&w->paths);
    texts_free(&w->annotations);
    map_free(&w->frames);
    map_free(&w->callstacks);
    proto_free(&w->packet);
    places_free(&w->places);
}

int export_perfetto(struct trace *t, const struct export_options *o, struct sink *out)
{
    uint64_t number = number_of_process(t);
    struct perfetto w = {.t = t,
                         .o = o,
                         .out = out,
                         .sequence = number,
                         .next_uuid = number << 16,
                         .start = t->process.start_realtime_ns == UNKNOWN ? 0 : t->process.start_realtime_ns,
                         .pid = t->process.pid == UNKNOWN ? 1 : t->process.pid};
    int64_t *devices;
    size_t n = export_devices(t, o, &devices);
    int status = n ? EXIT_GOOD : EXIT_USAGE;
    if (n && places_load(&w.places, t, o->frames)) {
        status = complain("%s", t->why);
    } else if (n) {
        perfetto_process(&w);
        if (put_steps(&w) || put_spans(&w) || put_devices(&w, devices, n))
            status = complain("%s", t->why);
        free_writer(&w);
    }
    free(devices);
    if (status || !t->thinned)
        return status;
    complain(
        "export: %s: %lld events were folded (VRAMSCOPE_MAX_BYTES): there the curves have their greatest "
        "values alone",
        t->path, (long long)(t->folded.events + t->unwritten));
    return EXIT_INCOMPLETE;
}
