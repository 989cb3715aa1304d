/*
 * ooms.h - the out-of-memory events that are kept with all that is known of their moment (table `oom`: of
 * each device the first, the last and the largest), and what lived then.
 */
#ifndef VS_READ_OOMS_H
#define VS_READ_OOMS_H

#include "living.h"
#include "trace.h"

struct trace_oom_kept { /* a row of `oom`: the first, the last, the largest that reached the program */
    int64_t seq, role, t, device, op, thread, stack, step;
    int64_t requested, asked_driver, refusals;
    int64_t framework, direct, managed, unknown_use, reserved, base, pinned, registered;
    int64_t away;                         /* of framework and direct: on the host, and not in reserved */
    int64_t free, free_t;                 /* the driver's free bytes, queried right after */
    int64_t reserved_then;                /* our figure at free_t */
    int64_t process_used, process_used_t; /* the last figure; of the same moment unless older than free_t */
    int64_t device_used, device_used_t;
    const char *phase, *api, *space, *owner, *thread_name;
    const char *made_for, *element_type, *shape; /* of what was refused; NULL: not recorded */
    int64_t tensor_bytes;                        /* of that, which requested is rounded up from */
    bool stored;
};

/* Out-of-memory that reached the program; the caller frees the arrays.  SEQ: its event. */
int trace_ooms_kept(struct trace *t, struct trace_oom_kept **out, size_t *n);
/* What lived at the refusal SEQ, was made in its step, and still lived when the recording's last step ended:
 * by phase and line, the most first.  *LAST: that step's number.  No row where no step ended after the one of
 * the refusal. */
int trace_left_by_oom(struct trace *t, int64_t seq, int64_t *last, struct trace_live **out, size_t *n);
/* What the line of the request O got before: its largest block, of SIZE bytes, in a step that ended, and how
 * many bytes MORE were allocated at most from there to that step's end. */
struct trace_before {
    int64_t step, size, more;
};
/* 0 with OUT->step UNKNOWN: it got none.  -1 with t->why. */
int trace_line_before(struct trace *t, const struct trace_oom_kept *o, struct trace_before *out);
/* Bytes of the last request that was refused, where nothing was got and no step ended after it, by anybody
 * (0: the call does not say how many); UNKNOWN: there is none. */
int64_t trace_last_refused(struct trace *t);

#endif
