// link: cuda
/*
 * prog_access.c PART - blocks that the device is given, each part in another way, and blocks that it is
 * not given. The size says which is which.
 */
#include "prog.h"
#include "vramscope.h"

#include "../../../dry/driver/newer.h"

#include <stdint.h>
#include <unistd.h>

#define KIB 1024ull

/* names with PyTorch's templates in them */
#define FOREACH "simcuda_nothing_25multi_tensor_apply_kernelI18TensorListMetadataILi1EEE"
#define LARGER  "simcuda_nothing_2at6native25multi_tensor_apply_kernelI18TensorListMetadataILi1EEE"
#define CAT     "simcuda_nothing_19CatArrayBatchedCopyIfjLi1ELi128ELi1EEEvPT_25CatArrInputTensorMetadataI"

static const char ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry simcuda_nothing_two(.param .u64 a, .param .u32 n, .param .u64 b) { ret; }\n"
    ".visible .entry simcuda_nothing_struct(.param .u32 n, .param .align 8 .b8 s[64]) { ret; }\n"
    ".visible .entry simcuda_nothing_map(.param .align 64 .b8 m[128]) { ret; }\n"
    ".visible .entry simcuda_nothing_none() { ret; }\n"
    ".visible .entry simcuda_nothing_ncclDevKernel(.param .u64 work) { ret; }\n"
    ".visible .entry simcuda_nothing_list(.param .align 8 .b8 s[3200]) { ret; }\n"
    ".visible .entry " FOREACH "(.param .align 8 .b8 s[3368], .param .u64 other) { ret; }\n"
    ".visible .entry " LARGER "(.param .align 8 .b8 s[25768], .param .u32 n) { ret; }\n"
    ".visible .entry " CAT "(.param .u64 out, .param .align 8 .b8 s[2720]) { ret; }\n";

static CUmodule module;
static CUfunction two, structure, mapped, none, nccl, list;

static CUdeviceptr block(uint64_t size)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, size));
    return p;
}

static void load(void)
{
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&two, module, "simcuda_nothing_two"));
    OK(cuModuleGetFunction(&structure, module, "simcuda_nothing_struct"));
    OK(cuModuleGetFunction(&mapped, module, "simcuda_nothing_map"));
    OK(cuModuleGetFunction(&none, module, "simcuda_nothing_none"));
    OK(cuModuleGetFunction(&nccl, module, "simcuda_nothing_ncclDevKernel"));
    OK(cuModuleGetFunction(&list, module, "simcuda_nothing_list"));
}

static void launch(CUfunction f, CUstream stream, void **params)
{
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void launch_two(CUdeviceptr a, CUdeviceptr b)
{
    unsigned n = 7;
    launch(two, NULL, (void *[]){&a, &n, &b});
}

/* ---- parameters of kernels ---- */

static void params(void)
{
    CUdeviceptr first = block(4 * KIB), inside = block(8 * KIB), unused = block(12 * KIB);
    CUdeviceptr in_struct = block(16 * KIB), packed = block(20 * KIB), large = block(64 * MIB);
    CUdeviceptr cast = block(24 * KIB), by_config = block(28 * KIB), cooperative = block(32 * KIB);
    CUdeviceptr twice = block(36 * KIB);
    unsigned n = 7;
    uint64_t words[8] = {3, UINT64_MAX, 0, in_struct + 64, 1};
    unsigned char buffer[24];
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUlibrary library;
    CUkernel kernel;
    CUlaunchConfig config = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    vramscope_range_push("forward");
    launch_two(first, inside + 4000);
    launch(structure, NULL, (void *[]){&n, words});
    vramscope_range_pop();
    vramscope_step();
    memset(buffer, 0, sizeof buffer);
    memcpy(buffer, &packed, sizeof packed);
    OK(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    vramscope_range_push("backward");
    launch_two(large + 63 * MIB, first); /* far from its beginning */
    launch_two(twice, twice + 8);
    vramscope_range_pop();
    launch(none, NULL, NULL);
    vramscope_step();
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "simcuda_nothing_two"));
    launch((CUfunction)kernel, NULL, (void *[]){&cast, &n, &cast});
    OK(cuLaunchKernelEx(&config, two, (void *[]){&by_config, &n, &first}, NULL));
    OK(cuLaunchCooperativeKernel(two, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&cooperative, &n, &cooperative}));
    IS(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(unused));
    OK(cuMemFree(twice));
    unused = block(40 * KIB);
    OK(cuMemFree(first));
    OK(cuMemFree(in_struct));
    OK(cuLibraryUnload(library));
}

/* ---- tensor maps ---- */

static void maps(void)
{
    CUdeviceptr a = block(4 * MIB), b = block(6 * MIB), c = block(8 * MIB);
    cuuint64_t extents[2] = {64, 64}, strides[1] = {256};
    cuuint32_t box[2] = {8, 8}, ones[2] = {1, 1};
    CUtensorMap map;
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)(uintptr_t)(a + 4096),
                              extents, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                              CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    launch(mapped, NULL, (void *[]){&map});
    OK(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)b));
    launch(mapped, NULL, (void *[]){&map});
    launch_two(c, c);
}

/* ---- copies and fills ---- */

static void copies(void)
{
    static char host[64 * 1024];
    CUdeviceptr to = block(4 * KIB), from = block(8 * KIB), filled = block(12 * KIB),
                source = block(16 * KIB);
    CUdeviceptr target = block(20 * KIB), any = block(24 * KIB), stored = block(28 * KIB);
    CUdeviceptr table = block(32 * KIB), wide = block(36 * KIB);
    CUdeviceptr row = block(40 * KIB), slice = block(44 * KIB), pointers[2] = {0, stored + 16};
    static CUdeviceptr rows[2][16 << 10], slices[2][3][4 << 10]; /* a row is not among the first 64 KiB */
    rows[1][0] = row;
    slices[1][0][0] = slice;
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = rows,
                          .srcPitch = sizeof rows[0],
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = table,
                          .dstPitch = 8,
                          .WidthInBytes = 8,
                          .Height = 2};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = slices,
                          .srcPitch = sizeof slices[0][0],
                          .srcHeight = 3,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = table,
                          .dstPitch = 8,
                          .dstHeight = 1,
                          .WidthInBytes = 8,
                          .Height = 1,
                          .Depth = 2};
    OK(cuMemcpyHtoD(to, host, 100));
    OK(cuMemcpyDtoHAsync(host, from + 8, 100, NULL));
    OK(cuMemsetD32Async(filled + 8 * KIB, 0, 16, NULL));
    OK(cuMemcpyDtoD(target, source, 512));
    OK(cuMemcpy(any, (CUdeviceptr)(uintptr_t)host, 64));
    OK(cuMemcpyHtoDAsync(table, pointers, sizeof pointers, NULL));
    OK(cuMemcpy2D(&flat));
    OK(cuMemcpy3D(&deep));
    OK(cuMemsetD8(wide, 0, 36 * KIB));
    IS(cuMemcpyHtoD(to, host, 1 << 20), CUDA_ERROR_INVALID_VALUE);
}

/* ---- graphs ---- */

static void graphs(void)
{
    CUdeviceptr a = block(4 * KIB), b = block(8 * KIB), c = block(12 * KIB), d = block(16 * KIB);
    CUdeviceptr later = block(20 * KIB), unlaunched = block(24 * KIB);
    unsigned n = 7;
    CUstream stream;
    CUgraph graph, other;
    CUgraphExec exec, never;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(two, stream, (void *[]){&a, &n, &b});
    OK(cuMemsetD8Async(c, 0, 16, stream));
    OK(cuMemcpyDtoDAsync(d, a, 16, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch(two, stream, (void *[]){&unlaunched, &n, &b});
    OK(cuStreamEndCapture(stream, &other));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphInstantiate(&never, other, 0));
    vramscope_step();
    vramscope_range_push("forward");
    OK(cuGraphLaunch(exec, stream));
    vramscope_range_pop();
    vramscope_step();
    size_t count = 1;
    CUgraphNode node;
    OK(cuGraphGetNodes(graph, &node, &count));
    CUDA_KERNEL_NODE_PARAMS changed = {.func = two,
                                       .gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 1,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = (void *[]){&later, &n, &b}};
    OK(cuGraphExecKernelNodeSetParams(exec, node, &changed));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(never));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(other));
}

/* What it copies from the host is what is there when it is launched. */
static void graph_source(void)
{
    CUdeviceptr table = block(4 * KIB), stored = block(8 * KIB), pointers[2] = {0};
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemcpyHtoDAsync(table, pointers, sizeof pointers, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    pointers[1] = stored + 16;
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* A graph that is captured once more: its nodes have new parameters, and what is given to them meanwhile is
 * no use. */
static void recapture(void)
{
    CUdeviceptr a = block(4 * KIB), b = block(8 * KIB), c = block(12 * KIB), d = block(16 * KIB);
    CUdeviceptr to = block(20 * KIB), from = block(24 * KIB);
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUstream stream;
    CUgraph graph, same;
    CUgraphExec exec;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemcpyWithAttributesAsync(to, from, 512, &attributes, stream));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemcpyWithAttributesAsync(a, b, 16, &attributes, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL, NULL));
    OK(cuMemcpyWithAttributesAsync(c, d, 16, &attributes, stream));
    OK(cuStreamEndCapture(stream, &same));
    CHECK(same == graph);
    vramscope_step();
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL, NULL));
    OK(cuMemsetD8Async(a, 0, 16, stream));
    IS(cuStreamEndCapture(stream, &same), CUDA_ERROR_GRAPH_RECAPTURE_FAILURE);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* 300 tensors in a list of the larger form, of which most are empty, and behind them an address that was left
 * there. */
static void larger_list(void)
{
    static struct {
        uint64_t address[770], elements[770];
        uint16_t tensor[2240];
        uint32_t chunk[2240], first;
    } given;
    CUfunction larger;
    unsigned number = 1;
    OK(cuModuleGetFunction(&larger, module, LARGER));
    given.address[0] = block(104 * KIB);
    given.address[299] = block(108 * KIB);
    given.address[300] = block(112 * KIB);
    for (uint16_t i = 0; i < 300; i++)
        given.tensor[i] = i;
    OK(cuLaunchKernel(larger, 300, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&given, &number}, NULL));
}

/* Two tensors in each list, and behind them an address that was left there; in graphs and outside of them. */
static void lists(void)
{
    static uint64_t words[2][421];
    CUdeviceptr tensor[8], out = block(100 * KIB);
    CUfunction foreach, cat;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    OK(cuModuleGetFunction(&foreach, module, FOREACH));
    OK(cuModuleGetFunction(&cat, module, CAT));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 8; i++)
        tensor[i] = block((i + 1) * 4 * KIB);
    for (unsigned i = 0; i < 3; i++) {
        words[0][i] = tensor[i];
        words[1][i] = tensor[i + 3];
    }
    ((unsigned char *)words[0])[1761] = 1; /* the second block has the second tensor */
    larger_list();
    OK(cuLaunchKernel(cat, 1, 2, 1, 1, 1, 1, 0, NULL, (void *[]){&out, words[1]}, NULL));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuLaunchKernel(foreach, 2, 1, 1, 1, 1, 1, 0, stream, (void *[]){words[0], &out}, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    size_t count = 1;
    CUgraphNode node;
    OK(cuGraphGetNodes(graph, &node, &count));
    words[0][0] = tensor[6];
    words[0][1] = tensor[7];
    CUDA_KERNEL_NODE_PARAMS changed = {.func = foreach,
                                       .gridDimX = 1, /* the first tensor alone */
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 1,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .kernelParams = (void *[]){words[0], &out}};
    OK(cuGraphExecKernelNodeSetParams(exec, node, &changed));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* Freed late, and given to the device shortly before that by a word inside a structure, as an earlier call
 * may leave one; and one that such a word alone names. */
static void leftover(void)
{
    CUdeviceptr late = block(10 * MIB), never = block(6 * MIB), other;
    unsigned n = 1;
    uint64_t words[8] = {0, late, never};
    launch_two(late, late);
    usleep(5000);
    other = block(20 * MIB); /* the peak */
    launch_two(other, other);
    usleep(5000);
    OK(cuMemFree(other));
    launch(structure, NULL, (void *[]){&n, words});
    OK(cuMemFree(late));
    OK(cuMemFree(never));
}

/* ---- what is reached by way of memory ---- */

static void reaching(void)
{
    CUdeviceptr lives = block(4 * KIB), gone = block(8 * KIB), work = block(12 * KIB), later;
    OK(cuMemFree(gone));
    launch(nccl, NULL, (void *[]){&work});
    later = block(16 * KIB);
    launch_two(later, later);
    OK(cuMemFree(lives));
}

/* ---- one block of each kind of waste, and a peak of 60 MiB that all of them lie in ---- */

static void waste(void)
{
    CUdeviceptr base = block(10 * MIB), never = block(4 * MIB), late = block(6 * MIB), early = block(8 * MIB);
    CUdeviceptr idle = block(12 * MIB), peak;
    launch_two(base, late);
    launch_two(idle, base);
    usleep(5000);
    peak = block(20 * MIB);
    launch_two(base, peak);
    usleep(5000);
    launch_two(base, peak);
    OK(cuMemFree(peak));
    launch_two(early, idle);
    launch_two(base, early);
    OK(cuMemFree(late));
    OK(cuMemFree(never));
    OK(cuMemFree(early));
    OK(cuMemFree(idle));
    OK(cuMemFree(base));
}

/* ---- many words, many steps, for a kill at the end ---- */

static void many(void)
{
    static struct {
        CUdeviceptr at[400];
    } words;
    for (int i = 0; i < 400; i++)
        words.at[i] = block((uint64_t)(i + 1) * 512);
    for (int step = 0; step < 200; step++) {
        CUdeviceptr temporary = block(1 * MIB);
        vramscope_range_push(step % 2 ? "forward" : "my own phase");
        launch(list, NULL, (void *[]){&words});
        launch_two(temporary, words.at[0]);
        OK(cuMemFree(temporary));
        vramscope_range_pop();
        vramscope_step();
    }
}

static void killed(void)
{
    many();
    fflush(stdout);
    abort();
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"params", params},       {"maps", maps},         {"copies", copies},
        {"graphs", graphs},       {"lists", lists},       {"leftover", leftover},
        {"waste", waste},         {"reaching", reaching}, {"graph_source", graph_source},
        {"recapture", recapture}, {"many", many},         {"killed", killed}};
    begin();
    load();
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
