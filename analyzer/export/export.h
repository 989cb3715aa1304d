/*
 * export.h - a recording in the formats of other tools: one function for each, in the file of its name, and
 * what they share.
 *
 * Memory grows with what is alive at once and with the number of different call stacks, never with the number
 * of events.
 */
#ifndef VS_EXPORT_EXPORT_H
#define VS_EXPORT_EXPORT_H

#include <stdio.h>

#include "base/destination.h"
#include "read/stream.h"

enum export_frames { FRAMES_ALL, FRAMES_PYTHON, FRAMES_NATIVE };

struct export_options {
    int64_t device;   /* UNKNOWN: all */
    const char *at;   /* the moment: peak, oom, first-oom, largest-oom, or a time */
    int64_t from, to; /* nanoseconds since the run's start; to UNKNOWN: to the end */
    enum export_frames frames;
    bool events; /* csv: every event, not every allocation */
};

/* Where an export goes: a file (base/destination.h: links, pipes, devices, what can't be written whole), or
 * standard output. */
struct sink {
    FILE *file;
    const char *path; /* NULL: standard output */
    struct destination to;
    bool replaces; /* another recording */
    int error;     /* errno of the first write that failed; 0: none did */
};

/* PATH NULL or "-": standard output, which can't be a terminal where BINARY.  SOURCE is the recording, which
 * is never written over; another one is where FORCE.  0, or EXIT_USAGE with the line said. */
int sink_open(struct sink *s, const char *path, bool binary, bool force, const char *source);
/* Makes the file what it is called where GOOD, and removes it where not, or where something was not written.
 * 0, or EXIT_USAGE with the line said. */
int sink_close(struct sink *s, bool good);

void sink_put(struct sink *s, const void *bytes, size_t n);
void sink_text(struct sink *s, const char *text);
void sink_format(struct sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* EXIT_GOOD; EXIT_INCOMPLETE where the output lacks something, said on stderr; EXIT_USAGE where there is
 * none, said why. */
typedef int export_writer(struct trace *t, const struct export_options *o, struct sink *out);

export_writer export_perfetto, export_pytorch, export_folded, export_pprof, export_csv;

/* Whether the device is to be written. */
bool export_wants(const struct export_options *o, int64_t device);
/* The devices that held memory and are to be written, ascending; the caller frees the array.  Where there are
 * none, a line on stderr says why. */
size_t export_devices(struct trace *t, const struct export_options *o, int64_t **out);
/* EXIT_GOOD, or EXIT_USAGE, said: MOMENT, which OPTION gave, is beyond the recording's end. */
int export_past_end(const struct trace *t, const char *option, int64_t moment);

#endif
