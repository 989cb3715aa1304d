/*
 * runtime.cu - the roads through the CUDA runtime, linked statically and dynamically: runtime calls | entry
 * | entry-by-version | cublas.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_CUBLAS
#include <cublas_v2.h>
#endif

#define MUST(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) MUST((call) == cudaSuccess)

enum { N = 1 << 18 };

__global__ void fill(float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        x[i] = (float)(i % 1000) * 0.5f;
}

static void show(const char *what, const float *on_device)
{
    static float x[N];
    double sum = 0;
    fill<<<(N + 255) / 256, 256>>>((float *)on_device);
    OK(cudaMemcpy(x, on_device, sizeof x, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        sum += x[i];
    printf("%s: %.1f\n", what, sum);
}

static void calls(void)
{
    void *device, *pinned, *managed, *pool, *own = aligned_alloc(4096, 8192);
    OK(cudaMalloc(&device, N * sizeof(float)));
    show("cudaMalloc", (float *)device);
    OK(cudaMallocHost(&pinned, 4096));
    OK(cudaMallocManaged(&managed, N * sizeof(float) + 4096));
    show("cudaMallocManaged", (float *)managed);
    OK(cudaMallocAsync(&pool, N * sizeof(float) + 8192, 0));
    show("cudaMallocAsync", (float *)pool);
    OK(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
    OK(cudaHostUnregister(own));
    OK(cudaFreeAsync(pool, 0));
    OK(cudaStreamSynchronize(0));
    OK(cudaFree(managed));
    OK(cudaFreeHost(pinned));
    OK(cudaFree(device));
    free(own);
}

typedef CUresult alloc_fn(CUdeviceptr *, size_t);
typedef CUresult free_fn(CUdeviceptr);

static void *entry(const char *name, bool by_version)
{
    void *found = NULL;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    if (by_version)
        OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
#endif
#if CUDART_VERSION < 13000
    if (!by_version)
        OK(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#else
    if (!by_version) /* what its header makes of cudaGetDriverEntryPoint */
        OK(cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnablePerThreadDefaultStream,
                                            &result));
#endif
    MUST(found != NULL);
    return found;
}

static void entries(bool by_version)
{
    CUdeviceptr p;
    OK(cudaFree(0));
    alloc_fn *alloc = (alloc_fn *)entry("cuMemAlloc", by_version);
    free_fn *release = (free_fn *)entry("cuMemFree", by_version);
    MUST(alloc(&p, N * sizeof(float)) == CUDA_SUCCESS);
    show("driver entry point", (float *)p);
    MUST(release(p) == CUDA_SUCCESS);
}

#ifdef WITH_CUBLAS
static void cublas(void)
{
    float *a, *c, result[4], one = 1, zero = 0;
    cublasHandle_t handle;
    OK(cudaMalloc(&a, N * sizeof(float)));
    OK(cudaMalloc(&c, N * sizeof(float)));
    show("filled", a);
    MUST(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    MUST(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 512, 512, 512, &one, a, 512, a, 512, &zero, c, 512) ==
         CUBLAS_STATUS_SUCCESS);
    OK(cudaMemcpy(result, c, sizeof result, cudaMemcpyDeviceToHost));
    printf("product: %.1f %.1f %.1f %.1f\n", result[0], result[1], result[2], result[3]);
    MUST(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
    OK(cudaFree(c));
    OK(cudaFree(a));
}
#endif

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "calls"))
        calls();
    else if (!strcmp(how, "entry") || !strcmp(how, "entry-by-version"))
        entries(how[5] != 0);
#ifdef WITH_CUBLAS
    else if (!strcmp(how, "cublas"))
        cublas();
#endif
    else
        return 2;
    return 0;
}
