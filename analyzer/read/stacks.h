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

#endif
