/*
 * merge.h - puts the recording of one file into another one, as a process of its own.
 *
 * As schema.sql says: numbers of events and ranges move up by 2^40 a process; ids of names (strings, stacks,
 * frames, modules) and of kinds move behind those that are there.  Both files must be complete, and of this
 * schema.  Only the four known phases may be named in them: phases have the same numbers in every file then.
 */
#ifndef VS_TRACE_STORE_MERGE_H
#define VS_TRACE_STORE_MERGE_H

#include <stddef.h>
#include <stdint.h>

/* Copies process 1 of the file FROM into the file INTO, as process PROCESS, which INTO has not.  In one
 * transaction.  0, or -1 with a line in WHY. */
int vs_store_merge(const char *into, const char *from, int64_t process, char *why, size_t why_size);

#endif
