/*
 * graphs.c - nodes of any kind.  What of it the driver's simulation does not have, it refuses by its own
 * code.
 */
#include "runtime.h"

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
