/*
 * stored.h - roads by which addresses of blocks get into a table in device memory, and a kernel that is given
 * the table alone.
 *
 * The simulated device runs no code, so after the launch the program reads what the kernel would: device
 * memory lies there at the addresses that the device has.
 */
#ifndef TESTS_E2E_ARENA_STORED_H
#define TESTS_E2E_ARENA_STORED_H

#include <stdint.h>

#include "prog.h"

#define STORED_MOST 64

/* A copy of eight bytes each from the host, further apart than any copy is looked at. */
static inline void store_apart(const char *road, CUdeviceptr table, const CUdeviceptr *at, size_t n,
                               CUstream stream)
{
    static CUdeviceptr apart[STORED_MOST][16 << 10];
    for (size_t i = 0; i < n; i++)
        apart[i][0] = at[i];
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = apart,
                          .srcPitch = sizeof *apart,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = table,
                          .dstPitch = sizeof *at,
                          .WidthInBytes = sizeof *at,
                          .Height = n};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = (uintptr_t)apart,
                          .srcPitch = sizeof *apart / 2,
                          .srcHeight = 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = table,
                          .dstPitch = sizeof *at,
                          .dstHeight = 1,
                          .WidthInBytes = sizeof *at,
                          .Height = 1,
                          .Depth = n};
    CUDA_MEMCPY3D_BATCH_OP op = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                                         .op.ptr = {.ptr = (uintptr_t)apart, .rowLength = sizeof *apart}},
                                 .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = table}},
                                 .extent = {sizeof *at, n, 1},
                                 .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    if (!strcmp(road, "boxes"))
        OK(cuMemcpy3DBatchAsync(1, &op, 0, stream));
    else
        OK(!strcmp(road, "slices") ? cuMemcpy3DAsync(&deep, stream) : cuMemcpy2DAsync(&rows, stream));
    OK(cuStreamSynchronize(stream));
}

/* What a graph copies is what is there when it is launched. */
static inline void store_by_graph(CUdeviceptr table, const CUdeviceptr *at, size_t n, CUstream stream)
{
    static CUdeviceptr later[STORED_MOST];
    CUgraph graph;
    CUgraphExec exec;
    memset(later, 0, sizeof later);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemcpyHtoDAsync(table, later, n * sizeof *at, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    memcpy(later, at, n * sizeof *at);
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

/* N addresses AT into TABLE, by the ROAD that is named. */
static inline void store(const char *road, CUdeviceptr table, const CUdeviceptr *at, size_t n,
                         CUstream stream)
{
    size_t bytes = n * sizeof *at;
    CHECK(n <= STORED_MOST);
    if (!strcmp(road, "copy"))
        OK(cuMemcpyHtoDAsync(table, at, bytes, stream));
    else if (!strcmp(road, "rows") || !strcmp(road, "slices") || !strcmp(road, "boxes"))
        store_apart(road, table, at, n, stream);
    else if (!strcmp(road, "graph"))
        store_by_graph(table, at, n, stream);
    else if (!strcmp(road, "batch")) {
        CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
        CUdeviceptr from = (uintptr_t)at;
        OK(cuMemcpyBatchAsync(&table, &from, &bytes, 1, &how, (size_t[]){0}, 1, stream));
    } else if (!strcmp(road, "words"))
        for (size_t i = 0; i < n; i++) {
            CUstreamBatchMemOpParams word = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                                                            .address = table + i * sizeof *at,
                                                            .value64 = at[i]}};
            OK(i % 2 ? cuStreamBatchMemOp(stream, 1, &word, 0)
                     : cuStreamWriteValue64(stream, table + i * sizeof *at, at[i], 0));
        }
    else
        CHECK(!"a road that is known");
    OK(cuStreamSynchronize(stream));
}

/* What the kernel finds in the block of which the address is the Ith in TABLE. */
static inline const uint32_t *reach(CUfunction kernel, CUdeviceptr table, size_t i, CUstream stream)
{
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&table}, NULL));
    OK(cuStreamSynchronize(stream));
    return (const uint32_t *)(uintptr_t)((const CUdeviceptr *)(uintptr_t)table)[i];
}

#endif
