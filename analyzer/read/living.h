/*
 * living.h - what lived at a device's peak, at an out-of-memory or after an event, by who made it and what
 * for; and why its role is what it is.  The caller frees the arrays.
 */
#ifndef VS_READ_LIVING_H
#define VS_READ_LIVING_H

#include "trace.h"

struct trace_live { /* bytes held at the device's allocated peak */
    int64_t device, size, count, stack;
    const char *phase, *category, *owner;
    const char *line; /* "FILE:LINE FUNCTION", the program's own innermost; NULL without Python frames */
    const char *layer, *layer_type; /* path of modules or ranges, the module's class; NULL: none */
    const char *role;               /* the block's purpose; NULL: it was not tracked */
};

/* What blocks that lived were asked for as: those with the same type, shape, line and role. */
struct trace_tensor {
    const char *made_for; /* "tensor", "storage", "raw"; NULL: not known, or no framework's block */
    const char *element_type, *shape; /* of a tensor: "bfloat16", "[4, 2048, 8192]" */
    const char *line, *role, *category;
    int64_t size, request, count; /* request: bytes before the allocator rounded them; UNKNOWN */
};

struct trace_rule { /* why what lived has its role */
    const char *role, *rule;
    int64_t bytes, count;
};

struct trace_witness { /* bytes at a peak by what a framework says and what the accesses say; NULL: nothing */
    const char *by_framework, *by_access;
    int64_t bytes, count;
};

/* What the blocks are for that were followed, by the events that made them; the caller frees the array. */
struct trace_role {
    int64_t seq;
    const char *role;
};

/* What held memory at the device's allocated peak. */
int trace_live(struct trace *t, int64_t device, struct trace_live **out, size_t *n);
/* Likewise, to stand beside what lived in OTHER: where T alone followed uses, roles are PyTorch's word alone.
 */
int trace_live_beside(struct trace *t, struct trace *other, int64_t device, struct trace_live **out,
                      size_t *n);
/* What lived on DEVICE after event SEQ, as trace_live gives it.  Right only where every event after SEQ has
 * its row (trace_first_whole_seq).  What was held before the recording is in no row. */
int trace_live_at(struct trace *t, int64_t device, int64_t seq, struct trace_live **out, size_t *n);
/* What lived at the out-of-memory of event SEQ. */
int trace_live_at_oom(struct trace *t, int64_t seq, struct trace_live **out, size_t *n);
/* Bytes of framework blocks (without any, of all memory) that lived at the device's peak and were born in
 * phase PHASE before event SEQ; UNKNOWN: the file can't be read. */
int64_t trace_live_since(struct trace *t, int64_t device, const char *phase, int64_t seq);
/* Whether the uses of any block were followed. */
bool trace_follows(struct trace *t);
/* Roles and the rules that decided them, of what lived at the device's peak or (SEQ not UNKNOWN) at that
 * out-of-memory, the most bytes first; and what the two witnesses of roles say of the peak. */
int trace_rules(struct trace *t, int64_t device, int64_t seq, struct trace_rule **out, size_t *n);
int trace_witnesses(struct trace *t, int64_t device, struct trace_witness **out, size_t *n);
/* What lived at the device's peak, or at that out-of-memory, was asked for as, the most bytes first; whether
 * the file says so of anything. */
int trace_tensors(struct trace *t, int64_t device, int64_t seq, struct trace_tensor **out, size_t *n);
bool trace_knows_tensors(struct trace *t);
/* "bfloat16 [4, 2048, 8192]", "raw bytes", "resized storage"; NULL where MADE_FOR is.  The caller frees it.
 */
char *trace_tensor_words(const char *made_for, const char *element_type, const char *shape);
int trace_roles(struct trace *t, struct trace_role **out, size_t *n);

#endif
