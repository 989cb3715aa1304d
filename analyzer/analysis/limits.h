/*
 * limits.h - a limit on memory as somebody wrote it down, and whether a measured figure keeps it.
 *
 *      allocated:20GiB                    all that was allocated on a device, at its peak
 *      phase=logits:4GiB                  likewise while a range of the phase was open, older blocks included
 *      layer=Llama.layers.0,rank=3:2GiB   what one layer held, at its own greatest moment, of one rank
 */
#ifndef VS_ANALYSIS_LIMITS_H
#define VS_ANALYSIS_LIMITS_H

#include "base/base.h"

struct limit {
    char *text;  /* as it was read */
    char *given; /* the option, as it was given; NULL until somebody sets it */
    char *words; /* what is limited, for people: "allocated in phase logits" */
    int64_t bytes;
    bool reserved;
    int64_t device, rank;             /* UNKNOWN: any */
    char *phase;                      /* all that was allocated while a range of it was open */
    char *born, *line, *layer, *role; /* what such blocks held; of several given together all hold */
};

/* Whether it is about some blocks and not about all that was allocated. */
static inline bool limit_is_held(const struct limit *l)
{
    return l->born || l->line || l->layer || l->role;
}

/* Reads TEXT, "SELECTOR:BYTES"; 0, or -1 with the reason in WHY.  limit_free either way. */
int limit_parse(struct limit *l, const char *text, char *why, size_t size);
void limit_free(struct limit *l);

/* Whether PATTERN means the program's line LINE ("FILE:LINE FUNCTION", in backward "forward: ..." before it).
 * PATTERN has the file's path, or the end of it, with or without the number and the function.  What backward
 * made for a line of the forward belongs to that line. */
bool limit_meets_line(const char *pattern, const char *line);
/* Whether LAYER is PATTERN or lies in it; PATTERN may leave out the outermost modules. */
bool limit_meets_layer(const char *pattern, const char *layer);

/* What is known of a figure: it lies between LEAST and MOST. */
#define NO_BOUND INT64_MAX
struct measured {
    int64_t value; /* as recorded; UNKNOWN: it was not */
    int64_t least, most;
};

/* A figure, and another run's that a limit is made of, may only be known to lie between two bounds: events
 * were lost, or the run was cut off.  The limit is kept where every possible figure keeps it, exceeded where
 * none does; of anything between nobody can tell. */
enum verdict { VERDICT_WITHIN, VERDICT_BEYOND, VERDICT_UNTOLD, VERDICT_END };

/* The limit itself lies between LIMIT_LEAST and LIMIT_MOST. */
enum verdict limit_verdict(const struct measured *m, int64_t limit_least, int64_t limit_most);

/* By how much a figure may be greater than that of the run that it is held against. */
struct tolerance {
    double share;
    int64_t bytes;
};
/* Reads "1%", "0.5 %" or bytes. */
bool tolerance_parse(struct tolerance *t, const char *text);
/* BASE and what is tolerated beyond it. */
int64_t tolerance_limit(const struct tolerance *t, int64_t base);

#endif
