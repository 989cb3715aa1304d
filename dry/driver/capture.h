/*
 * capture.h - stream capture: what other files must ask before they do something (capture.c).
 */
#ifndef DRY_DRIVER_CAPTURE_H
#define DRY_DRIVER_CAPTURE_H

#include "sim.h"

/* Whether a potentially unsafe call must be refused; it invalidates the captures that forbid it. */
CUresult sim_capture_forbids(void);
#define SIM_UNSAFE()                                                                                         \
    do {                                                                                                     \
        CUresult forbidden_ = sim_capture_forbids();                                                         \
        if (forbidden_ != CUDA_SUCCESS)                                                                      \
            return forbidden_;                                                                               \
    } while (0)

/* The stream that a _ptsz function means. */
static inline CUstream sim_ptsz(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}
/* NAME, with what CALL answers of STREAM, and its _ptsz or _ptds. */
#define SIM_TWINS(name, twin, params, stream, call)                                                          \
    CUresult name params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return call(stream);                                                                                 \
    }                                                                                                        \
    CUresult twin params                                                                                     \
    {                                                                                                        \
        SIM_CALL(SIM_CONTEXT);                                                                               \
        return call(sim_ptsz(stream));                                                                       \
    }

/* Whether work may go to STREAM: INVALID_HANDLE, or the legacy stream while a stream that waits for it is
 * capturing. */
CUresult sim_stream_check(CUstream stream);

struct sim_graph;
/* The graph that work on STREAM is captured into, NULL where it is not capturing.  *RESULT: whether the
 * capture is valid still. */
struct sim_graph *sim_capture_graph(CUstream stream, CUresult *result);
bool sim_capturing(CUstream stream);
CUresult sim_capture_invalidate(CUstream stream, CUresult result); /* returns RESULT */

/* Events: which capture an event was recorded in (0: none), and a stream that waits for it. */
unsigned long long sim_capture_record(CUstream stream);
CUstream sim_capture_key(CUstream stream); /* the same for all names of a stream, and never NULL */
CUresult sim_capture_wait(CUstream stream, unsigned long long capture, CUstream recorded_on);
void sim_capture_forget(CUstream stream); /* it is about to be destroyed */

#endif
