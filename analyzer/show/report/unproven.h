/*
 * unproven.h - what a part of a report lacks because others' code is not as it was taken for granted.
 */
#ifndef VS_SHOW_REPORT_UNPROVEN_H
#define VS_SHOW_REPORT_UNPROVEN_H

#include <stdio.h>

#include "read/trace.h"

/* The sentence for PART (trace_unproven), or nothing. */
void report_unproven(const struct trace *t, const char *part, int indent, FILE *out);

#endif
