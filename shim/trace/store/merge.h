/*
 * merge.h - puts the recording of one file into another one, as a process of its own.
 *
 * As schema.sql says: numbers of events and ranges move up by 2^40 a process; ids of kinds move behind those
 * that are there; names (strings, stacks, frames, modules) that are there already are not written a second
 * time, and phases are matched by theirs. Both files must be complete, and of this schema.  Nothing that FROM
 * defines is run: its tables are copied, the points of a sweep among them.
 */
#ifndef VS_TRACE_STORE_MERGE_H
#define VS_TRACE_STORE_MERGE_H

#include <stddef.h>
#include <stdint.h>

/* The user_version of a file that vs_store_merge_begin made: it stands for the files of a job (bytes 60 to 63
 * of SQLite's header). */
#define VS_MERGED 0x4a4f42

/* Creates INTO, which must not be there or be empty, for vs_store_merge_add, with the fixed names of the file
 * LIKE. 0, or -1 with a line in WHY. */
int vs_store_merge_begin(const char *into, const char *like, char *why, size_t why_size);

/* A merged file that is being written: the names that it has are known once. */
struct vs_merge;
/* Opens INTO, which vs_store_merge_begin made or a recording is.  0, or -1 with a line in WHY. */
int vs_store_merge_open(struct vs_merge **out, const char *into, char *why, size_t why_size);
/* Copies the processes of the file FROM, the first as process PROCESS: the file has no process of that number
 * or a higher one.  In one transaction.  STEPS: of SQLite's virtual machine that it may take, 0 as many as it
 * takes.  0, or -1 with a line in WHY: then nothing was copied, and the merge can only be closed. */
int vs_store_merge_add(struct vs_merge *m, const char *from, int64_t process, int64_t steps, char *why,
                       size_t why_size);
/* How many axes of the points that were copied have no column in the views; their values are in table
 * sweep_value alone. */
size_t vs_store_merge_axes_left(const struct vs_merge *m);
/* From here on the points of a sweep that a file has get the value SWEEP of an axis of that name (points.h);
 * NULL, as at first: no such axis.  SWEEP lives on. */
void vs_store_merge_sweep(struct vs_merge *m, const char *sweep);
/* NULL does nothing. */
void vs_store_merge_close(struct vs_merge *m);

#endif
