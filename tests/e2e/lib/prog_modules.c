// link: cuda
/* Modules, libraries and limits: what their making took of the device. */
#include "prog.h"

static const struct {
    unsigned magic;
    unsigned short version, header;
    unsigned long long body;
} fat = {0xba55ed50u, 1, 16, 3 * MIB};

int main(void)
{
    CUmodule module, other;
    CUlibrary library;
    CUcontext context;
    begin();
    OK(cuModuleLoadData(&module, &fat));
    OK(cuModuleLoadDataEx(&other, ".version 8.0\n", 0, NULL, NULL));
    IS(cuModuleLoadData(&module, "\001"), CUDA_ERROR_INVALID_IMAGE);
    OK(cuModuleUnload(module));
    IS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    OK(cuModuleUnload(other));
    OK(cuLibraryLoadData(&library, &fat, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryUnload(library));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MIB));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB));
    IS(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3), CUDA_ERROR_UNSUPPORTED_LIMIT);
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuModuleLoadFatBinary(&module, &fat));
    OK(cuCtxDestroy(context)); /* the module with it */
    puts("done");
    return 0;
}
