/*
 * waste.h - where blocks whose uses were followed lay unused: before their first use, after their last, in
 * between, or all their life.
 */
#ifndef VS_READ_WASTE_H
#define VS_READ_WASTE_H

#include "trace.h"

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
