/*
 * living.h - what lived at a device's peak, at an out-of-memory or after an event, by who made it and what
 * for, and why its role is what it is; what some blocks held at most; where blocks whose uses were followed
 * lay unused.  The caller frees the arrays.
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

/* ---- at most ---- */

/* Whether a block is one of them follows from its call stack and from the rest; where a part of that was not
 * recorded it may be one. */
enum trace_held_class { HELD_NOT, HELD_MAYBE, HELD_YES };

struct trace_held_by {
    void *context;
    /* LINE, LAYER: NULL where there is none; UNSEEN_LINE, UNSEEN_LAYER: there may be one all the same */
    enum trace_held_class (*stack)(void *context, const char *line, bool unseen_line, const char *layer,
                                   bool unseen_layer);
    /* PHASE: that it was born in.  ROLE: NULL where its use was not followed. */
    enum trace_held_class (*block)(void *context, const char *phase, const char *role);
    bool roles; /* roles are asked for */
};

struct trace_held {
    int64_t blocks;       /* that are certainly of them */
    int64_t most, seq, t; /* of these the most bytes at a time, and the event that reached it */
    int64_t possible;     /* the most with all that may be of them */
};

/* On DEVICE over the whole run.  Looks at every event: the file must not be thinned. */
int trace_held_most(struct trace *t, int64_t device, const struct trace_held_by *by, struct trace_held *out);

/* ---- unused ---- */

/* How a block that was followed lay unused, and is known to have. */
enum trace_waste_kind { WASTE_NEVER, WASTE_EARLY, WASTE_LATE, WASTE_IDLE, WASTE_KINDS };

struct trace_waste { /* a row of view waste, or of view waste_at_most */
    enum trace_waste_kind kind;
    int64_t alloc_seq, free_seq; /* free_seq UNKNOWN: it lives */
    int64_t size, from, to;      /* ns */
    int64_t all_from, all_to;    /* what of it counts in a sum over all kinds; all_to < all_from: nothing */
    int64_t stack;
    const char *line, *layer, *role; /* as in struct trace_live */
};

struct trace_followed {    /* bytes at a device's peak */
    int64_t all, followed; /* of all: whose uses were followed */
    int64_t unseen;        /* of these: may have been used without being given to the device */
};

/* Where blocks of DEVICE lay unused, as far as each use that was seen is one, or AT_MOST; and how much of
 * the peak was followed.  Both scan all events.  trace_knows_sure: of any use it is recorded that it is sure,
 * or there is none; otherwise AT_MOST says nothing. */
bool trace_knows_sure(struct trace *t);
int trace_waste(struct trace *t, int64_t device, bool at_most, struct trace_waste **out, size_t *n);
int trace_followed(struct trace *t, int64_t device, struct trace_followed *out);

#endif
