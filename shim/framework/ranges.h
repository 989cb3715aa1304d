/* ranges.h - opens and closes ranges, and finds the range that an event belongs to. */
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

/* The range that an event on the calling thread belongs to now: the thread's own innermost phase-naming
 * range by precedence marker > NVTX > automatic, else the lead thread's.  Writes waiting events first.  One
 * load or two. */
uint32_t vs_range_current(void);

/* Opens a range of NAMES on the calling thread.  Returns its id, 0 = not recorded.  *DEPTH gets the number of
 * ranges of the same source and domain that were open on the thread.  Depths are kept even if nothing is
 * recorded, so that pops stay balanced. */
uint32_t vs_range_open(const struct vs_range_names *names, enum vs_range_source source, int *depth);

/* Closes the innermost open range of this SOURCE and DOMAIN on the calling thread.  Its depth; -1: none was
 * open. */
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

/* ---- markers.c ---- */

/* To be told once of each pool ("JAX", "CuPy") that says that it uses memory.  preload/init.c fills it in;
 * NULL: nobody. */
extern void (*vs_pool_seen)(const char *pool);
/* Of blocks that begin at COUNT ADDRESSES, what Python says that they are for (trace/roles.h); NULL: nobody
 * wants to know. */
extern void (*vs_roles_told)(const uint64_t *addresses, size_t count, unsigned role);

#endif
