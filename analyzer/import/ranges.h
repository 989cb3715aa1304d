/*
 * ranges.h - the ranges that a snapshot marks (external_annotations), as far as they lie in its trace.
 *
 * What was over before the first entry is left out.  Of what was open then the begin may not be recorded: it
 * gets the first entry's time, as a range that a recording has must begin somewhere.
 */
#ifndef VS_IMPORT_RANGES_H
#define VS_IMPORT_RANGES_H

#include "snapshot.h"

/* Those of the snapshot's annotations. */
void ranges_read(struct snapshot *s);

#endif
