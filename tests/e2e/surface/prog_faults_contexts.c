// link: cuda
/* As prog_faults.c, for graphs, contexts, modules and what takes device memory beside allocations. */
#define _GNU_SOURCE
#include "prog_calls.h"

#include <string.h>
#include <unistd.h>

static const struct {
    unsigned magic;
    unsigned short version, header;
    unsigned long long body;
} fat = {0xba55ed50u, 1, 16, 3 * MIB};
static char image_path[] = "/proc/self/fd/000";

/* ---- graphs ---- */

static CUdeviceptr add_alloc(CUgraph graph, size_t size)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = size};
    CUgraphNode node;
    if (CALL(cuGraphAddMemAllocNode,
             (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUDA_MEM_ALLOC_NODE_PARAMS *), &node,
             graph, NULL, 0, &params) != CUDA_SUCCESS)
        return 0;
    return params.dptr;
}

/* One allocation after the other, each freed in the graph by another function. */
static void add_nodes(CUgraph graph)
{
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    CUgraphNode node;
    CUdeviceptr p[4];
    for (int i = 0; i < 4; i++)
        p[i] = add_alloc(graph, (i + 1) * 2 * MIB);
    if (p[0])
        TWICE(cuGraphAddMemFreeNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr),
              &node, graph, NULL, 0, p[0]);
    params.free.dptr = p[1];
    if (p[1])
        TWICE(cuGraphAddNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *),
              &node, graph, NULL, 0, &params);
    params.free.dptr = p[2];
    if (p[2])
        TWICE(cuGraphAddNode_v2,
              (CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
               CUgraphNodeParams *),
              &node, graph, NULL, NULL, 0, &params);
    params.free.dptr = p[3];
    if (p[3])
        TWICE(cuGraphAddNode_v3,
              (CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *, size_t,
               CUgraphNodeParams *),
              &node, graph, NULL, NULL, 0, &params);
}

static void launched(CUgraphExec exec, CUgraph graph)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUgraphExecUpdateResult result;
    CUgraphNode node;
    CALL(cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *), exec, graph,
         &node, &result);
    CALL(cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *), exec, graph, &info);
    CALL(cuGraphUpload, (CUgraphExec, CUstream), exec, NULL);
    CALL(cuGraphUpload_ptsz, (CUgraphExec, CUstream), exec, NULL);
    CALL(cuGraphLaunch, (CUgraphExec, CUstream), exec, NULL);
    CALL(cuGraphLaunch_ptsz, (CUgraphExec, CUstream), exec, NULL);
    OK(cuCtxSynchronize());
    TWICE(cuGraphExecDestroy, (CUgraphExec), exec);
}

/* A graph with memory nodes has one executable at a time. */
static void made_by(const char *symbol, CUgraph graph)
{
    CUgraphExec exec = NULL;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = 0};
    CUresult result;
    if (strstr(symbol, "Flags") != NULL)
        result = ((CUresult(*)(CUgraphExec *, CUgraph, unsigned long long))find(symbol))(&exec, graph, 0);
    else if (strstr(symbol, "Params") != NULL)
        result = ((CUresult(*)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *))find(symbol))(
            &exec, graph, &params);
    else
        result = ((CUresult(*)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t))find(symbol))(
            &exec, graph, NULL, NULL, 0);
    if (said(symbol, result) == CUDA_SUCCESS)
        launched(exec, graph);
}

static void graphs(void)
{
    static const char *const makers[] = {"cuGraphInstantiate", "cuGraphInstantiate_v2",
                                         "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams",
                                         "cuGraphInstantiateWithParams_ptsz"};
    CUgraph graph;
    OK(cuGraphCreate(&graph, 0));
    add_nodes(graph);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        made_by(makers[i], graph);
    OK(cuGraphDestroy(graph));
    CALL(cuDeviceGraphMemTrim, (CUdevice), 0);
}

/* ---- contexts: each with something in it ---- */

static void ends_with(CUcontext context, const char *symbol)
{
    CUresult (*destroy)(CUcontext) = (CUresult(*)(CUcontext))find(symbol);
    CUdeviceptr a;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&a, 2 * MIB));
    if (said(symbol, destroy(context)) != CUDA_SUCCESS)
        said(symbol, destroy(context));
}

static void created(void)
{
    CUcontext context;
    if (CALL(cuCtxCreate, (CUcontext *, unsigned, CUdevice), &context, 0, 0) == CUDA_SUCCESS)
        ends_with(context, "cuCtxDestroy");
    if (CALL(cuCtxCreate_v2, (CUcontext *, unsigned, CUdevice), &context, 0, 0) == CUDA_SUCCESS)
        ends_with(context, "cuCtxDestroy_v2");
    if (CALL(cuCtxCreate_v3, (CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice), &context, NULL, 0,
             0, 0) == CUDA_SUCCESS)
        ends_with(context, "cuCtxDestroy_v2");
    if (CALL(cuCtxCreate_v4, (CUcontext *, void *, unsigned, CUdevice), &context, NULL, 0, 0) == CUDA_SUCCESS)
        ends_with(context, "cuCtxDestroy_v2");
}

/* Of the second device: the first one's stays. */
static void primary(void)
{
    CUcontext context;
    CUdeviceptr a;
    if (CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice), &context, 1) == CUDA_SUCCESS) {
        TWICE(cuDevicePrimaryCtxRelease, (CUdevice), 1);
        OK(cuDevicePrimaryCtxRetain(&context, 1));
        TWICE(cuDevicePrimaryCtxRelease_v2, (CUdevice), 1);
    }
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&a, 2 * MIB));
    TWICE(cuDevicePrimaryCtxReset, (CUdevice), 1);
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&a, 2 * MIB));
    TWICE(cuDevicePrimaryCtxReset_v2, (CUdevice), 1);
}

static void green(void)
{
    CUdevResource all;
    CUdevResourceDesc desc;
    CUgreenCtx context;
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    OK(cuDevResourceGenerateDesc(&desc, &all, 1));
    if (CALL(cuGreenCtxCreate, (CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned), &context, desc, 0,
             CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS)
        TWICE(cuGreenCtxDestroy, (CUgreenCtx), context);
}

/* ---- code, and what else takes memory ---- */

static void modules(void)
{
    CUmodule m[4] = {NULL};
    CALL(cuModuleLoad, (CUmodule *, const char *), &m[0], image_path);
    CALL(cuModuleLoadData, (CUmodule *, const void *), &m[1], &fat);
    CALL(cuModuleLoadDataEx, (CUmodule *, const void *, unsigned, CUjit_option *, void **), &m[2], &fat, 0,
         NULL, NULL);
    CALL(cuModuleLoadFatBinary, (CUmodule *, const void *), &m[3], &fat);
    for (int i = 0; i < 4; i++)
        if (m[i] != NULL)
            TWICE(cuModuleUnload, (CUmodule), m[i]);
}

static void libraries(void)
{
    CUlibrary l[2] = {NULL};
    CUmodule module;
    CALL(cuLibraryLoadFromFile,
         (CUlibrary *, const char *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, unsigned),
         &l[0], image_path, NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryLoadData,
         (CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **, unsigned),
         &l[1], &fat, NULL, NULL, 0, NULL, NULL, 0);
    for (int i = 0; i < 2; i++)
        if (l[i] != NULL) {
            CALL(cuLibraryGetModule, (CUmodule *, CUlibrary), &module, l[i]);
            TWICE(cuLibraryUnload, (CUlibrary), l[i]);
        }
}

static void costs(void)
{
    CUcontext here, there;
    CUstream stream;
    CALL(cuCtxSetLimit, (CUlimit, size_t), CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB);
    if (CALL(cuStreamCreate, (CUstream *, unsigned), &stream, 0) == CUDA_SUCCESS)
        TWICE(cuStreamDestroy, (CUstream), stream);
    if (CALL(cuStreamCreateWithPriority, (CUstream *, unsigned, int), &stream, 0, 0) == CUDA_SUCCESS)
        TWICE(cuStreamDestroy_v2, (CUstream), stream);
    OK(cuCtxGetCurrent(&here));
    OK(cuDevicePrimaryCtxRetain(&there, 1));
    OK(cuCtxSetCurrent(here));
    CALL(cuCtxEnablePeerAccess, (CUcontext, unsigned), there, 0);
    OK(cuDevicePrimaryCtxRelease(1));
}

/* Any driver call but this one may fail: here the program begins, and it is no use without. */
static void begin_again(void)
{
    CUcontext context;
    if (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
        exit(4);
    OK(cuCtxSetCurrent(context));
}

/* ---- kernels, which do nothing ---- */

static void launched_by(CUfunction f)
{
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
#define LAUNCH(symbol)                                                                                       \
    CALL(symbol,                                                                                             \
         (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,        \
          void **, void **),                                                                                 \
         f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)
#define LAUNCH_TOGETHER(symbol)                                                                              \
    CALL(symbol,                                                                                             \
         (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,        \
          void **),                                                                                          \
         f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL)
    LAUNCH(cuLaunchKernel);
    LAUNCH(cuLaunchKernel_ptsz);
    CALL(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **), &config, f, NULL, NULL);
    CALL(cuLaunchKernelEx_ptsz, (const CUlaunchConfig *, CUfunction, void **, void **), &config, f, NULL,
         NULL);
    LAUNCH_TOGETHER(cuLaunchCooperativeKernel);
    LAUNCH_TOGETHER(cuLaunchCooperativeKernel_ptsz);
}

static void kernels(void)
{
    static const char ptx[] = ".visible .entry simcuda_nothing() { ret; }";
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUfunction f = NULL;
    CUkernel kernel = NULL;
    if (cuModuleLoadData(&module, ptx) == CUDA_SUCCESS &&
        CALL(cuModuleGetFunction, (CUfunction *, CUmodule, const char *), &f, module, "simcuda_nothing") ==
            CUDA_SUCCESS) {
        CALL(cuFuncLoad, (CUfunction), f);
        CALL(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int), f,
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
        launched_by(f);
    }
    if (cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS &&
        CALL(cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *), &kernel, library,
             "simcuda_nothing") == CUDA_SUCCESS) {
        CALL(cuKernelGetFunction, (CUfunction *, CUkernel), &f, kernel);
        CALL(cuKernelSetAttribute, (CUfunction_attribute, int, CUkernel, CUdevice),
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, 0);
    }
    if (library != NULL && cuLibraryUnload(library) != CUDA_SUCCESS)
        cuLibraryUnload(library);
    if (module != NULL && cuModuleUnload(module) != CUDA_SUCCESS)
        cuModuleUnload(module);
}

int main(void)
{
    FILE *image = tmpfile();
    CHECK(image != NULL && fwrite(&fat, sizeof fat, 1, image) == 1 && fflush(image) == 0);
    snprintf(image_path, sizeof image_path, "/proc/self/fd/%d", fileno(image));
    OK(cuInit(0));
    primary();
    begin_again();
    graphs();
    modules();
    libraries();
    kernels();
    costs();
    green();
    created();
    puts("done");
    return 0;
}
