/*
 * export.h - a recording in the formats of other tools: what the writers share, and one function for each.
 *
 *      perfetto     perfetto.c     curves, phases and allocations over time    binary
 *      pytorch      pytorch.c      what torch.cuda.memory._snapshot() has      binary
 *      speedscope   speedscope.c   who held the bytes at a moment              text
 *      folded       folded.c       the same, a line a call stack               text
 *      pprof        pprof.c        the same                                    binary
 *      csv          csv.c          every allocation, or every event            text
 *
 * A writer puts bytes into a sink (sink.h), which remembers that one could not be written; it looks at that
 * now and then, and ends.  Memory grows with what is alive at once and with the number of different call
 * stacks, never with the number of events.
 *
 * Each function gives EXIT_GOOD, EXIT_INCOMPLETE where the output lacks something that it said on stderr, or
 * EXIT_USAGE where it said why there is none.
 */
#ifndef VS_EXPORT_EXPORT_H
#define VS_EXPORT_EXPORT_H

#include "read/stream.h"
#include "sink.h"

enum export_frames { FRAMES_ALL, FRAMES_PYTHON, FRAMES_NATIVE };

struct export_options {
    int64_t device;   /* UNKNOWN: all */
    const char *at;   /* the moment: peak, oom, first-oom, largest-oom, or a time */
    int64_t from, to; /* nanoseconds since the run's start; to UNKNOWN: to the end */
    enum export_frames frames;
    bool events; /* csv: every event, not every allocation */
};

typedef int export_writer(struct trace *t, const struct export_options *o, struct sink *out);

export_writer export_perfetto, export_pytorch, export_speedscope, export_folded, export_pprof, export_csv;

/* Whether the device is to be written. */
bool export_wants(const struct export_options *o, int64_t device);
/* The devices that held memory and are to be written, ascending; the caller frees the array.  Where there are
 * none, a line on stderr says why. */
size_t export_devices(struct trace *t, const struct export_options *o, int64_t **out);
/* EXIT_GOOD, or EXIT_USAGE, said: MOMENT, which OPTION gave, is beyond the recording's end. */
int export_past_end(const struct trace *t, const char *option, int64_t moment);

#endif
