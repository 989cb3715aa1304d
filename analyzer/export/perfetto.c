/*
 * perfetto.c - a trace for Perfetto (ui.perfetto.dev): curves of memory over phases and allocations.
 *
 * The format is defined by github.com/google/perfetto, protos/perfetto/trace: a Trace is a run of
 * TracePackets (trace_packet.proto), each an event on a track, or a track's description, or texts and call
 * stacks that later packets refer to by number (interned_data.proto, profile_common.proto); which fields a
 * program that writes one by itself should use is in docs/reference/synthetic-track-event.md there.
 *
 *      process  python train.py
 *        steps                                 slices
 *        device 0: NVIDIA H200
 *          allocated, reserved                 counters, in bytes
 *          driver used                         counter, from the samples
 *          allocations                         instants, each with its size and call stack
 *        python 4711                           slices: phases and ranges of a thread
 *
 * Slices of one track must lie within each other.  Where two ranges of a thread do not, the later one goes to
 * another track of the same name, which Perfetto draws below the first (lanes.h).
 *
 * Timestamps are those of the wall clock, and the numbers of tracks and of the packets' sequence are made
 * from the process: so the traces of several processes of one host can be joined by `cat`.
 */
#include "perfetto.h"

#include <stdlib.h>
#include <string.h>

#include "base/commands.h"
#include "base/shown.h"
#include "lanes.h"

/* ---- packets ---- */

enum { TRACE_PACKET = 1 };
enum {
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK = 60
};
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 };
enum {
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME = 10,
    EVENT_TRACK = 11,
    EVENT_EXTRA_VALUE = 12,
    EVENT_CATEGORY = 22,
    EVENT_COUNTER = 30,
    EVENT_EXTRA_TRACK = 31,
    EVENT_CALLSTACK = 56
};
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8
};
enum { COUNTER_UNIT = 3, UNIT_BYTES = 3 };
enum { PROCESS_PID = 1, PROCESS_CMDLINE = 2, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { ANNOTATION_NAME = 1, ANNOTATION_INT = 4 };
enum { /* of InternedData; each entry has its number as field 1 */
       INTERNED_EVENT_NAME = 2,
       INTERNED_ANNOTATION_NAME = 3,
       INTERNED_FUNCTION = 5,
       INTERNED_FRAME = 6,
       INTERNED_CALLSTACK = 7,
       INTERNED_SOURCE_PATH = 18
};
enum { ENTRY_IID = 1, ENTRY_TEXT = 2 };
enum { FRAME_FUNCTION = 2, FRAME_SOURCE_PATH = 5, FRAME_LINE = 6, CALLSTACK_FRAME = 2 };

static size_t begin_packet(struct perfetto *w)
{
    w->packet.n = 0;
    size_t begun = proto_begin(&w->packet, TRACE_PACKET);
    proto_number(&w->packet, PACKET_SEQUENCE_ID, w->sequence);
    proto_number(&w->packet, PACKET_SEQUENCE_FLAGS, w->begun ? NEEDS_STATE : STATE_CLEARED | NEEDS_STATE);
    w->begun = true;
    return begun;
}

static void end_packet(struct perfetto *w, size_t begun)
{
    proto_end(&w->packet, begun);
    sink_put(w->out, w->packet.at, w->packet.n);
}

/* The packet's time; a run that does not know when it began counts from 0. */
static void put_time(struct perfetto *w, int64_t t)
{
    proto_signed(&w->packet, PACKET_TIMESTAMP, w->start + (t > 0 ? t : 0));
}

/* ---- texts and call stacks that are written once ---- */

static void intern_text(struct perfetto *w, int field, uint64_t iid, const char *text)
{
    size_t packet = begin_packet(w), data = proto_begin(&w->packet, PACKET_INTERNED);
    size_t entry = proto_begin(&w->packet, field);
    proto_number(&w->packet, ENTRY_IID, iid);
    proto_text(&w->packet, ENTRY_TEXT, text);
    proto_end(&w->packet, entry);
    proto_end(&w->packet, data);
    end_packet(w, packet);
}

/* Each table of texts has numbers of its own, from 1. */
static uint64_t text_iid(struct perfetto *w, struct texts *table, int field, const char *text)
{
    bool is_new;
    uint64_t iid = texts_index(table, text, &is_new) + 1;
    if (is_new)
        intern_text(w, field, iid, text);
    return iid;
}

static uint64_t event_name(struct perfetto *w, const char *name)
{
    return text_iid(w, &w->event_names, INTERNED_EVENT_NAME, name && *name ? shown(name) : "unnamed");
}

static uint64_t frame_iid(struct perfetto *w, int64_t frame)
{
    uint64_t iid = (uint64_t)frame + 1;
    if (map_get(&w->frames, frame + 1) >= 0)
        return iid;
    map_put(&w->frames, frame + 1, 0);
    const struct place *place = places_at(&w->places, frame);
    uint64_t function = text_iid(w, &w->functions, INTERNED_FUNCTION, place->name),
             path = *place->file ? text_iid(w, &w->paths, INTERNED_SOURCE_PATH, place->file) : 0;
    size_t packet = begin_packet(w), data = proto_begin(&w->packet, PACKET_INTERNED);
    size_t entry = proto_begin(&w->packet, INTERNED_FRAME);
    proto_number(&w->packet, ENTRY_IID, iid);
    proto_number(&w->packet, FRAME_FUNCTION, function);
    if (path)
        proto_number(&w->packet, FRAME_SOURCE_PATH, path);
    if (place->line)
        proto_number(&w->packet, FRAME_LINE, (uint64_t)place->line);
    proto_end(&w->packet, entry);
    proto_end(&w->packet, data);
    end_packet(w, packet);
    return iid;
}

/* Outermost frame first.  0: the stack has no frame that is wanted. */
static uint64_t callstack_iid(struct perfetto *w, int64_t stack)
{
    int64_t known = map_get(&w->callstacks, stack);
    size_t n;
    if (known >= 0 || stack <= 0)
        return known > 0 ? (uint64_t)stack : 0;
    const int64_t *path = places_path(&w->places, stack, &n);
    map_put(&w->callstacks, stack, n > 0);
    for (size_t i = 0; i < n; i++)
        frame_iid(w, path[i]);
    if (!n)
        return 0;
    size_t packet = begin_packet(w), data = proto_begin(&w->packet, PACKET_INTERNED);
    size_t entry = proto_begin(&w->packet, INTERNED_CALLSTACK);
    proto_number(&w->packet, ENTRY_IID, (uint64_t)stack);
    for (size_t i = n; i-- > 0;)
        proto_number(&w->packet, CALLSTACK_FRAME, (uint64_t)path[i] + 1);
    proto_end(&w->packet, entry);
    proto_end(&w->packet, data);
    end_packet(w, packet);
    return (uint64_t)stack;
}

/* ---- tracks ---- */

enum track_kind { PLAIN, COUNTER };

static uint64_t put_track(struct perfetto *w, uint64_t parent, const char *name, enum track_kind kind)
{
    uint64_t uuid = w->next_uuid++;
    size_t packet = begin_packet(w), track = proto_begin(&w->packet, PACKET_TRACK);
    proto_number(&w->packet, TRACK_UUID, uuid);
    proto_text(&w->packet, TRACK_NAME, shown(name));
    proto_number(&w->packet, TRACK_PARENT, parent);
    if (kind == COUNTER) {
        size_t counter = proto_begin(&w->packet, TRACK_COUNTER);
        proto_number(&w->packet, COUNTER_UNIT, UNIT_BYTES);
        proto_end(&w->packet, counter);
    }
    proto_end(&w->packet, track);
    end_packet(w, packet);
    return uuid;
}

static void put_process(struct perfetto *w)
{
    const struct trace_process *p = &w->t->process;
    const char *command = p->command ? shown(p->command) : "a process";
    char *name =
        p->rank == UNKNOWN ? xstrdup(command) : xformat("rank %lld: %s", (long long)p->rank, command);
    w->process_track = w->next_uuid++;
    size_t packet = begin_packet(w), track = proto_begin(&w->packet, PACKET_TRACK);
    proto_number(&w->packet, TRACK_UUID, w->process_track);
    size_t process = proto_begin(&w->packet, TRACK_PROCESS);
    proto_signed(&w->packet, PROCESS_PID, w->pid);
    proto_text(&w->packet, PROCESS_CMDLINE, command);
    proto_text(&w->packet, PROCESS_NAME, name);
    proto_end(&w->packet, process);
    proto_end(&w->packet, track);
    end_packet(w, packet);
    free(name);
}

/* A thread whose number the kernel gave; of one that has none, a track of its name. */
static uint64_t put_thread(struct perfetto *w, const struct trace_thread *thread)
{
    const char *name = thread && thread->name && *thread->name ? shown(thread->name) : "thread";
    if (!thread || thread->tid == UNKNOWN)
        return put_track(w, w->process_track, name, PLAIN);
    uint64_t uuid = w->next_uuid++;
    size_t packet = begin_packet(w), track = proto_begin(&w->packet, PACKET_TRACK);
    proto_number(&w->packet, TRACK_UUID, uuid);
    size_t inner = proto_begin(&w->packet, TRACK_THREAD);
    proto_signed(&w->packet, THREAD_PID, w->pid);
    proto_signed(&w->packet, THREAD_TID, thread->tid);
    proto_text(&w->packet, THREAD_NAME, name);
    proto_end(&w->packet, inner);
    proto_end(&w->packet, track);
    end_packet(w, packet);
    return uuid;
}

/* ---- events ---- */

static size_t begin_event(struct perfetto *w, int64_t t, int type, uint64_t track, size_t *event)
{
    size_t packet = begin_packet(w);
    put_time(w, t);
    *event = proto_begin(&w->packet, PACKET_EVENT);
    proto_number(&w->packet, EVENT_TYPE, (uint64_t)type);
    proto_number(&w->packet, EVENT_TRACK, track);
    return packet;
}

static void end_event(struct perfetto *w, size_t packet, size_t event)
{
    proto_end(&w->packet, event);
    end_packet(w, packet);
}

static void put_counter(struct perfetto *w, int64_t t, uint64_t track, int64_t value)
{
    size_t event, packet = begin_event(w, t, TYPE_COUNTER, track, &event);
    proto_signed(&w->packet, EVENT_COUNTER, value);
    end_event(w, packet, event);
}

void perfetto_begin_slice(struct perfetto *w, int64_t t, uint64_t track, const char *name,
                          const char *category)
{
    uint64_t iid = event_name(w, name);
    size_t event, packet = begin_event(w, t, TYPE_BEGIN, track, &event);
    proto_number(&w->packet, EVENT_NAME, iid);
    proto_text(&w->packet, EVENT_CATEGORY, category);
    end_event(w, packet, event);
}

void perfetto_end_slice(struct perfetto *w, int64_t t, uint64_t track)
{
    size_t event, packet = begin_event(w, t, TYPE_END, track, &event);
    end_event(w, packet, event);
}

uint64_t perfetto_lane(struct perfetto *w, uint64_t parent, const char *name)
{
    return put_track(w, parent, name, PLAIN);
}

/* ---- the devices ---- */

static void put_device_tracks(struct perfetto *w, int64_t device)
{
    struct perfetto_device *d = PUSH(w->devices, w->device_count);
    const struct trace_device *known = trace_find_device(w->t, device);
    const struct trace_peak *peak = trace_find_peak(w->t, device, "allocated");
    char *name = known && known->name ? xformat("device %lld: %s", (long long)device, known->name)
                                      : xformat("device %lld", (long long)device);
    *d = (struct perfetto_device){.device = device, .allocated_was = UNKNOWN, .reserved_was = UNKNOWN};
    uint64_t group = put_track(w, w->process_track, name, PLAIN);
    d->allocated = put_track(w, group, peak && peak->at_least ? "allocated (known)" : "allocated", COUNTER);
    d->reserved = put_track(w, group, "reserved", COUNTER);
    d->allocations = put_track(w, group, "allocations", PLAIN);
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
            *track = put_track(w, d->group, process ? "driver used" : "driver used (whole device)", COUNTER);
        put_counter(w, s->t, *track, s->driver_used);
    }
    free(samples);
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

static void put_extra(struct perfetto *w, int field, uint64_t value)
{
    if (value)
        proto_number(&w->packet, field, value);
}

static void put_allocation(struct perfetto *w, struct perfetto_device *d, const struct trace_row *e,
                           const char *name, bool allocated, bool reserved)
{
    uint64_t iid = event_name(w, name), stack = callstack_iid(w, e->stack),
             size = text_iid(w, &w->annotations, INTERNED_ANNOTATION_NAME, "bytes");
    size_t event, packet = begin_event(w, e->t, TYPE_INSTANT, d->allocations, &event);
    proto_number(&w->packet, EVENT_NAME, iid);
    size_t annotation = proto_begin(&w->packet, EVENT_ANNOTATION);
    proto_number(&w->packet, ANNOTATION_NAME, size);
    proto_signed(&w->packet, ANNOTATION_INT, e->size == UNKNOWN ? 0 : e->size);
    proto_end(&w->packet, annotation);
    put_extra(w, EVENT_EXTRA_TRACK, allocated ? d->allocated : 0);
    put_extra(w, EVENT_EXTRA_TRACK, reserved ? d->reserved : 0);
    if (allocated)
        proto_signed(&w->packet, EVENT_EXTRA_VALUE, e->framework + e->direct);
    if (reserved)
        proto_signed(&w->packet, EVENT_EXTRA_VALUE, e->reserved);
    put_extra(w, EVENT_CALLSTACK, stack);
    end_event(w, packet, event);
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
        put_allocation(w, d, e, name, allocated, reserved);
        return !w->out->error;
    }
    if (allocated)
        put_counter(w, e->t, d->allocated, e->framework + e->direct);
    if (reserved)
        put_counter(w, e->t, d->reserved, e->reserved);
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
    put_counter(w, p->t_max, f->d->allocated, p->allocated_max);
    put_counter(w, p->t_last, f->d->allocated, p->allocated_last);
    put_counter(w, p->t_last, f->d->reserved, p->reserved_last);
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
            track = put_track(w, w->process_track, "steps", PLAIN);
        *PUSH(w->owned, w->owned_count) = name;
        perfetto_begin_slice(w, from, track, name, "step");
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
            lanes->parent = put_thread(s->w, find_thread(s, thread));
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
        if (put_samples(w, &w->devices[i]) || (w->t->thinned && put_folded_device(w, &w->devices[i])))
            return -1;
    return trace_rows(w->t, 0, put_row, w);
}

static void free_writer(struct perfetto *w)
{
    for (size_t i = 0; i < w->owned_count; i++)
        free(w->owned[i]);
    free(w->owned);
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
        put_process(&w);
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
