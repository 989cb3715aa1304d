/*
 * perfetto_packet.c - the packets of a trace of Perfetto's.  Texts and call stacks are written once and
 * referred to by number.
 */
#include <stdlib.h>

#include "base/shown.h"
#include "perfetto.h"

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

uint64_t perfetto_track(struct perfetto *w, uint64_t parent, const char *name, enum perfetto_track kind)
{
    uint64_t uuid = w->next_uuid++;
    size_t packet = begin_packet(w), track = proto_begin(&w->packet, PACKET_TRACK);
    proto_number(&w->packet, TRACK_UUID, uuid);
    proto_text(&w->packet, TRACK_NAME, shown(name));
    proto_number(&w->packet, TRACK_PARENT, parent);
    if (kind == PERFETTO_COUNTER) {
        size_t counter = proto_begin(&w->packet, TRACK_COUNTER);
        proto_number(&w->packet, COUNTER_UNIT, UNIT_BYTES);
        proto_end(&w->packet, counter);
    }
    proto_end(&w->packet, track);
    end_packet(w, packet);
    return uuid;
}

void perfetto_process(struct perfetto *w)
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
uint64_t perfetto_thread(struct perfetto *w, const struct trace_thread *thread)
{
    const char *name = thread && thread->name && *thread->name ? shown(thread->name) : "thread";
    if (!thread || thread->tid == UNKNOWN)
        return perfetto_track(w, w->process_track, name, PERFETTO_PLAIN);
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

void perfetto_counter(struct perfetto *w, int64_t t, uint64_t track, int64_t value)
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

static void put_extra(struct perfetto *w, int field, uint64_t value)
{
    if (value)
        proto_number(&w->packet, field, value);
}

void perfetto_allocation(struct perfetto *w, const struct perfetto_device *d, const struct trace_row *e,
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
