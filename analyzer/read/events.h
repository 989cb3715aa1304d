/*
 * events.h - the history of a run: the rows of table ev, in their order, to a visitor, as ten million
 * events fit into no array. tape.h and lives.h make structs of it.
 */
#ifndef VS_READ_EVENTS_H
#define VS_READ_EVENTS_H

#include "trace.h"

struct trace_row { /* one row of ev; bytes and nanoseconds since the run's start */
    int64_t seq, t, device, address, range, stack;
    int64_t size;                        /* UNKNOWN where the file has none */
    int64_t mate;                        /* 0 none */
    int64_t framework, direct, reserved; /* the device's totals after it */
    int64_t thread, context, stream, status;
    int64_t tensor;     /* tensor.id of what a block was made for; 0 unknown */
    int op, space;      /* enum vs_op, enum vs_space */
    int phase;          /* index into phase_names */
    int managed;        /* enum vs_managed, as known at birth */
    bool reclassified;  /* it turned out to be managed: a row of op RECLASSIFY follows */
    int64_t taken_back; /* a free that failed: the number of the row of op FREE_FAILED that says so; else 0 */
    const char *api;    /* NULL: no driver function; lives until trace_close */
};
typedef bool trace_row_visit(void *context, const struct trace_row *row); /* false: no more */

#define EVENT(NAME) (UINT64_C(1) << VS_OP_##NAME) /* a set of kinds of events */
#define EVENTS_ALL  UINT64_MAX
/* Those that change, or state, the totals of their device. */
#define EVENTS_TOTALS (~(((UINT64_C(1) << 20) - 1) << 30))

struct trace_part { /* of the history */
    int64_t device; /* UNKNOWN: of any, and of none */
    int64_t first, last;
    uint64_t ops;
};

/* The rows of PART (NULL: all).  0, or -1 with t->why; a visitor that had enough is no error. */
int trace_rows(struct trace *t, const struct trace_part *part, trace_row_visit *visit, void *context);

/* Whether the row changed, or states, the totals of its device. */
bool trace_row_counts(const struct trace_row *row);
/* Whether it makes memory that counts as allocated: a framework's block, or driver memory that no caching
 * allocator carves, as known then.  Whether it ends some: that of its mate. */
bool trace_row_begins(const struct trace_row *row);
bool trace_row_ends(const struct trace_row *row);
const char *trace_op_name(int op);
const char *trace_space_name(int space);

#endif
