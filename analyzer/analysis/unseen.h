/*
 * unseen.h - the driver as a witness: memory of this process that no call which was seen asked for.
 *
 *      unseen = what the driver says this process uses - reserved - all that calls were measured to take
 *
 * It is said where it is more than 64 MiB and 1 % of the process's memory, and can be nothing else.  A
 * sample may stand between a call and its event: what is recorded within the ten seconds behind it counts
 * as there, and of two samples the greater reserved.  Managed and imported memory may lie on the device or
 * not: at its peak it is taken off.
 */
#ifndef VS_ANALYSIS_UNSEEN_H
#define VS_ANALYSIS_UNSEEN_H

#include "read/tables.h"
#include "read/trace.h"

/* *BYTES: unseen memory on DEVICE, 0 where there is none.  *OFF: why nobody can tell, NULL where the driver's
 * figure tells.  0, or -1 with the reason in t->why. */
int unseen_load(struct trace *t, int64_t device, int64_t *bytes, const char **off);

#endif
