/*
 * stream.h - the large tables of a recording, a row at a time: for what writes everything out (export/).
 *
 * As with events (events.h), a visitor gets each row and says whether it wants more.  What a row points to
 * lives until trace_close, but for what is said to be the row's own.
 *
 * Every function that returns int gives 0, or -1 with the one-line reason in t->why.  A visitor that had
 * enough is no error.
 */
#ifndef VS_READ_STREAM_H
#define VS_READ_STREAM_H

#include "events.h"
#include "living.h"
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

/* What lived on DEVICE after event SEQ, as trace_live has it of the peak.  Right only where every event after
 * SEQ has its row (trace_first_whole_seq).  What was held before the recording is in no row. */
int trace_live_after(struct trace *t, int64_t device, int64_t seq, struct trace_live **out, size_t *n);

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

/* ---- call stacks ---- */

struct trace_node {     /* a stack is the path from its node outward */
    int64_t id, parent; /* parent is less than id, 0: outermost */
    int64_t frame;      /* index into frames, -1 none */
};
struct trace_paths {
    struct trace_node *nodes; /* by id */
    size_t node_count;
    struct trace_frame *frames;
    size_t frame_count;
};
int trace_load_paths(struct trace *t, struct trace_paths *out);
void trace_free_paths(struct trace_paths *s);
/* NULL where there is no such stack. */
const struct trace_node *trace_find_node(const struct trace_paths *s, int64_t id);

/* Names of threads, by id. */
struct trace_thread {
    int64_t id, tid;
    const char *name;
};
int trace_threads(struct trace *t, struct trace_thread **out, size_t *n);

#endif
