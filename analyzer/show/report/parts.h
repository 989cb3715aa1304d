/*
 * parts.h - what some memory is for, and in which layers it was made: on the first screen of a report, and in
 * two runs or ranks beside each other.
 *
 *      1.53 GiB  18.3 %  activation       Llama.layers.* x32
 *      1.01 GiB  12.1 %  made in logits   Llama.lm_head          no role is known: the phase of its birth
 *      3.10 GiB  37.0 %  7 more
 */
#ifndef VS_SHOW_REPORT_PARTS_H
#define VS_SHOW_REPORT_PARTS_H

#include <stdio.h>

#include "analysis/compare.h"
#include "base/json.h"
#include "read/trace.h"
#include "read/living.h"

/* The largest parts of N rows, WHOLE bytes in all; nothing where neither roles nor layers are known. */
void report_parts_text(const struct trace_live *live, size_t n, int64_t whole, FILE *out, bool exact);
void report_parts_json(const struct trace_live *live, size_t n, struct json *j); /* the array "parts" */

/* ---- what differs between two moments ---- */

struct lived { /* what lived at a moment */
    const struct trace_live *live;
    size_t n;
};

enum moved_by { MOVED_ROLE, MOVED_LAYER, MOVED_LINE };

/* The bytes of each role, layer (analysis/layers.h) or line of the program, A's and B's, the greatest
 * change first; no rows where neither has any, of roles where one has none.  What has no role has a row of
 * its phase, what has no layer or line one that says so. */
struct comparison moved_of(const struct lived *a, const struct lived *b, enum moved_by by);

/* What grew most from A to B by one question, or shrank most where GREW is false, and by how much; the caller
 * frees it. NULL: nothing did, or one of the two has no answer. */
char *moved_most(const struct lived *a, const struct lived *b, enum moved_by by, bool grew, int64_t *bytes);
/* The three of them in words: "activation, +1.00 GiB; in Llama.layers.*, +1.00 GiB; by
 * train.py:41 main, +0.90 GiB".  NULL: there is none.  The caller frees it. */
char *moved_words(const struct lived *a, const struct lived *b, bool grew, bool exact);

/* ---- why a role ---- */

/* Why what lived at a moment has its role: the rules that decided, and what PyTorch says of the
 * same bytes beside what their accesses say (views block_role, role_agreement). */
/* Of DEVICE at its peak of WHOLE bytes, or at the out-of-memory of event OOM (UNKNOWN: the peak); both
 * witnesses of the peak alone.  Nothing where no role is known. */
void report_rules_text(struct trace *t, int64_t device, int64_t oom, int64_t whole, FILE *out, bool exact);
/* The fields "role" and, in this version, "old_role". */
void role_json(const char *role, struct json *j);
/* The arrays "role_rules" and "role_witnesses". */
void report_rules_json(struct trace *t, int64_t device, int64_t oom, struct json *j);

#endif
