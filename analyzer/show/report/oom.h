/* oom.h - the out-of-memory at the head of a report: the last that reached the program. */
#ifndef VS_SHOW_REPORT_OOM_H
#define VS_SHOW_REPORT_OOM_H

#include <stdio.h>

#include "analysis/holders.h"
#include "analysis/oom.h"
#include "analysis/unused.h"
#include "base/json.h"
#include "read/living.h"
#include "read/ooms.h"

struct oom_report {
    struct trace_oom_kept *kept;
    size_t kept_count;
    const struct trace_oom_kept *lead; /* NULL: none reached the program, or the file is too old to say */
    int64_t total_bytes;               /* that the process could have of its device; UNKNOWN */
    bool limited;                      /* by `run --limit` */
    struct trace_live *live;           /* the allocations that lived then */
    size_t live_count;
    int64_t live_bytes;
    struct oom_need need;
    struct unused unused;
    int64_t gave_up, refused, absorbed, then_reported; /* counts of the whole run */
    int64_t steps_after, t_end;
};

/* ROLE of enum in analysis/oom.h: the last, the first or the largest leads.  0, or -1 with t->why. */
int oom_report_load(struct oom_report *r, struct trace *t, int64_t role);
void oom_report_free(struct oom_report *r);

/* "OUT OF MEMORY on device 0 ...", what was asked for, and why it was refused. */
void oom_report_head_text(const struct oom_report *r, FILE *out, bool exact);
/* Where the program made the request: "train.py:41 main, in Model.head"; the caller frees it. */
char *oom_report_place(const struct oom_report *r, struct trace *t);
void oom_report_text(const struct oom_report *r, struct trace *t, FILE *out, bool exact, bool full);
/* The changes of the program that would have let the request pass, or free the most; of a framework's request
 * that ended the run. */
void oom_report_changes_text(const struct oom_report *r, struct trace *t, FILE *out, bool exact);
/* Prints the device's memory at that moment, from allocated to other processes' bytes, with the same rows in
 * every command; nothing for
 * host memory. */
void oom_report_device_text(const struct oom_report *r, FILE *out, bool exact);
/* From the refusal to the end of the recording, in ns; UNKNOWN. */
int64_t oom_report_ends_after(const struct oom_report *r);
void oom_report_json(const struct oom_report *r, struct trace *t, struct json *j); /* members */
/* "out of memory on device 0 in forward: asked for 2.00 GiB, short by 1.20 GiB"; the caller frees it */
char *oom_report_line(const struct oom_report *r, bool exact);

#endif
