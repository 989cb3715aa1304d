/*
 * code.h - which places in the code hold most of some memory.
 *
 *      1.53 GiB  18.3 %  model.py:37 train                   a line of Python
 *      1.01 GiB  12.1 %  trainer.c:40 forward → allocate     where no Python ran: a function
 *      3.10 GiB  37.0 %  (no Python line; made in backward)  neither is known
 *      512.0 MiB  6.1 %  model.py:41 Block.forward, bfloat16 [4, 2048, 8192] x4
 *
 * A tensor stands behind the line if it has at least half of the line's bytes and the page is wide enough.
 */
#ifndef VS_SHOW_REPORT_CODE_H
#define VS_SHOW_REPORT_CODE_H

#include <stdio.h>

#include "read/trace.h"
#include "read/living.h"

enum { CODE_STACKS = 20000 }; /* call stacks that are examined, of the greatest rows; the rest are small */

/* LINE, a column of the views, for tables; of a library's workspace, as ROLE (NULL: unknown) says,
 * "workspace: model.py:41 f".  The caller frees it. */
char *report_line_text(const char *line, const char *role);

/* The place of L as above, for people; *CODE: it is known, not only the phase.  *LOOKED_UP counts the call
 * stacks that were examined.  The caller frees it. */
char *report_code_place(struct trace *t, const struct trace_live *l, size_t *looked_up, bool *code);

/* Prints the places with the most bytes of the N rows; nothing if no place is known.  The rows are WHOLE
 * bytes in all.  They lived on DEVICE at its peak, or, if OOM is not UNKNOWN, at that out-of-memory. */
void report_code_text(struct trace *t, const struct trace_live *live, size_t n, int64_t whole, int64_t device,
                      int64_t oom, FILE *out, bool exact);

#endif
