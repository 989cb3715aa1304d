/*
 * older12.c - calls of libcudart.so.12 in forms that CUDA 13 no longer has.  Its headers declare another form
 * under the same name, so each has a name of its own here.
 */
#include "runtime.h"

#define OLDER(name) __asm__(name)

DRY_API cudaError_t older_elapsed(float *ms, cudaEvent_t start, cudaEvent_t end)
    OLDER("cudaEventElapsedTime");
DRY_API cudaError_t older_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                       unsigned long long *id) OLDER("cudaStreamGetCaptureInfo");
DRY_API cudaError_t older_capture_info_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id, cudaGraph_t *graph,
                                          const cudaGraphNode_t **dependencies, size_t *count)
    OLDER("cudaStreamGetCaptureInfo_v2");
DRY_API cudaError_t older_update_dependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                              size_t count, unsigned flags)
    OLDER("cudaStreamUpdateCaptureDependencies");
DRY_API cudaError_t older_dependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies, size_t *count)
    OLDER("cudaGraphNodeGetDependencies");
DRY_API cudaError_t older_dependents(cudaGraphNode_t node, cudaGraphNode_t *dependents, size_t *count)
    OLDER("cudaGraphNodeGetDependentNodes");
DRY_API cudaError_t older_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
    OLDER("cudaGraphGetEdges");
DRY_API cudaError_t older_add_node(cudaGraphNode_t *node, cudaGraph_t graph,
                                   const cudaGraphNode_t *dependencies, size_t count,
                                   struct cudaGraphNodeParams *params) OLDER("cudaGraphAddNode");
DRY_API cudaError_t older_advise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device)
    OLDER("cudaMemAdvise");
DRY_API cudaError_t older_prefetch(const void *address, size_t bytes, int device, cudaStream_t stream)
    OLDER("cudaMemPrefetchAsync");

cudaError_t older_elapsed(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return cudaEventElapsedTime(ms, start, end);
}

cudaError_t older_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                               unsigned long long *id)
{
    return cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
}

cudaError_t older_capture_info_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                  unsigned long long *id, cudaGraph_t *graph,
                                  const cudaGraphNode_t **dependencies, size_t *count)
{
    return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, NULL, count);
}

cudaError_t older_update_dependencies(cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count,
                                      unsigned flags)
{
    return cudaStreamUpdateCaptureDependencies(stream, dependencies, NULL, count, flags);
}

cudaError_t older_dependencies(cudaGraphNode_t node, cudaGraphNode_t *dependencies, size_t *count)
{
    return cudaGraphNodeGetDependencies(node, dependencies, NULL, count);
}

cudaError_t older_dependents(cudaGraphNode_t node, cudaGraphNode_t *dependents, size_t *count)
{
    return cudaGraphNodeGetDependentNodes(node, dependents, NULL, count);
}

cudaError_t older_edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
{
    return cudaGraphGetEdges(graph, from, to, NULL, count);
}

cudaError_t older_add_node(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
                           size_t count, struct cudaGraphNodeParams *params)
{
    return cudaGraphAddNode(node, graph, dependencies, NULL, count, params);
}

static struct cudaMemLocation location_of(int device)
{
    return device == cudaCpuDeviceId
               ? (struct cudaMemLocation){.type = cudaMemLocationTypeHost}
               : (struct cudaMemLocation){.type = cudaMemLocationTypeDevice, .id = device};
}

cudaError_t older_advise(const void *address, size_t bytes, enum cudaMemoryAdvise advice, int device)
{
    return cudaMemAdvise(address, bytes, advice, location_of(device));
}

cudaError_t older_prefetch(const void *address, size_t bytes, int device, cudaStream_t stream)
{
    return cudaMemPrefetchAsync(address, bytes, location_of(device), 0, stream);
}
