/*
 * test_runtime_code.c - fat binaries that a program registers, launches out of them, their variables; what
 * the runtime does not have.
 */
#include "runtime_kit.h"

SIM_TEST(a_registered_function_is_launched_and_another_is_unknown)
{
    void *host = add_kernel(ptx, "simcuda_nothing");
    void *p;
    int n = 3;
    void *arguments[] = {&p, &n};
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaLaunchKernel(host, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL));
    cudaLaunchConfig_t config = {.gridDim = {1, 1, 1}, .blockDim = {32, 1, 1}};
    GOOD(cudaLaunchKernelExC(&config, host, arguments));
    GOOD(cudaLaunchCooperativeKernel(host, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL));
    cudaKernel_t kernel;
    GOOD(cudaGetKernel(&kernel, host));
    GOOD(cudaLaunchKernel((void *)kernel, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL));
    GAVE(cudaLaunchKernel(&n, (dim3){1, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL),
         cudaErrorInvalidDeviceFunction);
    GAVE(cudaGetLastError(), cudaErrorInvalidDeviceFunction);
}

SIM_TEST(a_function_is_launched_after_a_reset_too)
{
    void *host = add_kernel(ptx, "simcuda_nothing"), *p = NULL;
    int n = 0;
    void *arguments[] = {&p, &n};
    for (int i = 0; i < 2; i++) {
        GOOD(cudaLaunchKernel(host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL));
        GOOD(cudaDeviceReset());
    }
}

/* The newer way of nvcc: the kernel's handle once, and a launch by that. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);

SIM_TEST(a_launch_has_the_configuration_that_was_pushed_for_it)
{
    void *host = add_kernel(ptx, "simcuda_nothing"), *p;
    int n = 3;
    void *arguments[] = {&p, &n};
    cudaKernel_t kernel;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    GOOD(__cudaGetKernel(&kernel, host));
    CHECK(simcuda_contexts(0) == 0);
    GOOD(cudaMalloc(&p, 64));
    CHECK(__cudaPushCallConfiguration((dim3){7, 6, 5}, (dim3){4, 3, 2}, 8, NULL) == 0);
    CHECK(__cudaPushCallConfiguration((dim3){1, 1, 1}, (dim3){1, 1, 1}, 0, NULL) == 0);
    GOOD(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    CHECK(grid.x == 1);
    GOOD(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    CHECK(grid.x == 7 && grid.y == 6 && grid.z == 5 && block.x == 4 && block.z == 2 && shared == 8);
    GOOD(__cudaLaunchKernel(kernel, grid, block, arguments, shared, stream));
    GAVE(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
    GAVE(__cudaGetKernel(&kernel, NULL), cudaErrorInvalidDeviceFunction);
}

SIM_TEST(no_image_is_read_before_one_of_its_kernels_is_called)
{
    const void *wild = (const void *)8; /* whoever reads it ends here */
    for (int i = 0; i < 60; i++)
        add_kernel(wild, "never called");
    void *host = add_kernel(ptx, "simcuda_nothing"), *p;
    int n = 0;
    void *arguments[] = {&p, &n};
    GOOD(cudaMalloc(&p, 64));
    GOOD(cudaLaunchKernel(host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL));
}

SIM_TEST(a_function_has_attributes_and_so_many_fit)
{
    void *host = add_kernel(ptx, "simcuda_nothing");
    struct cudaFuncAttributes attributes;
    const char *name;
    int blocks = 0, clusters = 0;
    size_t shared = 0;
    GOOD(cudaFuncGetAttributes(&attributes, host));
    CHECK(attributes.maxThreadsPerBlock == 1024 && attributes.numRegs > 0 && attributes.ptxVersion == 50);
    GOOD(cudaFuncSetAttribute(host, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
    GOOD(cudaFuncGetAttributes(&attributes, host));
    CHECK(attributes.maxDynamicSharedSizeBytes == 64 << 10);
    GOOD(cudaFuncGetName(&name, host));
    CHECK(strcmp(name, "simcuda_nothing") == 0);
    GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, host, 1024, 0));
    CHECK(blocks >= 1 && blocks <= 2);
    GOOD(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, host, 1, 256));
    CHECK(shared >= 48 << 10);
    cudaLaunchConfig_t config = {.gridDim = {8, 1, 1}, .blockDim = {32, 1, 1}};
    GOOD(cudaOccupancyMaxActiveClusters(&clusters, host, &config));
    CHECK(clusters >= 1);
    GAVE(cudaFuncGetAttributes(&attributes, NULL), cudaErrorInvalidDeviceFunction);
}

SIM_TEST(a_variable_keeps_what_is_copied_into_it)
{
    static char host;
    static struct fat_wrapper wrapper = {.magic = 0x466243b1, .version = 1, .image = ptx};
    static const int said[4] = {1, 2, 3, 4};
    int read[4] = {0};
    size_t size;
    void *address;
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterVar(handle, &host, NULL, "table", 0, sizeof said, 1, 0);
    GOOD(cudaGetSymbolSize(&size, &host));
    GOOD(cudaGetSymbolAddress(&address, &host));
    CHECK(size == sizeof said && address);
    GOOD(cudaMemcpyToSymbol(&host, said, sizeof said, 0, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpyFromSymbol(read, &host, 8, 8, cudaMemcpyDeviceToHost));
    CHECK(read[0] == 3 && read[1] == 4);
    GAVE(cudaMemcpyToSymbol(&host, said, sizeof said, 1, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    GAVE(cudaMemcpyToSymbol(&read, said, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
    GAVE(cudaGetLastError(), cudaErrorInvalidSymbol);
}

SIM_TEST(libraries_of_code_are_the_drivers)
{
    cudaLibrary_t library;
    cudaKernel_t kernel;
    GOOD(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    GOOD(cudaLibraryGetKernel(&kernel, library, "simcuda_nothing"));
    GOOD(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4096, 0));
    void *p = NULL;
    int n = 0;
    void *arguments[] = {&p, &n};
    GOOD(cudaLaunchKernel((void *)kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL));
    GOOD(cudaLibraryUnload(library));
}

SIM_TEST(functions_of_the_driver_are_found_by_name_and_version)
{
    void *found = NULL, *asked = NULL;
    enum cudaDriverEntryPointQueryResult result;
    GOOD(cudaGetDriverEntryPointByVersion("cuMemAlloc", &found, 12000, cudaEnableDefault, &result));
    CHECK(found == (void *)cuMemAlloc_v2 && result == cudaDriverEntryPointSuccess);
    GOOD(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &asked, 12000, cudaEnableDefault, &result));
    CHECK(asked == NULL && result == cudaDriverEntryPointSymbolNotFound);
}

/* ---- what there is not ---- */

static void body_missing(void)
{
    cudaArray_t array;
    struct cudaChannelFormatDesc format = {.x = 32};
    cudaMallocArray(&array, &format, 16, 16, 0);
}

TEST(what_is_not_simulated_says_its_name_and_ends_the_process_with_3)
{
    char line[256] = {0}, path[] = "/tmp/vramscope-facts.XXXXXX";
    close(mkstemp(path));
    int status = child_status(body_missing, "VRAMSCOPE_DRY_FACTS", path);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *got = fgets(line, sizeof line, f);
    fclose(f);
    unlink(path);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    assert_non_null(got);
    assert_string_equal(line, "missing\tlibcudart.so.13\tcudaMallocArray\n");
}

int main(int argc, char **argv)
{
    return in_dry_mode(argv);
}
