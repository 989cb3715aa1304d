/* test_given_graph.c - given_graph.c: what a graph's copies read of the host's memory. */
#include "access/kernels.h"
#include "hooks/given.h"
#include "hooks/graph.h"
#include "unit/test.h"

#define EXEC ((CUgraphExec)0x1000)
#define HOST 0x7000000000ull
#define FAR  (1ull << 20)

/* stand in for the driver and the access ledger */
_Atomic(void *) vs_call_table[VS_CALL_END];

bool vs_graph_each_node(CUgraph graph, void (*visit)(void *context, CUgraphNode node, int depth),
                        void *context, int depth)
{
    return true;
}

const struct vs_kernel *vs_given_kernel(CUfunction f)
{
    return NULL;
}

const void *vs_given_buffer(void **extra, size_t *size)
{
    return NULL;
}

uint32_t vs_given_name(enum vs_api api)
{
    return 1;
}

bool vs_given_captured(CUstream stream)
{
    return false;
}

void vs_kernel_each(const struct vs_kernel *k, struct vs_grid grid, void *const *params, const void *buffer,
                    size_t size, void (*see)(void *context, uint64_t word, bool map, bool sure),
                    void *context)
{
}

struct vs_use vs_use_begin(uint32_t name, uint16_t kinds)
{
    return (struct vs_use){.name = name, .kinds = kinds};
}

void vs_use_flush(const struct vs_use *u, struct vs_use_batch *b) {}
void vs_use_reaching(void) {}

bool vs_use_is_drivers(uint64_t address)
{
    return address == HOST + 1;
}

static struct {
    uint64_t from, size;
} sources[32];
static int reads;

void vs_use_source(uint64_t from, uint64_t size)
{
    assert_true(reads < 32);
    sources[reads].from = from;
    sources[reads++].size = size;
}

static void source(void *context, uint64_t from, uint64_t size)
{
    vs_use_source(from, size);
}

static void ignore(void *context, uint64_t from, uint64_t size) {}

static int words;

static void word(void *context, uint64_t address)
{
    words++;
}

static void is_read(int nth, uint64_t from, uint64_t size)
{
    assert_true(nth < reads);
    assert_int_equal(sources[nth].from, from);
    assert_int_equal(sources[nth].size, size);
}

static CUDA_MEMCPY3D rows(uint64_t from, size_t width, size_t height, size_t depth)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = (void *)(uintptr_t)from,
                           .srcPitch = FAR,
                           .srcHeight = 4,
                           .WidthInBytes = width,
                           .Height = height,
                           .Depth = depth};
}

static void launch(void)
{
    reads = 0;
    vs_given_graph(EXEC, NULL);
    int launched = reads;
    reads = words = 0;
    assert_true(vs_given_graph_each(EXEC, word, source, NULL));
    assert_int_equal(launched, reads); /* the gate looks at the same */
}

static int begin(void **state)
{
    vs_given_graph_made(EXEC, NULL);
    return 0;
}

TEST(every_launch_reads_each_row, begin)
{
    CUDA_MEMCPY3D c = rows(HOST, 16, 2, 2);
    vs_given_node_copy(EXEC, &c);
    for (int i = 0; i < 2; i++) {
        launch();
        assert_int_equal(reads, 4);
        is_read(1, HOST + FAR, 16);
        is_read(3, HOST + 5 * FAR, 16);
    }
}

TEST(a_copy_of_very_many_rows_may_bring_any_address, begin)
{
    CUDA_MEMCPY3D c = rows(HOST, 8, 63, 1);
    vs_given_node_copy(EXEC, &c);
    assert_true(vs_given_graph_each(EXEC, word, ignore, NULL));
    c.Height = 64;
    vs_given_node_copy(EXEC, &c);
    assert_false(vs_given_graph_each(EXEC, word, ignore, NULL));
}

TEST(a_node_that_was_changed_reads_its_new_memory_too, begin)
{
    CUDA_MEMCPY3D c = rows(HOST, 16, 1, 1);
    vs_given_node_copy(EXEC, &c);
    c.srcXInBytes = 64;
    c.WidthInBytes = 1 << 20;
    vs_given_node_copy(EXEC, &c);
    launch();
    assert_int_equal(reads, 2);
    is_read(0, HOST, 16);
    is_read(1, HOST + 64, VS_BOX_MAX);
}

TEST(the_devices_memory_is_not_read, begin)
{
    CUDA_MEMCPY3D c = rows(HOST, 16, 1, 1);
    c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
    c.srcDevice = HOST + 1;
    vs_given_node_copy(EXEC, &c);
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    vs_given_node_copy(EXEC, &c);
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    vs_given_node_copy(EXEC, &c);
    launch();
    assert_int_equal(reads, 0);
    assert_int_equal(words, 1); /* a block that is not known may lie there */
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = HOST; /* which the driver takes */
    vs_given_node_copy(EXEC, &c);
    launch();
    is_read(0, HOST, 16);
}
