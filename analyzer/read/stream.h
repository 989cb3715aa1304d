/*
 * stream.h - the large tables of a recording, a row at a time, for who writes everything out (export/).
 *
 * A visitor says whether it wants more (events.h).  What a row points to lives until trace_close, but for
 * what is said to be the row's own.  Every int is 0, or -1 with t->why.
 */
#ifndef VS_READ_STREAM_H
#define VS_READ_STREAM_H

#include "events.h"
#include "stacks.h"

/* ---- where events are ---- */

/* Behind the last event that has no row (folded, or there was no room): from this number on each has one. */
int64_t trace_first_whole_seq(struct trace *t);

/* Of a recording that was imported: the event behind those that say what lived before the trace; else 0. */
int64_t trace_imported_start(struct trace *t);
/* The last event at WHEN or before it; 0: there is none. */
int64_t trace_seq_at(struct trace *t, int64_t when);

/* ---- allocations with their ends ---- */

struct trace_allocation {                         /* a row of view allocation; the texts are the row's own */
    int64_t alloc_seq, free_seq, t_alloc, t_free; /* of the free UNKNOWN: it lives */
    int64_t device, address, size, range, stack;
    bool managed;
    const char *op, *space, *phase, *layer, *owner, *line, *role;
    const char *made_for, *element_type, *shape; /* as in struct trace_tensor */
    int64_t request;                             /* bytes; UNKNOWN */
};
typedef bool trace_allocation_visit(void *context, const struct trace_allocation *a);
/* Those that ended in the order of their ends, then those that live. */
int trace_each_allocation(struct trace *t, trace_allocation_visit *visit, void *context);

/* What blocks are for.  NULL where none was followed (VRAMSCOPE_ACCESS), and the two below then say so of
 * each. */
struct trace_role_finder;
struct trace_role_finder *trace_role_begin(struct trace *t);
/* The role of the block of allocation ALLOC_SEQ; NULL: it was not followed.  Lives until the next call. */
const char *trace_role_of(struct trace_role_finder *roles, int64_t alloc_seq);
/* The number by which PyTorch, or a rule of the import's, said that role (table framework_role); 0: neither
 * did. */
int64_t trace_role_rule_of(struct trace_role_finder *roles, int64_t alloc_seq);
void trace_role_end(struct trace_role_finder *roles);

/* ---- ranges ---- */

struct trace_span_row {    /* one instance of a phase or of another range */
    int64_t id, parent;    /* parent: of the range around it, 0 none */
    int64_t t_push, t_pop; /* UNKNOWN while open */
    int64_t thread;
    int phase;        /* 0: it names none */
    bool lost;        /* its pop was not seen: nobody knows when it ended */
    bool crosses;     /* a start/end range, which belongs to no thread's stack */
    const char *name; /* the range's own; NULL unknown */
};
typedef bool trace_span_visit(void *context, const struct trace_span_row *row);
/* In the order in which they were opened. */
int trace_each_range(struct trace *t, trace_span_visit *visit, void *context);

/* Names of threads, by id. */
struct trace_thread {
    int64_t id, tid;
    const char *name;
};
int trace_threads(struct trace *t, struct trace_thread **out, size_t *n);

#endif
