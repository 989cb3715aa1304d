/*
 * skipped.h - entries that a snapshot lacks because its recording was told to skip them.
 *
 * From 2.11 on _record_memory_history takes skip_actions.  Without free_requested the free of a block is its
 * completion alone, and this is put right here.  What else was skipped shows, if at all, as entries that do
 * not fit to the end (rewind.h).
 */
#ifndef VS_IMPORT_SKIPPED_H
#define VS_IMPORT_SKIPPED_H

#include "snapshot.h"

/* Puts a request before each completion in T that has none, if one of a block that T allocates has none;
 * whether it is so. */
bool skipped_requests(struct snapshot_trace *t);

#endif
