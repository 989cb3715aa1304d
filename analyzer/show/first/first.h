/*
 * first.h - the first screen of a report: what happened, what to do about it, who held the memory, and what
 * else is large.  It has at most 40 lines of 80 columns, but for what the recording lacks.
 */
#ifndef VS_SHOW_FIRST_FIRST_H
#define VS_SHOW_FIRST_FIRST_H

#include <stdio.h>

#include "show/report/report.h"
#include "read/trace.h"
#include "whatif/remedies.h"

/* What it is made of. */
#define FIRST_PARTS                                                                                          \
    (REPORT_HELD | REPORT_UNUSED | REPORT_GROWTH | REPORT_SAVINGS | REPORT_RESIDUAL | REPORT_UNSEEN |        \
     REPORT_REFUSAL)

void first_text(const struct report *r, FILE *out, bool exact);

/* REFUSED: what would have let the request pass; else what would lower what is reserved. */
void first_remedies_text(const struct trace *t, const struct remedies *r, bool refused, FILE *out,
                         bool exact);

#endif
