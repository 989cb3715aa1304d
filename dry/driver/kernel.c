/*
 * kernel.c - kernels that compute nothing: their parameters, their launches, their nodes in graphs.
 *
 * The simulated driver runs no device code.  A kernel of a PTX module whose name begins with simcuda_nothing
 * promises that it does nothing, so it can be found and launched; any other name is refused, as a program
 * that computes must be told.  What a launch is given is checked and, in a captured stream, kept, as the real
 * driver does it.  A kernel counts as using what its 64-bit parameters point to: where the device has no
 * access to that, the launch fails with CUDA_ERROR_ILLEGAL_ADDRESS (at once, and the context lives on).
 *
 *      .visible .entry simcuda_nothing_x(.param .u64 p, .param .u32 n, .param .align 8 .b8 s[48]) { ret; }
 *
 * A kernel of a library (CUkernel) and the function that it is in a context are two handles.  Either can be
 * launched; the questions about parameters and names take their own kind alone, and answer
 * CUDA_ERROR_INVALID_HANDLE for the other, as driver 13.0 does.
 */
#include "capture.h"
#include "graph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PROMISE "simcuda_nothing"
#define PARAMS  64
#define BYTES   4096

struct kernel {
    struct sim_range range; /* start = handle */
    uint64_t owner;         /* module, of a function; library, of a kernel */
    bool function;
    char name[256];
    size_t count;
    struct {
        size_t offset, size;
    } param[PARAMS];
};
static struct sim_map kernels;

static struct kernel *next_kernel(const struct kernel *after)
{
    return (struct kernel *)sim_map_from(&kernels, after ? after->range.start + 1 : 0);
}

void sim_kernels_gone(uint64_t owner)
{
    for (struct kernel *k = next_kernel(NULL), *next; k; k = next) {
        next = next_kernel(k);
        if (k->owner == owner) {
            sim_map_remove(&kernels, &k->range);
            free(k);
        }
    }
}

/* ---- PTX ---- */

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* Behind ".entry NAME", which stands in TEXT; NULL: it does not. */
static const char *entry(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, ".entry")) != NULL;) {
        at = skip_space(at + strlen(".entry"));
        if (strncmp(at, name, length) == 0 && !isalnum((unsigned char)at[length]) && at[length] != '_')
            return skip_space(at + length);
    }
    return NULL;
}

/* One declaration, up to END: ".param .u64 x" or ".param .align 8 .b8 x[48]". */
static void declare(struct kernel *k, const char *at, const char *end)
{
    size_t size = 0, count = 1, align = 0;
    for (; at < end; at++) {
        if (at[0] == '.' && strchr("usbf", at[1]) && isdigit((unsigned char)at[2]))
            size = strtoul(at + 2, NULL, 10) / 8;
        else if (strncmp(at, ".align", 6) == 0)
            align = strtoul(at + 6, NULL, 10);
        else if (*at == '[')
            count = strtoul(at + 1, NULL, 10);
    }
    if (size == 0 || k->count == PARAMS)
        return;
    align = align ? align : size;
    size_t from = k->count ? k->param[k->count - 1].offset + k->param[k->count - 1].size : 0;
    k->param[k->count].offset = (from + align - 1) / align * align;
    k->param[k->count].size = size * count;
    k->count++;
}

static void declare_all(struct kernel *k, const char *at)
{
    const char *close = *at == '(' ? strchr(at, ')') : NULL;
    while (close != NULL && at < close) {
        const char *end = ++at;
        while (end < close && *end != ',')
            end++;
        declare(k, at, end);
        at = end;
    }
}

/* ---- handles ---- */

static CUresult find(uint64_t *out, uint64_t owner, const char *text, const char *name, bool function)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (strncmp(name, PROMISE, strlen(PROMISE)) != 0 || text == NULL ||
        strlen(name) >= sizeof((struct kernel *)0)->name)
        return CUDA_ERROR_NOT_SUPPORTED;
    for (struct kernel *k = next_kernel(NULL); k; k = next_kernel(k))
        if (k->owner == owner && strcmp(k->name, name) == 0) {
            *out = k->range.start;
            return CUDA_SUCCESS;
        }
    const char *declared = entry(text, name);
    if (declared == NULL)
        return CUDA_ERROR_NOT_FOUND;
    struct kernel *k = calloc(1, sizeof *k);
    if (k == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    k->range = (struct sim_range){.start = (uint64_t)k, .size = 1};
    k->owner = owner;
    k->function = function;
    strcpy(k->name, name);
    declare_all(k, declared);
    sim_map_insert(&kernels, &k->range);
    *out = k->range.start;
    return CUDA_SUCCESS;
}

static struct kernel *kernel_of(const void *handle)
{
    return (struct kernel *)sim_map_at(&kernels, (uint64_t)handle);
}

static struct kernel *of_kind(const void *handle, bool function)
{
    struct kernel *k = kernel_of(handle);
    return k && k->function == function ? k : NULL;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    SIM_CALL(SIM_CONTEXT);
    return find((uint64_t *)out, (uint64_t)module, sim_module_text((uint64_t)module), name, true);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    SIM_CALL(SIM_INITIALIZED);
    return find((uint64_t *)out, (uint64_t)library, sim_library_text((uint64_t)library), name, false);
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    SIM_CALL(SIM_CONTEXT);
    const struct kernel *k = of_kind(handle, false);
    uint64_t module;
    CUresult result = k ? sim_library_module(k->owner, &module) : CUDA_ERROR_INVALID_HANDLE;
    return result == CUDA_SUCCESS ? find((uint64_t *)out, module, sim_module_text(module), k->name, true)
                                  : result;
}

static CUresult info(const struct kernel *k, size_t index, size_t *offset, size_t *size)
{
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= k->count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = k->param[index].offset;
    if (size)
        *size = k->param[index].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size)
{
    SIM_CALL(SIM_INITIALIZED);
    return info(of_kind(f, true), index, offset, size);
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    SIM_CALL(SIM_INITIALIZED);
    return info(of_kind(kernel, false), index, offset, size);
}

static CUresult name_of(const struct kernel *k, const char **name)
{
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = k->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction f)
{
    SIM_CALL(SIM_INITIALIZED);
    return name_of(of_kind(f, true), name);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    SIM_CALL(SIM_INITIALIZED);
    return name_of(of_kind(kernel, false), name);
}

/* ---- launches ---- */

struct sim_grid {
    unsigned x, y, z;
};

struct sim_launch {
    unsigned references;
    struct sim_grid grid;
    const struct kernel *kernel;
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
static const char *buffer_of(const struct kernel *k, void **extra)
{
    const char *buffer = NULL;
    size_t size = 0, wanted = k->count ? k->param[k->count - 1].offset + k->param[k->count - 1].size : 0;
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
    const struct kernel *k = kernel_of(f);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    const char *buffer = extra ? buffer_of(k, extra) : NULL;
    if ((params && extra) || (k->count && !params && !buffer))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    launch->references = 1;
    launch->kernel = k;
    for (size_t i = 0; i < k->count && k->param[i].offset + k->param[i].size <= BYTES; i++) {
        launch->params[i] = launch->values + k->param[i].offset;
        memcpy(launch->params[i], buffer ? buffer + k->param[i].offset : params[i], k->param[i].size);
    }
    *out = launch;
    return CUDA_SUCCESS;
}

CUresult sim_launch_run(const struct sim_launch *launch)
{
    const struct kernel *k = launch->kernel;
    for (size_t i = 0; i < k->count && launch->params[i]; i++) {
        uint64_t word;
        if (k->param[i].size != sizeof word)
            continue;
        memcpy(&word, launch->params[i], sizeof word);
        if (sim_block_find(word) && !sim_accessible(word, 1, false))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, CUstream stream, struct sim_grid grid, void **params, void **extra)
{
    struct sim_launch *made;
    CUresult result = sim_stream_check(stream);
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
    *params = (CUDA_KERNEL_NODE_PARAMS){.kernelParams = node->launch->params,
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

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    SIM_CALL(SIM_NOTHING);
    if (!map || !address || (uint64_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    map->opaque[0] = (uint64_t)address;
    return CUDA_SUCCESS;
}
