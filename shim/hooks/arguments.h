/* arguments.h - what the arguments of driver.def's shapes are made of, for whoever expands them. */
#ifndef VS_HOOKS_ARGUMENTS_H
#define VS_HOOKS_ARGUMENTS_H

#include "access/by_value.h"
#include "driver.h"

/* Stream 0 of a _ptsz function is the thread's own default stream.  `streams`: enum vs_stream_kind. */
#define VS_STREAM(stream) (streams == VS_STREAM_PTSZ && (stream) == NULL ? CU_STREAM_PER_THREAD : (stream))
/* A host's address as a number. */
#define VS_AT(p) ((uint64_t)(uintptr_t)(p))
#define VS_GRID_OF(config)                                                                                   \
    ((config) != NULL ? vs_grid((config)->gridDimX, (config)->gridDimY) : vs_grid(0, 0))

#endif
