/*
 * perfetto.h - a trace of Perfetto's while it is written: its packets (perfetto_packet.c), for what goes into
 * them (perfetto.c, lanes.c).
 */
#ifndef VS_EXPORT_PERFETTO_H
#define VS_EXPORT_PERFETTO_H

#include "export.h"
#include "map.h"
#include "places.h"
#include "proto.h"

#define CUDA_OUT_OF_MEMORY 2 /* CUresult */

struct perfetto_device {
    int64_t device;
    uint64_t group, allocated, reserved, allocations; /* tracks */
    int64_t allocated_was, reserved_was;              /* UNKNOWN: not written yet */
};

struct perfetto {
    struct trace *t;
    const struct export_options *o;
    struct sink *out;
    struct proto packet;
    struct places places;
    uint64_t sequence, next_uuid, process_track;
    int64_t start, pid;
    bool begun; /* a packet was written */
    struct texts event_names, functions, paths, annotations;
    struct map frames, callstacks; /* what was written; a call stack's value: whether it has frames */
    struct perfetto_device *devices;
    size_t device_count;
};

enum perfetto_track { PERFETTO_PLAIN, PERFETTO_COUNTER };

/* New tracks; PARENT is one that was made before. */
uint64_t perfetto_track(struct perfetto *w, uint64_t parent, const char *name, enum perfetto_track kind);
uint64_t perfetto_thread(struct perfetto *w, const struct trace_thread *thread); /* NULL: not known */
void perfetto_process(struct perfetto *w);                                       /* the first one of all */

void perfetto_counter(struct perfetto *w, int64_t t, uint64_t track, int64_t value);
/* An instant called NAME, with the size and the call stack of E, and the totals after it that changed. */
void perfetto_allocation(struct perfetto *w, const struct perfetto_device *d, const struct trace_row *e,
                         const char *name, bool allocated, bool reserved);
void perfetto_begin_slice(struct perfetto *w, int64_t t, uint64_t track, const char *name,
                          const char *category);
void perfetto_end_slice(struct perfetto *w, int64_t t, uint64_t track);
/* A new track under PARENT. */
uint64_t perfetto_lane(struct perfetto *w, uint64_t parent, const char *name);

#endif
