/*
 * gate_rows.h - the rows of driver.def as test_gate_calls.c calls them: each by its stand-in, with arguments
 * that name memory or with none, and what is to be expected of its shape.
 */
#ifndef TESTS_UNIT_ARENA_GATE_ROWS_H
#define TESTS_UNIT_ARENA_GATE_ROWS_H

#include "arena/away/gate.h"
#include "hooks/driver.h"
#include "unit/test.h"

/* ---- arguments, by their types ---- */

#define ADDRESS 0x7000000000ull
static CUdeviceptr some_list[] = {ADDRESS, ADDRESS};
static size_t some_sizes[] = {512, 512};
static CUDA_MEMCPY2D some_copy_2d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .srcDevice = ADDRESS,
                                     .srcPitch = 1000,
                                     .srcXInBytes = 8,
                                     .srcY = 2,
                                     .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                     .dstDevice = 2 * ADDRESS,
                                     .dstPitch = 100,
                                     .WidthInBytes = 64,
                                     .Height = 4};
static CUDA_MEMCPY3D some_copy_3d = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .srcDevice = ADDRESS,
                                     .srcPitch = 1000,
                                     .srcHeight = 10,
                                     .srcZ = 1,
                                     .dstMemoryType = CU_MEMORYTYPE_HOST,
                                     .dstHost = some_list,
                                     .WidthInBytes = 64,
                                     .Height = 4,
                                     .Depth = 3};
static CUDA_MEMCPY3D_PEER some_copy_peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                            .srcDevice = ADDRESS,
                                            .srcPitch = 64,
                                            .srcHeight = 1,
                                            .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                            .WidthInBytes = 64,
                                            .Height = 1,
                                            .Depth = 1};
static struct CUDA_MEMCPY3D_BATCH_OP_st some_op = {
    .src = {.type = 1, .op.ptr = {.ptr = ADDRESS, .rowLength = 1000, .layerHeight = 10}},
    .dst = {.type = 1, .op.ptr = {.ptr = 2 * ADDRESS}},
    .extent = {64, 4, 3}};
static CUDA_MEMSET_NODE_PARAMS some_fill = {
    .dst = ADDRESS, .pitch = 1000, .elementSize = 4, .width = 10, .height = 3};
static CUDA_KERNEL_NODE_PARAMS some_node_kernel;
static CUDA_KERNEL_NODE_PARAMS_v1 some_old_node_kernel;
static CUgraphNodeParams some_node = {
    .type = CU_GRAPH_NODE_TYPE_MEMSET,
    .memset = {.dst = ADDRESS, .pitch = 1000, .elementSize = 4, .width = 10, .height = 3}};
static CUstreamBatchMemOpParams some_words[] = {
    {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = ADDRESS}}};
static CUDA_RESOURCE_DESC some_resource = {.resType = CU_RESOURCE_TYPE_LINEAR};

#define FAKE(T)                                                                                              \
    _Generic((T){0},                                                                                         \
        CUdeviceptr: (CUdeviceptr)ADDRESS,                                                                   \
        size_t: (size_t)1,                                                                                   \
        unsigned int: 1u,                                                                                    \
        void *: (void *)some_list,                                                                                \
        const void *: (const void *)some_list,                                                                    \
        CUdeviceptr *: some_list,                                                                                 \
        size_t *: some_sizes,                                                                                     \
        const CUDA_MEMCPY2D *: &some_copy_2d,                                                                     \
        const CUDA_MEMCPY3D *: &some_copy_3d,                                                                     \
        const CUDA_MEMCPY3D_PEER *: &some_copy_peer,                                                              \
        struct CUDA_MEMCPY3D_BATCH_OP_st *: &some_op,                                                             \
        const CUDA_MEMSET_NODE_PARAMS *: &some_fill,                                                              \
        const CUDA_KERNEL_NODE_PARAMS *: &some_node_kernel,                                                       \
        const CUDA_KERNEL_NODE_PARAMS_v1 *: &some_old_node_kernel,                                                \
        CUgraphNodeParams *: &some_node,                                                                          \
        CUstreamBatchMemOpParams *: some_words,                                                                   \
        const CUDA_RESOURCE_DESC *: &some_resource,                                                               \
        default: (T){0})
#define FAKE_1(T, a)       FAKE(T)
#define FAKE_2(T, a, ...)  FAKE(T), FAKE_1(__VA_ARGS__)
#define FAKE_3(T, a, ...)  FAKE(T), FAKE_2(__VA_ARGS__)
#define FAKE_4(T, a, ...)  FAKE(T), FAKE_3(__VA_ARGS__)
#define FAKE_5(T, a, ...)  FAKE(T), FAKE_4(__VA_ARGS__)
#define FAKE_6(T, a, ...)  FAKE(T), FAKE_5(__VA_ARGS__)
#define FAKE_7(T, a, ...)  FAKE(T), FAKE_6(__VA_ARGS__)
#define FAKE_8(T, a, ...)  FAKE(T), FAKE_7(__VA_ARGS__)
#define FAKE_9(T, a, ...)  FAKE(T), FAKE_8(__VA_ARGS__)
#define FAKE_10(T, a, ...) FAKE(T), FAKE_9(__VA_ARGS__)
#define FAKE_11(T, a, ...) FAKE(T), FAKE_10(__VA_ARGS__)
#define FAKE_12(T, a, ...) FAKE(T), FAKE_11(__VA_ARGS__)
#define FAKE_13(T, a, ...) FAKE(T), FAKE_12(__VA_ARGS__)
#define FAKE_14(T, a, ...) FAKE(T), FAKE_13(__VA_ARGS__)
#define FAKE_15(T, a, ...) FAKE(T), FAKE_14(__VA_ARGS__)
#define FAKE_16(T, a, ...) FAKE(T), FAKE_15(__VA_ARGS__)
#define ZERO_1(T, a)                                                                                         \
    (T)                                                                                                      \
    {                                                                                                        \
        0                                                                                                    \
    }
#define ZERO_2(T, a, ...)  (T){0}, ZERO_1(__VA_ARGS__)
#define ZERO_3(T, a, ...)  (T){0}, ZERO_2(__VA_ARGS__)
#define ZERO_4(T, a, ...)  (T){0}, ZERO_3(__VA_ARGS__)
#define ZERO_5(T, a, ...)  (T){0}, ZERO_4(__VA_ARGS__)
#define ZERO_6(T, a, ...)  (T){0}, ZERO_5(__VA_ARGS__)
#define ZERO_7(T, a, ...)  (T){0}, ZERO_6(__VA_ARGS__)
#define ZERO_8(T, a, ...)  (T){0}, ZERO_7(__VA_ARGS__)
#define ZERO_9(T, a, ...)  (T){0}, ZERO_8(__VA_ARGS__)
#define ZERO_10(T, a, ...) (T){0}, ZERO_9(__VA_ARGS__)
#define ZERO_11(T, a, ...) (T){0}, ZERO_10(__VA_ARGS__)
#define ZERO_12(T, a, ...) (T){0}, ZERO_11(__VA_ARGS__)
#define ZERO_13(T, a, ...) (T){0}, ZERO_12(__VA_ARGS__)
#define ZERO_14(T, a, ...) (T){0}, ZERO_13(__VA_ARGS__)
#define ZERO_15(T, a, ...) (T){0}, ZERO_14(__VA_ARGS__)
#define ZERO_16(T, a, ...) (T){0}, ZERO_15(__VA_ARGS__)

/* ---- the rows ---- */

/* What each shape is here; a shape that nobody has looked at does not compile. */
enum { GIVES_NONE, GIVES_NAMED, GIVES_LAUNCH, GIVES_UNKNOWN };
enum {
    SHAPE_LAUNCH = GIVES_LAUNCH,
    SHAPE_GRAPH_LAUNCH = GIVES_LAUNCH,
    SHAPE_GIVEN = GIVES_NAMED,
    SHAPE_WORK = GIVES_NAMED,
    SHAPE_GRAPH_NODE = GIVES_NAMED,
    SHAPE_GRAPH_INSTANTIATE = GIVES_UNKNOWN,
    SHAPE_GRAPH_UPDATE = GIVES_UNKNOWN,
#define NONE(shape) SHAPE_##shape = GIVES_NONE
    NONE(INIT),
    NONE(PROC),
    NONE(GIVEN_ALLOC),
    NONE(ALLOC),
    NONE(GIVEN_FREE),
    NONE(FREE),
    NONE(POOL_ALLOC),
    NONE(POOL_FREE),
    NONE(POOL_CURRENT),
    NONE(POOL_TRIM),
    NONE(POOL_DESTROY),
    NONE(POOL_IMPORT),
    NONE(IMPORT),
    NONE(VA_RESERVE),
    NONE(UNDO),
    NONE(PHYS_CREATE),
    NONE(MAP),
    NONE(SET_ACCESS),
    NONE(PHYS_RETAIN),
    NONE(GRAPH_ALLOC_NODE),
    NONE(GRAPH_FREE_NODE),
    NONE(GRAPH_UPLOAD),
    NONE(GRAPH_EXEC_DESTROY),
    NONE(GRAPH_TRIM),
    NONE(MAP_ARRAYS),
    NONE(GRAPHICS_MAP),
    NONE(GRAPHICS_UNMAP),
    NONE(MULTICAST_CREATE),
    NONE(MULTICAST_BIND),
    NONE(MULTICAST_UNBIND),
    NONE(CONTEXT_CREATE),
    NONE(CONTEXT_DESTROY),
    NONE(PRIMARY),
    NONE(PRIMARY_RESET),
    NONE(GREEN_CREATE),
    NONE(GREEN_DESTROY),
    NONE(LIMIT),
    NONE(MODULE_LOAD),
    NONE(MODULE_UNLOAD),
    NONE(COST),
    NONE(KERNEL_FUNCTION),
    NONE(MODULE_FUNCTION),
    NONE(LIBRARY_KERNEL),
    NONE(STREAM_CREATE),
    NONE(STREAM_DESTROY),
    NONE(CAPTURE),
    NONE(PASS),
    NONE(TEXTURE)
};

static void *stand_in(enum vs_api api)
{
    for (const struct vs_stand_in *row = vs_stand_ins_gate; row->function != NULL; row++)
        if (row->api == api)
            return row->function;
    return NULL;
}

/* The call by the stand-in, with what names memory and with nothing. */
#define VS_API(number, symbol, base, version, kind, shape, arguments, n, signature)                          \
    static CUresult call_##symbol(bool named)                                                                \
    {                                                                                                        \
        CUresult (*gate)(VS_PARAMS_##n signature) = stand_in(VS_API_##symbol);                               \
        return named ? gate(FAKE_##n signature) : gate(ZERO_##n signature);                                  \
    }
#include "trace/driver.def"
#undef VS_API

static const struct row {
    enum vs_api api;
    int gives;
    const char *symbol, *arguments;
    CUresult (*call)(bool named);
} rows[] = {
#define VS_API(number, symbol, base, version, kind, shape, arguments, n, signature)                          \
    {VS_API_##symbol, SHAPE_##shape, #symbol, #arguments, call_##symbol},
#include "trace/driver.def"
#undef VS_API
};
#define ROWS (sizeof rows / sizeof *rows)

/* Whether nobody can know what the row's call touches. */
static bool is_unseen(const struct row *r)
{
    return r->gives == GIVES_UNKNOWN || strstr(r->arguments, "unseen") != NULL ||
           strstr(r->arguments, "reaching") != NULL || strstr(r->arguments, "node_graph") != NULL;
}

/* Whether a later launch is looked at instead. */
static bool is_later(const struct row *r)
{
    return strstr(r->arguments, "given_map") != NULL || strstr(r->arguments, "node_kernel") != NULL;
}

#endif
