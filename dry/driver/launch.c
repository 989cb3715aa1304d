/*
 * launch.c - launches of kernels that compute nothing, and their nodes in graphs.
 *
 * A kernel counts as using what its 64-bit parameters point to: where the device has no access to that, the
 * launch fails with CUDA_ERROR_ILLEGAL_ADDRESS (at once, and the context lives on).  Of a kernel with unknown
 * parameters nothing is read.
 */
#include "capture.h"
#include "graph.h"
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#define BYTES 4096

struct sim_grid {
    unsigned x, y, z;
};

struct sim_launch {
    unsigned references;
    struct sim_grid grid;
    const struct sim_kernel *kernel;
    void *params[PARAMS];
    unsigned char values[BYTES];
};

void sim_launch_ref(struct sim_launch *launch)
{
    launch->references++;
}

void sim_launch_unref(struct sim_launch *launch)
{
    if (--launch->references == 0)
        free(launch);
}

/* The buffer of packed parameters; NULL: there is none, or it is too short for K. */
static const char *buffer_of(const struct sim_kernel *k, void **extra)
{
    const char *buffer = NULL;
    size_t size = 0, wanted = sim_parameters_end(k);
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
    }
    return size >= wanted ? buffer : NULL;
}

CUresult sim_launch_make(struct sim_launch **out, CUfunction f, void **params, void **extra)
{
    const struct sim_kernel *k = sim_kernel_of(f);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    const char *buffer = extra ? buffer_of(k, extra) : NULL;
    const struct sim_parameters *p = k->parameters;
    if ((params && extra) || (p && p->count && !params && !buffer))
        return CUDA_ERROR_INVALID_VALUE;
    /* a captured step has thousands: what nobody knows takes no room */
    struct sim_launch *launch = calloc(1, p ? sizeof *launch : offsetof(struct sim_launch, params));
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    launch->references = 1;
    launch->kernel = k;
    for (size_t i = 0; p && i < p->count && p->at[i].offset + p->at[i].size <= BYTES; i++) {
        launch->params[i] = launch->values + p->at[i].offset;
        memcpy(launch->params[i], buffer ? buffer + p->at[i].offset : params[i], p->at[i].size);
    }
    *out = launch;
    return CUDA_SUCCESS;
}

CUresult sim_launch_run(const struct sim_launch *launch)
{
    const struct sim_parameters *p = launch->kernel->parameters;
    for (size_t i = 0; p && i < p->count && launch->params[i]; i++) {
        uint64_t word;
        if (p->at[i].size != sizeof word)
            continue;
        memcpy(&word, launch->params[i], sizeof word);
        if (sim_block_find(word) && !sim_accessible(word, 1, false))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

/* In dry mode: the first launch in a context brings what PyTorch's kernels take all in all. */
static CUresult load_code(void)
{
    struct sim_context *context = sim_context_owner();
    if (!sim_dry() || context->code_cost)
        return CUDA_SUCCESS;
    uint64_t cost = sim_env_bytes("SIMCUDA_CODE_BYTES", (uint64_t)sim_card()->code_mib << 20);
    if (!sim_charge(context->device, cost))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->code_cost = cost;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, CUstream stream, struct sim_grid grid, void **params, void **extra)
{
    struct sim_launch *made;
    CUresult result = sim_stream_check(stream);
    if (result == CUDA_SUCCESS)
        result = load_code();
    sim_work_launched(sim_context_owner());
    const struct sim_kernel *k = sim_kernel_of(f);
    if (result == CUDA_SUCCESS && k && !k->parameters && !sim_capturing(stream))
        return CUDA_SUCCESS; /* nothing of it is read */
    if (result == CUDA_SUCCESS)
        result = sim_launch_make(&made, f, params, extra);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_graph *graph = sim_capture_graph(stream, &result);
    struct sim_node *node = graph ? sim_graph_add(graph, CU_GRAPH_NODE_TYPE_KERNEL) : NULL;
    if (node) {
        made->grid = grid;
        node->launch = made;
        return result;
    }
    if (!graph && result == CUDA_SUCCESS)
        result = sim_launch_run(made);
    sim_launch_unref(made);
    return graph ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                        unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
                        void **extra)
{
    SIM_CALL(SIM_CONTEXT);
    return launch(f, stream, (struct sim_grid){gx, gy, gz}, params, extra);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                             unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                             void **params, void **extra)
{
    SIM_CALL(SIM_CONTEXT);
    return launch(f, sim_ptsz(stream), (struct sim_grid){gx, gy, gz}, params, extra);
}

static struct sim_grid grid_of(const CUlaunchConfig *config)
{
    return (struct sim_grid){config->gridDimX, config->gridDimY, config->gridDimZ};
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    SIM_CALL(SIM_CONTEXT);
    return config ? launch(f, config->hStream, grid_of(config), params, extra) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    SIM_CALL(SIM_CONTEXT);
    return config ? launch(f, sim_ptsz(config->hStream), grid_of(config), params, extra)
                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                                   CUstream stream, void **params)
{
    SIM_CALL(SIM_CONTEXT);
    return launch(f, stream, (struct sim_grid){gx, gy, gz}, params, NULL);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                        unsigned int bx, unsigned int by, unsigned int bz,
                                        unsigned int shared, CUstream stream, void **params)
{
    SIM_CALL(SIM_CONTEXT);
    return launch(f, sim_ptsz(stream), (struct sim_grid){gx, gy, gz}, params, NULL);
}

/* ---- nodes ---- */

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *params)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = sim_graph_node(handle);
    if (!node || node->type != CU_GRAPH_NODE_TYPE_KERNEL || !params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_KERNEL_NODE_PARAMS){.kernelParams =
                                            node->launch->kernel->parameters ? node->launch->params : NULL,
                                        .gridDimX = node->launch->grid.x,
                                        .gridDimY = node->launch->grid.y,
                                        .gridDimZ = node->launch->grid.z};
    if (node->launch->kernel->function)
        params->func = (CUfunction)(uintptr_t)node->launch->kernel->range.start;
    else
        params->kern = (CUkernel)(uintptr_t)node->launch->kernel->range.start;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode handle,
                                           const CUDA_KERNEL_NODE_PARAMS *params)
{
    SIM_CALL(SIM_INITIALIZED);
    struct sim_node *node = sim_exec_node(exec, handle);
    struct sim_launch *made;
    if (!node || node->type != CU_GRAPH_NODE_TYPE_KERNEL || !params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_launch_make(&made, params->func ? params->func : (CUfunction)params->kern,
                                      params->kernelParams, params->extra);
    if (result != CUDA_SUCCESS)
        return result;
    made->grid = (struct sim_grid){params->gridDimX, params->gridDimY, params->gridDimZ};
    sim_launch_unref(node->launch);
    node->launch = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D *params)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = sim_graph_node(handle);
    if (!node || node->type != CU_GRAPH_NODE_TYPE_MEMCPY || !params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .srcDevice = node->copy.from,
                              .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .dstDevice = node->copy.to,
                              .WidthInBytes = node->copy.size,
                              .Height = 1,
                              .Depth = 1};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *params)
{
    SIM_CALL(SIM_INITIALIZED);
    const struct sim_node *node = sim_graph_node(handle);
    if (!node || node->type != CU_GRAPH_NODE_TYPE_MEMSET || !params)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_MEMSET_NODE_PARAMS){
        .dst = node->fill.to, .elementSize = node->fill.width, .width = node->fill.count, .height = 1};
    return CUDA_SUCCESS;
}

/* ---- tensor maps: the address is their first word, as driver 13.0 makes them ---- */

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill)
{
    SIM_CALL(SIM_NOTHING);
    if (!map || !address || (uint64_t)address % 16 || rank < 1 || rank > 5 || !extents || !box)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (uint64_t)address;
    map->opaque[1] = (uint64_t)type << 8 | rank;
    for (cuuint32_t i = 0; i < rank; i++)
        map->opaque[2 + i] = extents[i] << 32 | box[i];
    return CUDA_SUCCESS;
}

static CUresult encode(CUtensorMap *map, void *address)
{
    if (!map || !address || (uint64_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->opaque[0] = (uint64_t)address;
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *extents, const cuuint64_t *strides, const int *lower,
                                 const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                 const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                 CUtensorMapFloatOOBfill fill)
{
    SIM_CALL(SIM_NOTHING);
    return encode(map, address);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                     void *address, const cuuint64_t *extents, const cuuint64_t *strides,
                                     int lower, int upper, cuuint32_t channels, cuuint32_t pixels,
                                     const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                                     CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    SIM_CALL(SIM_NOTHING);
    return encode(map, address);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    SIM_CALL(SIM_NOTHING);
    if (!map || !address || (uint64_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    map->opaque[0] = (uint64_t)address;
    return CUDA_SUCCESS;
}
