/*
 * perfetto.h - what perfetto.c keeps while it writes, and what it offers to lanes.c.
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
    char **owned; /* names */
    size_t owned_count;
};

void perfetto_begin_slice(struct perfetto *w, int64_t t, uint64_t track, const char *name,
                          const char *category);
void perfetto_end_slice(struct perfetto *w, int64_t t, uint64_t track);
/* A new track under PARENT. */
uint64_t perfetto_lane(struct perfetto *w, uint64_t parent, const char *name);

#endif
