/*
 * test_runtime12.c - what libcudart.so.12 has otherwise than 13: forms of calls, and the device's properties.
 *
 * The headers are those of CUDA 13, so each form is found by its name here.
 */
#define _GNU_SOURCE /* dlvsym */
#include "runtime_kit.h"

static void *form(const char *name)
{
    void *found = dlvsym(RTLD_DEFAULT, name, "libcudart.so.12");
    if (!found)
        fprintf(stderr, "no %s\n", name);
    CHECK(found);
    return found;
}

static int attribute(enum cudaDeviceAttr which)
{
    int value = -1;
    GOOD(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

/* Offsets as programs of CUDA 12 have them. */
SIM_TEST(the_devices_properties_lie_where_programs_of_12_look)
{
    char properties[1032 + 8];
    int at;
    cudaError_t (*get)(void *, int) = form("cudaGetDeviceProperties_v2");
    memset(properties, 0x55, sizeof properties);
    GOOD(get(properties, 0));
    CHECK(properties[0] && (unsigned char)properties[1032] == 0x55);
#define INT_AT(offset) (memcpy(&at, properties + (offset), sizeof at), at)
    CHECK(INT_AT(360) == attribute(cudaDevAttrComputeCapabilityMajor));
    CHECK(INT_AT(388) == attribute(cudaDevAttrMultiProcessorCount));
    CHECK(INT_AT(348) == attribute(cudaDevAttrClockRate));
}

SIM_TEST(of_a_pointer_no_more_is_written_than_programs_of_12_have_room_for)
{
    struct {
        struct {
            int type, device;
            void *on_device, *on_host;
        } known;
        unsigned char behind[64];
    } what;
    void *p;
    cudaError_t (*ask)(void *, const void *) = form("cudaPointerGetAttributes");
    memset(&what, 0x55, sizeof what);
    GOOD(cudaMalloc(&p, 64));
    GOOD(ask(&what, p));
    CHECK(what.known.type == cudaMemoryTypeDevice && what.known.on_device == p);
    for (size_t i = 0; i < sizeof what.behind; i++)
        CHECK(what.behind[i] == 0x55);
}

SIM_TEST(calls_have_the_forms_that_programs_of_12_know)
{
    cudaStream_t stream;
    cudaGraph_t graph = NULL, same = NULL;
    cudaGraphNode_t nodes[2];
    const cudaGraphNode_t *waits;
    size_t count = 0, n = 2, before = 0;
    unsigned long long id = 0, again = 0;
    enum cudaStreamCaptureStatus status;
    void *p;
    cudaError_t (*info)(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *) =
        form("cudaStreamGetCaptureInfo");
    cudaError_t (*info_2)(cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *, cudaGraph_t *,
                          const cudaGraphNode_t **, size_t *) = form("cudaStreamGetCaptureInfo_v2");
    cudaError_t (*dependencies)(cudaGraphNode_t, cudaGraphNode_t *, size_t *) =
        form("cudaGraphNodeGetDependencies");
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    GOOD(cudaMemsetAsync(p, 0, 64, stream));
    GOOD(cudaMemsetAsync(p, 1, 64, stream));
    GOOD(info(stream, &status, &id));
    GOOD(info_2(stream, &status, &again, &graph, &waits, &count));
    CHECK(status == cudaStreamCaptureStatusActive && id && id == again && graph && count == 1);
    GOOD(cudaStreamEndCapture(stream, &same));
    CHECK(same == graph);
    GOOD(cudaGraphGetNodes(graph, nodes, &n));
    GOOD(dependencies(nodes[1], NULL, &before));
    CHECK(n == 2 && before == 1);
}

SIM_TEST(a_device_is_named_by_its_number_in_12)
{
    static const char *const names[] = {"cudaGraphAddNode",
                                        "cudaGraphAddNode_v2",
                                        "cudaMemAdvise",
                                        "cudaMemAdvise_v2",
                                        "cudaMemPrefetchAsync",
                                        "cudaMemPrefetchAsync_v2",
                                        "cudaEventElapsedTime_v2",
                                        "cudaStreamUpdateCaptureDependencies_v2",
                                        "cudaStreamGetCaptureInfo_v3",
                                        "cudaThreadSynchronize",
                                        "cudaGetDriverEntryPoint"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        form(names[i]);
    int version;
    GOOD(cudaRuntimeGetVersion(&version));
    CHECK(version / 1000 == 12);
    cudaError_t (*prefetch)(const void *, size_t, int, cudaStream_t) = form("cudaMemPrefetchAsync");
    cudaError_t (*advise)(const void *, size_t, enum cudaMemoryAdvise, int) = form("cudaMemAdvise");
    void *p;
    GOOD(cudaMallocManaged(&p, MIB, cudaMemAttachGlobal));
    GOOD(prefetch(p, MIB, 0, NULL));
    GOOD(prefetch(p, MIB, cudaCpuDeviceId, NULL));
    GOOD(advise(p, MIB, cudaMemAdviseSetReadMostly, 0));
}

int main(int argc, char **argv)
{
    return in_dry_mode(argv);
}
