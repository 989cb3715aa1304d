// link: cuda
/*
 * prog_suspend.c - two allocations that live until a line or the end comes on standard input; of the first, 3
 * MiB, the program says as PyTorch would that it is a parameter.  Says "ready" when it is there, and at the
 * end whether both hold what they held.
 */
#include "prog.h"
#include <dlfcn.h>
#include <stdint.h>

static CUdeviceptr get(size_t bytes, unsigned char value)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    OK(cuMemsetD8(p, value, bytes));
    return p;
}

static void look(CUdeviceptr p, size_t bytes, unsigned char value)
{
    unsigned char *copy = malloc(bytes);
    OK(cuMemcpyDtoH(copy, p, bytes));
    for (size_t i = 0; i < bytes; i++)
        CHECK(copy[i] == value);
    free(copy);
}

int main(void)
{
    char c;
    begin();
    CUdeviceptr weights = get(3 * MIB, 7), more = get(5 * MIB, 9);
    int (*tell)(const uint64_t *, unsigned, unsigned) =
        (int (*)(const uint64_t *, unsigned, unsigned))(uintptr_t)dlsym(RTLD_DEFAULT, "vramscope_auto_roles");
    CHECK(!tell || tell(&(uint64_t){weights}, 1, 1) == 1);
    puts("ready");
    fflush(stdout);
    CHECK(read(0, &c, 1) >= 0);
    look(weights, 3 * MIB, 7);
    look(more, 5 * MIB, 9);
    OK(cuMemFree(weights));
    OK(cuMemFree(more));
    puts("whole");
    return 0;
}
