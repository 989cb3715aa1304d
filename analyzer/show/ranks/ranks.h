/*
 * ranks.h - `vramscope report` of several files: from open traces to analysis/ranks.h, and onto the screen.
 */
#ifndef VS_SHOW_RANKS_RANKS_H
#define VS_SHOW_RANKS_RANKS_H

#include <stdio.h>

#include "analysis/ranks.h"
#include "analysis/relabel.h"
#include "base/json.h"
#include "show/report/report.h"

#define RANK_COMPLETE "complete" /* the state of a file that nothing is to be said about */

/* What the ranks' page needs of a report, in its own memory. */
struct rank_file ranks_file_of(const struct report *r);

/* RELABEL: as the files were read; the highest one is read again.  Both answer whether nothing is missing: no
 * rank, and of no file its end or an event. */
bool ranks_text(const struct rank_file *files, size_t n, const struct relabel *relabel, FILE *out,
                bool exact);
bool ranks_json(const struct rank_file *files, size_t n, struct json *j); /* the array "jobs" */

#endif
