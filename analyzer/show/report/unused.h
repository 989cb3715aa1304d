/*
 * unused.h - what was reserved and not allocated, part by part, with what would free each: of report, peak,
 * check and view.
 */
#ifndef VS_SHOW_REPORT_UNUSED_H
#define VS_SHOW_REPORT_UNUSED_H

#include <stdio.h>

#include "analysis/unused.h"
#include "base/json.h"

enum { UNUSED_ALL = 0, UNUSED_LARGE = 50 }; /* rows of at least 1 / LEAST of what was reserved */

/* "    of 11.00 GiB reserved WHEN 10.00 GiB were not allocated:" and the rows; nothing where there are none
 * of LEAST. */
void report_unused_text(struct trace *t, const struct unused *u, const char *when, int least, FILE *out,
                        bool exact);
/* The same as one paragraph; NULL: there are no such rows.  The caller frees it. */
char *unused_paragraph(struct trace *t, const struct unused *u, const char *when, int least, bool exact);
void report_unused_json(struct trace *t, const struct unused *u, const char *name, struct json *j);
/* "train.py:14 step, pool (1, 0)"; the caller frees it. */
char *unused_capture_name(struct trace *t, const struct unused_capture *c);
/* Each capture of a CUDA graph; a list "captures". */
void report_captures_json(struct trace *t, const struct unused *u, struct json *j);

#endif
