/*
 * arena_overlap.cu - whether what one kernel wrote through one mapping is seen through another by the next,
 * which began before the first had ended (programmatic dependent launch).
 *
 *      nvcc -O2 -arch=native tests/gpu/arena_overlap.cu -lcuda -o overlap && ./overlap [kernels]
 *
 * Two buffers, each of granules that are mapped twice.  Each kernel of a chain reads one buffer, whose words
 * must all be the chain's length so far, and writes the other with one more; what one wrote the next reads
 * through the other mapping, at another place, so from another processor of the GPU.  All let the next begin
 * at once.
 *
 *      waits          before it touches memory it waits for the one before, as such kernels must
 *      looks, waits   reads the words before it waits as well: lines of the other mapping lie in its cache
 *      does not wait  is wrong, and has to be found wrong: else nothing overlapped, and the rest is no proof
 *
 * Exit: 0, 1 where words were wrong that must not be, 2 where the check could not find what is wrong, 77
 * without a GPU.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <cuda.h>
#include <cuda_runtime.h>

#define GRANULES 8

enum how { WAITS, LOOKS_AND_WAITS, DOES_NOT_WAIT, HOWS };
static const char *const how_name[HOWS] = {"waits", "looks, waits", "does not wait"};

static void check(int status, const char *what)
{
    if (status == 0)
        return;
    fprintf(stderr, "%s failed: error %d\n", what, status);
    exit(status == CUDA_ERROR_NO_DEVICE || status == cudaErrorInsufficientDriver ? 77 : 3);
}

__global__ void step(const uint32_t *in, uint32_t *out, uint32_t n, uint32_t expected, uint32_t shift,
                     int how, unsigned long long *wrong)
{
    uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x, seen = 0,
             bad = 0;
    cudaTriggerProgrammaticLaunchCompletion();
    if (how == LOOKS_AND_WAITS)
        for (uint32_t i = first; i < n; i += stride)
            seen += in[(i + shift) % n];
    if (how != DOES_NOT_WAIT)
        cudaGridDependencySynchronize();
    for (uint32_t i = first; i < n; i += stride) {
        bad += in[(i + shift) % n] != expected;
        out[i] = expected + 1;
    }
    if (bad)
        atomicAdd(wrong, (unsigned long long)bad);
    if (seen == 0x12345678u) /* so that the first look is not left out */
        atomicAdd(wrong + 1, 1ull);
}

/* ---- memory ---- */

struct buffer {
    uint32_t *mapping[2];
};

static size_t granule;
static CUmemAllocationProp prop;

static CUdeviceptr reserve()
{
    CUdeviceptr at;
    check(cuMemAddressReserve(&at, GRANULES * granule, 0, 0, 0), "cuMemAddressReserve");
    return at;
}

static struct buffer make_buffer()
{
    CUdeviceptr at[2] = {reserve(), reserve()};
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (int i = 0; i < GRANULES; i++) {
        CUmemGenericAllocationHandle handle;
        check(cuMemCreate(&handle, granule, &prop, 0), "cuMemCreate");
        check(cuMemMap(at[0] + i * granule, granule, 0, handle, 0), "cuMemMap");
        check(cuMemMap(at[1] + (GRANULES - 1 - i) * granule, granule, 0, handle, 0), "the second cuMemMap");
    }
    for (int m = 0; m < 2; m++)
        check(cuMemSetAccess(at[m], GRANULES * granule, &access, 1), "cuMemSetAccess");
    return (struct buffer){{(uint32_t *)at[0], (uint32_t *)at[1]}};
}

/* ---- a chain ---- */

static void launch(cudaStream_t stream, const uint32_t *in, uint32_t *out, uint32_t n, uint32_t k, int how,
                   bool overlap, unsigned long long *wrong)
{
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = overlap;
    config.gridDim = 264;
    config.blockDim = 256;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, step, in, out, n, k, k * 7919u * 1024u % n, how, wrong), "a launch");
}

/* How many words were wrong. */
static unsigned long long chain(const struct buffer *b, uint32_t kernels, int how, bool overlap, bool aliased,
                                float *ms)
{
    uint32_t n = (uint32_t)(GRANULES * granule / 4);
    unsigned long long *wrong, found;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaMalloc(&wrong, 16), "cudaMalloc");
    check(cudaMemset(wrong, 0, 16), "cudaMemset");
    check(cudaMemset(b[0].mapping[0], 0, n * 4), "cudaMemset");
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    for (uint32_t k = 0; k < kernels; k++) {
        int written = aliased ? k / 2 % 2 : 0, read = aliased ? 1 - (k + 3) / 2 % 2 : 0;
        launch(stream, b[k % 2].mapping[read], b[1 - k % 2].mapping[written], n, k, how, overlap, wrong);
    }
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaDeviceSynchronize(), "the chain");
    check(cudaEventElapsedTime(ms, begin, end), "cudaEventElapsedTime");
    check(cudaMemcpy(&found, wrong, 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
    cudaFree(wrong);
    cudaStreamDestroy(stream);
    return found;
}

static int judge(const struct buffer *b, uint32_t kernels)
{
    int verdict = 0;
    printf("%-14s %-10s %-12s %14s %10s\n", "kernel", "overlaps", "mappings", "wrong words", "us/kernel");
    for (int how = 0; how < HOWS; how++)
        for (int overlap = how == WAITS ? 0 : 1; overlap < 2; overlap++)
            for (int aliased = 0; aliased < 2; aliased++) {
                float ms;
                unsigned long long wrong = chain(b, kernels, how, overlap, aliased, &ms);
                printf("%-14s %-10s %-12s %14llu %10.2f\n", how_name[how], overlap ? "yes" : "no",
                       aliased ? "two" : "one", wrong, ms * 1000 / kernels);
                fflush(stdout);
                if (how == DOES_NOT_WAIT && wrong == 0 && verdict == 0)
                    verdict = 2;
                if (how != DOES_NOT_WAIT && wrong)
                    verdict = 1;
            }
    return verdict;
}

int main(int argc, char **argv)
{
    int device = 0;
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaFree(NULL), "cudaFree");
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    check(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
          "the granularity");
    struct buffer b[2] = {make_buffer(), make_buffer()};
    int verdict = judge(b, argc > 1 ? (uint32_t)atoi(argv[1]) : 4000);
    printf("%s\n", verdict == 0 ? "ok"
                   : verdict == 1
                       ? "FAILED: words were wrong that must not be"
                       : "unknown: kernels that do not wait were not found wrong, nothing overlapped");
    return verdict;
}
