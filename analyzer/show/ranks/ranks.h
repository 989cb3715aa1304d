/*
 * ranks.h - `vramscope report` of several files: makes the structs of analysis/ranks.h from open traces, and
 * shows them.
 */
#ifndef VS_SHOW_RANKS_RANKS_H
#define VS_SHOW_RANKS_RANKS_H

#include <stdio.h>

#include "analysis/ranks.h"
#include "analysis/relabel.h"
#include "base/json.h"
#include "show/report/report.h"

#define RANK_COMPLETE "complete" /* the state of a file without any problem */

/* Copies the part of a report that the page of the ranks needs. */
struct rank_file ranks_file_of(const struct report *r);

/* RELABEL: as for reading the files; the file with the highest peak is read again.  Both return whether
 * everything is there: all ranks, and of each file the end and all events. */
bool ranks_text(const struct rank_file *files, size_t n, const struct relabel *relabel,
                const struct choice *choice, FILE *out, bool exact);
bool ranks_json(const struct rank_file *files, size_t n, struct json *j); /* the array "jobs" */

#endif
