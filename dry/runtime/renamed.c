/*
 * renamed.c - calls that libcudart.so.12 has under other names than 13 (names12.h).
 */
#include "runtime.h"

/* clang-format off */
CALL(cudaStreamGetCaptureInfo, (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
        unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
        const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),
     cuStreamGetCaptureInfo, (stream, (void *)captureStatus_out, (void *)id_out, graph_out, dependencies_out,
        (void *)edgeData_out, numDependencies_out))
CALL(cudaStreamUpdateCaptureDependencies, (cudaStream_t stream, cudaGraphNode_t *dependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags),
     cuStreamUpdateCaptureDependencies, (stream, dependencies, (const void *)dependencyData, numDependencies, flags))
CALL(cudaMemPrefetchAsync, (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
        cudaStream_t stream),
     cuMemPrefetchAsync, ((CUdeviceptr)devPtr, count, (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id}, flags, stream))
