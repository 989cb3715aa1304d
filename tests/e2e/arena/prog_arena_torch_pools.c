// link: cuda
/*
 * prog_arena_torch_pools.c - a capture's pool, a pool that somebody owns, and many of them, driven as PyTorch
 * does: what goes in and who may have it afterwards.  Under the shim only.
 */
#include <stdbool.h>
#include <string.h>

#include "prog_torch.h"

static int copies; /* of filters that live */
static bool manage(void *to, const void *source, int operation)
{
    if (operation == 2) {
        memcpy(to, source, 16);
        copies++;
    }
    copies -= operation == 3;
    return false;
}

/* The filter of torch's that takes what one stream allocates: the stream is its state. */
static bool is_stream(const void *state, struct CUstream_st **asked)
{
    return memcmp(state, asked, sizeof *asked) == 0;
}

static void begin_pool(struct vs_mempool id, CUstream only)
{
    struct vs_function filter = {{(uint64_t)(uintptr_t)only, 0}, manage, is_stream};
    torch_begin_allocate_to_pool(0, id, &filter);
    CHECK(copies == 1);
}

static void end_pool(struct vs_mempool id)
{
    torch_end_allocate_to_pool(0, id);
    CHECK(copies == 0);
}

/* What a graph may touch is nobody's, as long as anybody may launch it. */
static void pool_of_graph(CUstream side)
{
    struct vs_mempool graph = {1, 0};
    CUgraph captured;
    CUgraphExec exec;
    CUdeviceptr a, b, c, outside;
    uint32_t word[2] = {0, 0};
    give(take(8 * MIB, side), 8 * MIB, side); /* idle before the capture */

    begin_pool(graph, side);
    OK(cuStreamBeginCapture(side, CU_STREAM_CAPTURE_MODE_GLOBAL));
    a = take(4 * MIB, side);
    OK(cuMemsetD32Async(a, 77, MIB, side));
    b = take(3 * MIB, side);
    OK(cuMemcpyDtoDAsync(b, a, 3 * MIB, side));
    give(a, 4 * MIB, side);
    c = take(4 * MIB, side);
    CHECK(c == a); /* used again inside the pool */
    outside = take(4 * MIB, NULL);
    CHECK(outside != a && outside != b); /* what another stream allocates is not in the pool */
    give(c, 4 * MIB, side);
    OK(cuStreamEndCapture(side, &captured));
    end_pool(graph);
    OK(cuGraphInstantiate(&exec, captured, 0));

    /* what the graph will touch is nobody's, though it is free */
    CUdeviceptr other[40];
    for (int i = 0; i < 40; i++) {
        other[i] = take(2 * MIB, i % 2 ? side : NULL);
        CHECK(other[i] + 2 * MIB <= a || other[i] >= a + 4 * MIB);
        OK(cuMemsetD32Async(other[i], 5, MIB / 2, i % 2 ? side : NULL));
    }
    OK(cuCtxSynchronize());
    torch_reset(); /* nor is it given back */
    OK(cuGraphLaunch(exec, side));
    OK(cuMemcpyDtoHAsync(&word[0], b, 4, side));
    OK(cuStreamSynchronize(side));
    CHECK(word[0] == 77);
    for (int i = 0; i < 40; i++) {
        OK(cuMemcpyDtoH(&word[1], other[i], 4));
        CHECK(word[1] == 5);
        give(other[i], 2 * MIB, i % 2 ? side : NULL);
    }

    /* a second graph in the same pool, after the first */
    begin_pool(graph, side);
    CHECK(torch_pool_uses(0, graph) == 2);
    CUdeviceptr second = take(4 * MIB, side);
    CHECK(second == a);
    give(second, 4 * MIB, side);
    end_pool(graph);
    torch_release_pool(0, graph);
    CHECK(torch_pool_uses(0, graph) == 1);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(captured));
    torch_release_pool(0, graph);
    give(b, 3 * MIB, side); /* the graph's output lived longer than it */
    give(outside, 4 * MIB, NULL);
    CHECK(stat(RESERVED) >= 8 * MIB);
    torch_reset();
    CHECK(stat(RESERVED) == 0);
}

/* What is freed in a pool that somebody owns is kept, and used by it alone. */
static void pool_with_owner(CUstream side)
{
    struct vs_mempool own = {0, 7};
    CUdeviceptr a, b;
    torch_retain_pool(0, own);
    begin_pool(own, side);
    a = take(6 * MIB, side);
    give(a, 6 * MIB, side);
    end_pool(own);
    torch_release_pool(0, own);
    CHECK(torch_pool_uses(0, own) == 1);
    torch_reset();
    CHECK(stat(RESERVED) >= 6 * MIB);
    begin_pool(own, side);
    CHECK((b = take(6 * MIB, side)) == a);
    end_pool(own);
    torch_release_pool(0, own);
    torch_release_pool(0, own);
    torch_reset(); /* a block still lives in it */
    OK(cuMemsetD32(b, 9, 4));
    give(b, 6 * MIB, side);
    OK(cuCtxSynchronize());
    torch_reset();
    CHECK(stat(RESERVED) == 0);
}

/* More than there are lanes: each keeps its own all the same. */
static void many_pools(CUstream side)
{
    CUdeviceptr kept[60];
    for (unsigned i = 0; i < 60; i++) {
        struct vs_mempool id = {0, 100 + i};
        begin_pool(id, side);
        give(take(2 * MIB, side), 2 * MIB, side);
        kept[i] = take(2 * MIB, side);
        give(kept[i], 2 * MIB, side);
        end_pool(id);
        for (unsigned k = 0; k < i; k++)
            CHECK(kept[k] != kept[i]);
    }
    for (unsigned i = 0; i < 60; i++)
        torch_release_pool(0, (struct vs_mempool){0, 100 + i});
    torch_reset();
    CHECK(stat(RESERVED) == 0);
}

int main(void)
{
    CUstream side;
    find_functions();
    begin();
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    pool_of_graph(side);
    pool_with_owner(side);
    many_pools(side);
    check_stats();
    say();
    return 0;
}
