/*
 * merge.h - puts the recording of one file into another one, as a process of its own.
 *
 * As schema.sql says: numbers of events and ranges move up by 2^40 a process; ids of names (strings, stacks,
 * frames, modules) and of kinds move behind those that are there, and phases are matched by their names. Both
 * files must be complete, and of this schema.  Nothing that FROM defines is run: its tables are copied.
 */
#ifndef VS_TRACE_STORE_MERGE_H
#define VS_TRACE_STORE_MERGE_H

#include <stddef.h>
#include <stdint.h>

/* The user_version of a file that vs_store_merge_begin made: it stands for the files of a job (bytes 60 to 63
 * of SQLite's header). */
#define VS_MERGED 0x4a4f42

/* Creates INTO, which must not be there or be empty, for vs_store_merge, with the fixed names of the file
 * LIKE. 0, or -1 with a line in WHY. */
int vs_store_merge_begin(const char *into, const char *like, char *why, size_t why_size);

/* Copies the processes of the file FROM into the file INTO, the first as process PROCESS: INTO has no process
 * of that number or a higher one.  In one transaction.  STEPS: of SQLite's virtual machine that it may take,
 * 0 as many as it takes.  0, or -1 with a line in WHY. */
int vs_store_merge(const char *into, const char *from, int64_t process, int64_t steps, char *why,
                   size_t why_size);

#endif
