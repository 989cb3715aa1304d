/*
 * moment.h - what lived on the devices at a moment, for the formats that show one moment: folded and pprof.
 *
 * The sizes of a device's rows and REST add up to BYTES, which is what `vramscope peak` says of that moment,
 * to the byte.
 */
#ifndef VS_EXPORT_MOMENT_H
#define VS_EXPORT_MOMENT_H

#include "export.h"
#include "places.h"
#include "read/living.h"

struct moment { /* of one device */
    int64_t device, t;
    int64_t bytes; /* allocated then; where AT_LEAST what is known of it */
    bool at_least;
    struct trace_live *live;
    size_t count;
    int64_t rest;     /* bytes that no row explains: held before the recording, or lost */
    const char *what; /* "at the peak", "when memory ran out", "then" */
};

/* The moment that O asks for, of each device that it wants.  EXIT_GOOD, or EXIT_USAGE with the line said. */
int moments_load(struct trace *t, const struct export_options *o, struct moment **out, size_t *n);
void moments_free(struct moment *m, size_t n);

/* "device 0 at the peak, 23.55 GiB"; the caller frees it. */
char *moment_title(const struct moment *m);
/* What stands for bytes that no row explains. */
#define MOMENT_REST "not in the file (unknown)"

/* Each row as its frames, innermost first, with what stands for none; then the rest. */
struct moment_sample {
    const int64_t *frames; /* for places_at */
    size_t frame_count;
    const char *name; /* of what has no frame, else NULL */
    int64_t bytes, count;
    const struct trace_live *live; /* NULL: the rest */
};
typedef void moment_visit(void *context, const struct moment *m, const struct moment_sample *sample);
void moment_each(const struct moment *m, struct places *p, moment_visit *visit, void *context);

#endif
