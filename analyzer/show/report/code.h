/*
 * code.h - which places in the code hold most of some memory.
 *
 *      1.53 GiB  18.3 %  model.py:37 train                   a line of Python
 *      1.01 GiB  12.1 %  trainer.c:40 forward → allocate     where no Python ran: a function
 *      3.10 GiB  37.0 %  (no Python line; made in backward)  neither is known
 */
#ifndef VS_SHOW_REPORT_CODE_H
#define VS_SHOW_REPORT_CODE_H

#include <stdio.h>

#include "read/trace.h"

enum { CODE_STACKS = 20000 }; /* call stacks that are examined, of the greatest rows; the rest are small */

/* The place of L as above, for people; *CODE: it is known, not only the phase.  *LOOKED_UP counts the call
 * stacks that were examined.  The caller frees it. */
char *report_code_place(struct trace *t, const struct trace_live *l, size_t *looked_up, bool *code);

/* Prints the places with the most bytes of the N rows, which are WHOLE bytes in all; nothing if no place is
 * known. */
void report_code_text(struct trace *t, const struct trace_live *live, size_t n, int64_t whole, FILE *out,
                      bool exact);

#endif
