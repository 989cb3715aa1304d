/*
 * calls.h - the driver's functions that moving memory needs beside the arena's, and the calling thread's
 * state around them: the arena's context is current, and no capture is disturbed.
 */
#ifndef VS_ARENA_AWAY_CALLS_H
#define VS_ARENA_AWAY_CALLS_H

#include "arena/device/served.h"

/* In a stream's place: what waits is the host; nothing is given to the device yet. */
#define VS_PARK_NO_STREAM ((CUstream)UINTPTR_MAX)
#define VS_PARK_NO_WORK   ((CUstream)(UINTPTR_MAX - 1))

/* X(symbol, (parameters)) */
#define VS_AWAY_CALLS(X)                                                                                     \
    X(cuStreamCreate, (CUstream *, unsigned))                                                                \
    X(cuStreamDestroy_v2, (CUstream))                                                                        \
    X(cuStreamQuery, (CUstream))                                                                             \
    X(cuStreamSynchronize, (CUstream))                                                                       \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                                      \
    X(cuEventElapsedTime, (float *, CUevent, CUevent))                                                       \
    X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))                                         \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))

struct vs_away_calls {
#define X(symbol, parameters) CUresult(*symbol) parameters;
    VS_AWAY_CALLS(X)
#undef X
};
/* The driver's own, whatever stands in their place; NULL: it lacks one.  Any thread. */
const struct vs_away_calls *vs_away_calls(void);

struct vs_away_thread {
    struct vs_arena_calls *driver;
    bool pushed;
    CUstreamCaptureMode mode;
};
/* Makes CONTEXT current, which is S's own or another that its arena knows. After an error nothing is changed,
 * and there is nothing to leave. */
CUresult vs_away_enter(struct vs_away_thread *t, struct vs_served *s, CUcontext context);
void vs_away_leave(struct vs_away_thread *t);

#endif
