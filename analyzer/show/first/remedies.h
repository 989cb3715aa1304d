/* remedies.h - the table of what to do about a run's memory. */
#ifndef VS_SHOW_FIRST_REMEDIES_H
#define VS_SHOW_FIRST_REMEDIES_H

#include <stdio.h>

#include "read/trace.h"
#include "whatif/remedies.h"

/* REFUSED: what would have let the request pass; else what would lower what is reserved. */
void first_remedies_text(const struct trace *t, const struct remedies *r, bool refused, FILE *out,
                         bool exact);

#endif
