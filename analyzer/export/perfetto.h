/* perfetto.h - a trace of Perfetto's while it is written: tracks, counters, slices, allocations. */
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

/*
 * Slices that may overlap, on as few tracks as they need (lanes.c).  They are put in the order of their
 * begins; a slice goes to the first lane in which it lies within what is open there, or in which nothing is
 * open.
 *
 *      given   A------------A          lane 1   A------------A
 *                 B---B                            B---B
 *                         C------C     lane 2               C------C
 */
struct lane {
    uint64_t track;
    int64_t *ends; /* of what is open, outermost first */
    size_t n;
    int64_t now; /* the last moment that was written */
};

struct lanes {
    uint64_t parent;
    const char *name;
    bool first_is_parent; /* the first lane is PARENT itself */
    struct lane *at;
    size_t n;
};

/* END INT64_MAX: it is open. */
void lanes_put(struct lanes *l, struct perfetto *w, int64_t begin, int64_t end, const char *name,
               const char *category);
/* Ends what has an end, and frees the lanes. */
void lanes_end(struct lanes *l, struct perfetto *w);

#endif
