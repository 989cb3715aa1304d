/*
 * stacks.h - the call stacks that the recording took.
 */
#ifndef VS_READ_STACKS_H
#define VS_READ_STACKS_H

#include "trace.h"

struct trace_frame {
    const char *module, *function, *file;
    int64_t offset, line;
    int64_t kind; /* enum vs_frame_kind */
};

/* The frames of stack ID, innermost first; the caller frees them. */
int trace_stack(struct trace *t, int64_t id, struct trace_frame **out, size_t *n);
/* The library that made the requests with call stack STACK; NULL: unknown. */
const char *trace_owner(struct trace *t, int64_t stack);
/* The program's own line of call stack STACK, "FILE:LINE FUNCTION"; NULL: it has no Python frame. */
const char *trace_line(struct trace *t, int64_t stack);

/* The table of call stacks, whole: a stack is the path from its row outward. */
struct trace_stack_row {
    int64_t id, parent, frame;        /* parent: less than id, 0: outermost; frame: 0 none */
    const char *line, *layer, *owner; /* as in the views; NULL none */
};
struct trace_frame_row {
    int64_t id;
    struct trace_frame is;
    const char *text, *file; /* the function, or module+0xoffset; file with its line, NULL unknown */
};
struct trace_stacks {
    struct trace_stack_row *rows; /* in the order of ids: a parent stands before its children */
    size_t count;
    struct trace_frame_row *frames; /* in the order of ids */
    size_t frame_count;
    char **owned;
    size_t owned_count;
};
int trace_stacks(struct trace *t, struct trace_stacks *out);
void trace_free_stacks(struct trace_stacks *s);
/* The row of stack ID; NULL where the table lacks it. */
const struct trace_stack_row *trace_find_stack(const struct trace_stacks *s, int64_t id);
const struct trace_frame_row *trace_find_frame(const struct trace_stacks *s, int64_t id);

#endif
