/*
 * backing_cuda.h - the arena's backing on a device: virtual memory management and events of the CUDA driver.
 *
 * The driver's functions come as a table: the real ones behind the hooks, never the hooked ones.  Calls are
 * made with the given context current and, because the program may be capturing a graph in this thread, in
 * the relaxed capture mode; both are put back.  An event of the device, and a wait for the device, also cover
 * the work of other contexts that may touch the memory (backing_others.c).
 */
#ifndef VS_ARENA_DEVICE_BACKING_CUDA_H
#define VS_ARENA_DEVICE_BACKING_CUDA_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <stdbool.h>

#include "arena/core/arena.h"

/* X(symbol, (parameters)) */
#define VS_ARENA_CALLS(X)                                                                                    \
    X(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))                                           \
    X(cuMemGetAllocationGranularity,                                                                         \
      (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))                             \
    X(cuMemAddressReserve, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))                 \
    X(cuMemAddressFree, (CUdeviceptr, size_t))                                                               \
    X(cuMemCreate,                                                                                           \
      (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))             \
    X(cuMemRelease, (CUmemGenericAllocationHandle))                                                          \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                 \
    X(cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))             \
    X(cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                                \
    X(cuMemUnmap, (CUdeviceptr, size_t))                                                                     \
    X(cuCtxGetCurrent, (CUcontext *))                                                                        \
    X(cuCtxPushCurrent_v2, (CUcontext))                                                                      \
    X(cuCtxPopCurrent_v2, (CUcontext *))                                                                     \
    X(cuCtxSynchronize, (void))                                                                              \
    X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))                                            \
    X(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))                                              \
    X(cuStreamWaitEvent, (CUstream, CUevent, unsigned int))                                                  \
    X(cuEventCreate, (CUevent *, unsigned int))                                                              \
    X(cuEventRecord, (CUevent, CUstream))                                                                    \
    X(cuEventQuery, (CUevent))                                                                               \
    X(cuEventSynchronize, (CUevent))                                                                         \
    X(cuEventDestroy_v2, (CUevent))

struct vs_arena_calls {
#define X(symbol, parameters) CUresult(*symbol) parameters;
    VS_ARENA_CALLS(X)
#undef X
    CUresult (*record_context)(CUcontext, CUevent); /* cuCtxRecordEvent; NULL: a driver before CUDA 12.5 */
};

#define VS_ARENA_SPARE_EVENTS 64
#define VS_ARENA_OTHERS       8  /* other contexts that one event stands for */
#define VS_ARENA_WIDE_EVENTS  16 /* such events at once */

struct vs_backing_cuda;

/* Contexts beside the arena's own whose work may touch its memory.  They have numbers that never come again.
 */
struct vs_backing_others {
    /* Fills OUT with at most ROOM of them; how many there are. */
    uint32_t (*list)(const struct vs_backing_cuda *b, uint64_t *out, uint32_t room);
    /* *CONTEXT does not end before it is let go; false: it has ended, and so has its work. */
    bool (*keep)(uint64_t number, CUcontext *context);
    void (*let)(uint64_t number);
};

/* An event that stands for the work of several contexts: one event in each. */
struct vs_wide_event {
    CUevent own; /* NULL: nobody's */
    uint32_t others;
    struct {
        uint64_t number;
        CUevent event;
    } other[VS_ARENA_OTHERS];
};

struct vs_backing_cuda {
    struct vs_arena_calls call;
    CUcontext context; /* NULL: it is gone; what remains is to destroy the arena */
    CUdevice device;
    CUmemAllocationProp prop;
    uint64_t coarse; /* bytes: chunks are as large as they can be without being larger; set before */
    uint64_t chunk;
    CUevent spare[VS_ARENA_SPARE_EVENTS]; /* made, and not in use */
    uint32_t spares;
    uint64_t memory_calls; /* of the driver: reserve, create, map, set access, unmap, release; atomic */
    uint64_t order_calls;  /* events recorded, asked, waited for by a stream; atomic */
    uint64_t made,
        making_ns; /* chunks created, and the time in which they were created and made accessible */
    /* Called once, with the arena's lock held, when these are so slow that somebody should know; NULL: nobody
     * is told. */
    void (*slow)(const struct vs_backing_cuda *b);
    bool slow_reported;
    uint64_t (*now)(void);                  /* ns; NULL before init: the monotonic clock */
    const uint32_t *captures;               /* how many are under way; atomic; NULL: never any */
    const struct vs_backing_others *others; /* NULL: there are none ever */
    struct vs_wide_event wide[VS_ARENA_WIDE_EVENTS];
};

/* Fills B, whose `call`, `context` and `device` stand there, and *BACKING over it.  Where the device cannot
 * do it: the driver's status (CUDA_ERROR_NOT_SUPPORTED). */
CUresult vs_backing_cuda_init(struct vs_backing_cuda *b, struct vs_backing *backing);
/* Waits for all that the context was given, and those that may touch its memory as well:
 * VS_BACKING_NOT_READY where a capture is under way. */
int vs_backing_cuda_synchronize(struct vs_backing_cuda *b);
/* After the arena was destroyed. */
void vs_backing_cuda_end(struct vs_backing_cuda *b);

/* ---- the work of other contexts (backing_others.c) ---- */

/* Waits for it.  The calling thread's context and capture mode are the caller's to put back. */
CUresult vs_others_synchronize(struct vs_backing_cuda *b);
/* Makes one event of OWN, which is recorded already, and of one in each other context; *EVENT stays OWN where
 * there is no other context.  NOT_READY: that cannot be done now. */
CUresult vs_others_record(struct vs_backing_cuda *b, CUevent own, uint64_t *event);
/* The parts of an event that covers several contexts; NULL: it is one of the driver's events. */
struct vs_wide_event *vs_others_wide(struct vs_backing_cuda *b, uint64_t event);
/* WHAT (cuEventQuery, cuEventSynchronize) says of the others' events. */
CUresult vs_others_query(struct vs_backing_cuda *b, struct vs_wide_event *m, CUresult (*what)(CUevent));
/* Destroys the parts in other contexts and returns the one in the arena's own. */
CUevent vs_others_forget(struct vs_backing_cuda *b, struct vs_wide_event *m);

#endif
