/*
 * holders.h - who held the bytes at the peak: groups the live set by phase, line, library, ...
 */
#ifndef VS_ANALYSIS_HOLDERS_H
#define VS_ANALYSIS_HOLDERS_H

#include "read/trace.h"
#include "read/living.h"

enum holder_by { BY_LINE, BY_LAYER, BY_ROLE, BY_TENSOR, BY_PHASE, BY_CATEGORY, BY_LIBRARY, BY_STACK };

struct holder {
    const char *line, *layer, *role, *phase, *category,
        *owner; /* NULL where the rows are not grouped by it */
    int64_t stack, bytes, count;
    bool no_stack; /* the owner is unknown because no call stack was taken; otherwise none of its frames is in
                      a library */
    bool no_native;             /* the owner is unknown because only Python frames were taken */
    struct trace_tensor tensor; /* of holders_of_tensors */
};

/* The groups of BY_TENSOR, which are not of the live set's rows: of what lived on DEVICE at its peak, or at
 * the out-of-memory of event OOM (UNKNOWN: the peak).  The caller frees it; NULL: the file can't be read. */
struct holder *holders_of_tensors(struct trace *t, int64_t device, int64_t oom, size_t *count);

/* "bfloat16 [4, 2048, 8192], model.py:41 Model.forward".  The caller frees it. */
char *holders_tensor_name(const struct holder *h, const char *line);

/* Groups N rows, not BY_TENSOR; the result is sorted by bytes, greatest first, and has the same sum as the
 * rows.  The caller frees it. */
struct holder *holders_group(const struct trace_live *live, size_t n, enum holder_by by, size_t *count);

/* The composition of a peak for a report: framework blocks by phase of birth, other allocations by category
 * and library. */
struct holder *holders_composition(const struct trace_live *live, size_t n, size_t *count);

/* The name of a group without a library or a line.  If no row of its kind has one, the name says which
 * option would record it, of `run` or, where the trace was IMPORTED, of the snapshot.  The caller frees it.
 */
char *holders_nameless(const struct holder *h, const struct trace_live *live, size_t n, bool imported);

/* Likewise for a group without a line: "framework (no Python line)". */
char *holders_lineless(const struct holder *h);

int64_t holders_total(const struct trace_live *live, size_t n);

#endif
