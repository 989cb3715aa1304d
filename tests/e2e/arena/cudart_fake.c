/*
 * cudart_fake.c - so much of CUDA's runtime, over the simulated driver, that PyTorch makes tensors: no
 * kernels.
 *
 * The real runtime asks a driver for private tables that the simulated one hasn't.  Preloaded, these
 * functions come before its own: PyTorch's allocators, streams, events and captures then work on simulated
 * memory.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

static __thread int current;

static cudaError_t as(CUresult status)
{
    return (cudaError_t)status; /* the numbers are the same */
}

/* As the runtime does at its first call that needs one. */
static void need_context(void)
{
    CUcontext context;
    cuCtxGetCurrent(&context);
    if (context)
        return;
    cuDevicePrimaryCtxRetain(&context, current);
    cuCtxSetCurrent(context);
}

#define CALL(name, parameters, call)                                                                         \
    cudaError_t CUDARTAPI name parameters                                                                    \
    {                                                                                                        \
        need_context();                                                                                      \
        return as(call);                                                                                     \
    }
#define NOTHING(name, parameters)                                                                            \
    cudaError_t CUDARTAPI name parameters                                                                    \
    {                                                                                                        \
        return cudaSuccess;                                                                                  \
    }

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    cuInit(0);
    return as(cuDeviceGetCount(count));
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    *device = current;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    CUcontext context;
    CUresult status = cuDevicePrimaryCtxRetain(&context, device);
    if (status == CUDA_SUCCESS)
        status = cuCtxSetCurrent(context);
    if (status == CUDA_SUCCESS)
        current = device;
    return as(status);
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    memset(p, 0, sizeof *p);
    strcpy(p->name, "simcuda");
    p->major = 9;
    p->warpSize = 32;
    p->multiProcessorCount = 1;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxThreadsPerBlock = 1024;
    return as(cuDeviceTotalMem(&p->totalGlobalMem, device));
}

/* The same as libraries that were built with CUDA 12 have it. */
struct properties_of_12 {
    char name[256], ids[32];
    size_t memory, shared;
    int registers, warp_size;
    size_t pitch;
    int threads, threads_dim[3], grid[3], clock;
    size_t constants;
    int major, minor;
    size_t alignment[2];
    int overlap, processors;
};
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct properties_of_12 *p, int device);
cudaError_t CUDARTAPI cudaGetDeviceProperties_v2(struct properties_of_12 *p, int device)
{
    *p = (struct properties_of_12){.name = "simcuda", .major = 9, .warp_size = 32, .processors = 1};
    return as(cuDeviceTotalMem(&p->memory, device));
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    return as(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    return as(cuDriverGetVersion(version));
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* No kernel runs: a test looks at addresses and sizes, or at what copies and memset did. */
NOTHING(cudaLaunchKernel,
        (const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream))
NOTHING(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *function, void **arguments))
NOTHING(cudaGetLastError, (void))
NOTHING(cudaPeekAtLastError, (void))
NOTHING(cudaDeviceCanAccessPeer, (int *can, int device, int peer))
const char *CUDARTAPI cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorLaunchFailure ? "unspecified launch failure" : "an error";
}
const char *CUDARTAPI cudaGetErrorName(cudaError_t error)
{
    return "cudaError";
}

CALL(cudaDeviceSynchronize, (void), cuCtxSynchronize())
CALL(cudaMemGetInfo, (size_t * free_bytes, size_t *total), cuMemGetInfo(free_bytes, total))
CALL(cudaMalloc, (void **p, size_t size), cuMemAlloc((CUdeviceptr *)p, size))
CALL(cudaFree, (void *p), p ? cuMemFree((CUdeviceptr)p) : CUDA_SUCCESS)
CALL(cudaMemcpy, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind),
     cuMemcpy((CUdeviceptr)to, (CUdeviceptr)from, n))
CALL(cudaMemcpyAsync, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t s),
     cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)from, n, s))
CALL(cudaMemsetAsync, (void *p, int value, size_t n, cudaStream_t s),
     cuMemsetD8Async((CUdeviceptr)p, (unsigned char)value, n, s))
CALL(cudaHostAlloc, (void **p, size_t size, unsigned flags), cuMemHostAlloc(p, size, flags))
CALL(cudaFreeHost, (void *p), cuMemFreeHost(p))

CALL(cudaStreamCreate, (cudaStream_t * s), cuStreamCreate(s, 0))
CALL(cudaStreamCreateWithPriority, (cudaStream_t * s, unsigned flags, int priority),
     cuStreamCreateWithPriority(s, flags, priority))
CALL(cudaStreamDestroy, (cudaStream_t s), cuStreamDestroy(s))
CALL(cudaStreamSynchronize, (cudaStream_t s), cuStreamSynchronize(s))
CALL(cudaStreamQuery, (cudaStream_t s), cuStreamQuery(s))
CALL(cudaStreamWaitEvent, (cudaStream_t s, cudaEvent_t e, unsigned flags), cuStreamWaitEvent(s, e, flags))
CALL(cudaEventCreateWithFlags, (cudaEvent_t * e, unsigned flags), cuEventCreate(e, flags))
CALL(cudaEventRecord, (cudaEvent_t e, cudaStream_t s), cuEventRecord(e, s))
CALL(cudaEventQuery, (cudaEvent_t e), cuEventQuery(e))
CALL(cudaEventSynchronize, (cudaEvent_t e), cuEventSynchronize(e))
CALL(cudaEventDestroy, (cudaEvent_t e), cuEventDestroy(e))

CALL(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *p),
     cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)p))
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags)
{
    CUipcMemHandle given;
    need_context();
    memcpy(&given, &handle, sizeof given);
    return as(cuIpcOpenMemHandle((CUdeviceptr *)p, given, flags));
}
CALL(cudaIpcCloseMemHandle, (void *p), cuIpcCloseMemHandle((CUdeviceptr)p))
/* Work is done at once there: an event of another process has happened. */
NOTHING(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t e))
CALL(cudaIpcOpenEventHandle, (cudaEvent_t * e, cudaIpcEventHandle_t handle), cuEventCreate(e, 0))

CALL(cudaStreamIsCapturing, (cudaStream_t s, enum cudaStreamCaptureStatus *status),
     cuStreamIsCapturing(s, (CUstreamCaptureStatus *)status))
CALL(cudaStreamBeginCapture, (cudaStream_t s, enum cudaStreamCaptureMode mode),
     cuStreamBeginCapture(s, (CUstreamCaptureMode)mode))
CALL(cudaStreamEndCapture, (cudaStream_t s, cudaGraph_t *graph), cuStreamEndCapture(s, graph))
CALL(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
     cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
CALL(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiate(exec, graph, flags))
CALL(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiate(exec, graph, flags))
CALL(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t s), cuGraphLaunch(exec, s))
CALL(cudaGraphExecDestroy, (cudaGraphExec_t exec), cuGraphExecDestroy(exec))
CALL(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
CALL(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n),
     cuGraphGetNodes(graph, nodes, n))

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
                                               size_t *count)
{
    cuuint64_t number = 0;
    CUresult result = cuStreamGetCaptureInfo(s, (CUstreamCaptureStatus *)status, &number, graph, nodes,
                                             (const CUgraphEdgeData **)edges, count);
    if (id)
        *id = number;
    return as(result);
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                                  unsigned long long *id, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **nodes, size_t *count);
cudaError_t CUDARTAPI cudaStreamGetCaptureInfo_v2(cudaStream_t s, enum cudaStreamCaptureStatus *status,
                                                  unsigned long long *id, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **nodes, size_t *count)
{
    return cudaStreamGetCaptureInfo(s, status, id, graph, nodes, NULL, count);
}
