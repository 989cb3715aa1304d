/*
 * ranges.h - the ranges that a snapshot marks (external_annotations), as far as they lie in its trace.
 *
 * What was over before the first entry is left out.  Of what was open then the begin may not be recorded: it
 * gets the first entry's time, as a range that a recording has must begin somewhere.
 */
#ifndef VS_IMPORT_RANGES_H
#define VS_IMPORT_RANGES_H

#include "snapshot.h"

/* Behind the traces.  0, or -1: LIST has more than MOST. */
int ranges_read(struct snapshot *s, const struct pickle_value *list, size_t most);

#endif
