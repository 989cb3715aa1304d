/*
 * ranges.h - opens and closes ranges, and finds the range that an event belongs to.
 */
#ifndef VS_FRAMEWORK_RANGES_H
#define VS_FRAMEWORK_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "names.h"
#include "record/record.h"

/* Called once, from the library's constructor: before any thread can fork, and early enough to get a
 * low-numbered key. */
void vs_ranges_init(void);

struct vs_range_names {
    struct vs_name *name;   /* NULL: the table of names is full; TEXT is used then */
    struct vs_name *domain; /* NULL: the default domain */
    const char *text;
    size_t length;
};

/* Opens a range of NAME on the calling thread.  DOMAIN may be NULL.  Returns its id, 0 = not recorded. */
uint32_t vs_range_push(const char *name, const char *domain, enum vs_range_source source);
/* Closes the innermost open range of this SOURCE and DOMAIN on the calling thread; unbalanced pops are
 * ignored. Returns depth or -1 */
int vs_range_pop(const char *domain, enum vs_range_source source);
/* The range that an event on the calling thread belongs to now: the thread's own innermost phase-naming
 * range by precedence marker > NVTX > automatic, else the lead thread's.  Writes waiting events first.  One
 * load or two. */
uint32_t vs_range_current(void);

/* Like vs_range_push.  *DEPTH gets the number of ranges of the same source and domain that were open on the
 * thread.  Depths are kept even if nothing is recorded (result 0), so that pops stay balanced. */
uint32_t vs_range_open(const struct vs_range_names *names, enum vs_range_source source, int *depth);

/* Like vs_range_pop: the depth of the range that was closed; -1: none of that source and domain
 * was open. */
int vs_range_close(const struct vs_name *domain, enum vs_range_source source);

/* A range on no thread's stack, closed from any thread. 0 = not recorded. */
uint32_t vs_range_start(const struct vs_range_names *names, enum vs_range_source source);
/* False if ID was never given out. */
bool vs_range_end(uint32_t id);

/* A named moment; false: dropped, because nothing is recorded yet. */
bool vs_range_mark(const char *text, size_t length, struct vs_name *domain, enum vs_range_source source);

/* Makes the calling thread the lead thread: threads without a phase take its innermost one.  Returns a
 * number that differs in every fork child. */
uint32_t vs_range_lead(void);

#endif
