/* calls.c - the rows of calls.def as functions; and the question whether an event is done, which tells the
 * driver who asks. */
#include "runtime.h"

#include <dlfcn.h>
#include <string.h>

#include "calls.def"

extern void simcuda_asks(int who) __attribute__((weak)); /* dry/driver/work.c */

enum { PROGRAM, ALLOCATOR, LOOKS };

/* Who is it that the call RETURNS to?  PyTorch's allocator of device memory, or the recording library, which
 * has taken its place there (shim/framework/torch_events.c); the allocator of pinned memory and NCCL's
 * watchdog lie in libtorch_cuda. */
static int asker(const void *returns)
{
    Dl_info found;
    if (!dladdr(returns, &found) || !found.dli_fname)
        return PROGRAM;
    if (strstr(found.dli_fname, "/libc10_cuda.so") || strstr(found.dli_fname, "/libvramscope.so"))
        return ALLOCATOR;
    return strstr(found.dli_fname, "/libtorch_cuda.so") ? LOOKS : PROGRAM;
}

DRY_API cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event)
{
    RT_CALL(rt_enter);
    if (simcuda_asks)
        simcuda_asks(asker(__builtin_return_address(0)));
    CUresult result = RT_DRIVER(RT_cuEventQuery, type_cuEventQuery)(event);
    if (simcuda_asks)
        simcuda_asks(PROGRAM);
    return rt_done(result);
}

/* ---- nodes of any kind: what the driver's simulation does not have of it, it refuses by its own code ----
 */

/* A node that runs others by a value on the device: which it takes only a GPU knows. */
DRY_API cudaError_t CUDARTAPI cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *pHandle_out,
                                                               cudaGraph_t graph,
                                                               unsigned int defaultLaunchValue,
                                                               unsigned int flags)
{
    return rt_failed(cudaErrorNotSupported);
}

DRY_API cudaError_t CUDARTAPI cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                               const cudaGraphNode_t *pDependencies,
                                               const cudaGraphEdgeData *dependencyData,
                                               size_t numDependencies, struct cudaGraphNodeParams *nodeParams)
{
    RT_CALL(rt_enter);
    return rt_done(DRIVER(cuGraphAddNode)(pGraphNode, graph, pDependencies, (const void *)dependencyData,
                                          numDependencies, (void *)nodeParams));
}
