/*
 * absent.h - why there is no answer, and what to do next: sentences for t->why that several commands end
 * with.
 */
#ifndef VS_READ_ABSENT_H
#define VS_READ_ABSENT_H

#include "trace.h"

/* The recording has nothing on DEVICE; UNKNOWN: on any. */
const char *absent_device(struct trace *t, int64_t device);
/* It has no steps STEPS[0] to STEPS[1]. */
const char *absent_steps(struct trace *t, const int64_t *steps);
/* 0, or -1: events are missing, so that a replay would be one of another run. */
int absent_events(struct trace *t);
/* No framework's allocator had blocks, on DEVICE where it is known. */
const char *absent_blocks(struct trace *t, int64_t device);

#endif
