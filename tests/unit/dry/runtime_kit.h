/* runtime_kit.h - what the tests of the runtime's stand-ins share, beside what those of the driver do. */
#ifndef TESTS_UNIT_DRY_RUNTIME_KIT_H
#define TESTS_UNIT_DRY_RUNTIME_KIT_H

#include "unit/simcuda/simcuda_kit.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

extern int simcuda_contexts(int device);

#define GAVE(call, wanted)                                                                                   \
    do {                                                                                                     \
        int got_ = (int)(call);                                                                              \
        if (got_ != (int)(wanted)) {                                                                         \
            fprintf(stderr, "%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, got_, #wanted);        \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)
#define GOOD(call) GAVE(call, cudaSuccess)

/* The driver looks for its dry mode when it is loaded. */
static inline int in_dry_mode(char **argv)
{
    if (getenv("SIMCUDA_DRY") == NULL) {
        setenv("SIMCUDA_DRY", "1", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    return run_all_tests(NULL, NULL);
}

/* What nvcc's host code calls. */
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads,
                            void *thread, void *block, void *threads_of_block, void *grid, int *warp);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size,
                       int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

struct fat_wrapper {
    int magic, version;
    const void *image;
    void *more;
};

static const char ptx[] = ".version 8.0\n.target sm_50\n.address_size 64\n"
                          ".visible .entry simcuda_nothing(.param .u64 a, .param .u32 b) { ret; }\n";

/* The host function of kernel NAME, out of an image of IMAGE. */
static inline void *add_kernel(const void *image, const char *name)
{
    static char hosts[64];
    static struct fat_wrapper wrappers[64];
    static int count;
    wrappers[count] = (struct fat_wrapper){.magic = 0x466243b1, .version = 1, .image = image};
    void **handle = __cudaRegisterFatBinary(&wrappers[count]);
    __cudaRegisterFunction(handle, &hosts[count], NULL, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    return &hosts[count++];
}

#endif
