/*
 * holders.h - who held the bytes at the peak: the live set grouped by one question.
 */
#ifndef VS_ANALYSIS_HOLDERS_H
#define VS_ANALYSIS_HOLDERS_H

#include "read/trace.h"

enum holder_by { BY_LINE, BY_LAYER, BY_ROLE, BY_PHASE, BY_CATEGORY, BY_LIBRARY, BY_STACK };

struct holder {
    const char *line, *layer, *role, *phase, *category,
        *owner; /* NULL where the rows are not grouped by it */
    int64_t stack, bytes, count;
    bool
        no_stack; /* owner is not known because no call stack was taken; else nothing in it names a library */
    bool no_native; /* ... or because Python frames alone were taken */
};

/* Groups N rows; the result is sorted by bytes, greatest first, and sums to what the rows sum to.  The caller
 * frees it. */
struct holder *holders_group(const struct trace_live *live, size_t n, enum holder_by by, size_t *count);

/* Composition of a peak for a report: framework blocks by phase of birth, everything else by category and
 * library. */
struct holder *holders_composition(const struct trace_live *live, size_t n, size_t *count);

/* How a group without a library or a line is called: where no row of its kind has what was asked for, with
 * the option that takes it.  The caller frees it. */
char *holders_nameless(const struct holder *h, const struct trace_live *live, size_t n);

/* The same of a group without a line. */
char *holders_lineless(const struct holder *h);

int64_t holders_total(const struct trace_live *live, size_t n);

#endif
