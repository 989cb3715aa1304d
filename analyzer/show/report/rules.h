/*
 * rules.h - why what lived at a moment has its role: the rules that decided, and what PyTorch says of the
 * same bytes beside what their accesses say (views block_role, role_agreement).
 */
#ifndef VS_SHOW_REPORT_RULES_H
#define VS_SHOW_REPORT_RULES_H

#include <stdio.h>

#include "base/json.h"
#include "read/trace.h"

/* Of DEVICE at its peak of WHOLE bytes, or at the out-of-memory of event OOM (UNKNOWN: the peak); both
 * witnesses of the peak alone.  Nothing where no role is known. */
void report_rules_text(struct trace *t, int64_t device, int64_t oom, int64_t whole, FILE *out, bool exact);
/* The fields "role" and, in this version, "old_role". */
void role_json(const char *role, struct json *j);
/* The arrays "role_rules" and "role_witnesses". */
void report_rules_json(struct trace *t, int64_t device, int64_t oom, struct json *j);

#endif
