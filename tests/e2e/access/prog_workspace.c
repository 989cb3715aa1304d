// link: cuda
/*
 * prog_workspace.c - memory that libraries ask the driver for: ARGV[1] is a folder with two, under the names
 * of cuBLAS and NCCL (workspace_library.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "prog.h"

static CUdeviceptr ask(const char *folder, const char *library, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, library);
    void *opened = dlopen(path, RTLD_NOW);
    CHECK(opened != NULL);
    unsigned long long (*memory)(unsigned long) =
        (unsigned long long (*)(unsigned long))dlsym(opened, "library_memory");
    CHECK(memory != NULL);
    return memory(size);
}

int main(int argc, char **argv)
{
    CUdeviceptr own;
    CHECK(argc == 2);
    begin();
    OK(cuMemAlloc(&own, MIB));
    CHECK(ask(argv[1], "libcublasLt.so.13", 2 * MIB) != 0);
    CHECK(ask(argv[1], "libnccl.so.2", 3 * MIB) != 0);
    puts("done");
    return 0;
}
