// link: cuda
/*
 * prog_suspend.c - three allocations that live until a line or the end comes on standard input: a parameter,
 * an optimizer's state, which is a block of PyTorch's where the arena serves it, and one that nothing is said
 * of. The program says what they are for as PyTorch would.  Says "ready" when they are there, and "whole" at
 * the end if they hold what they held.
 */
#include "prog.h"
#include <dlfcn.h>
#include <stdint.h>

enum { PARAMETER = 1, STATE = 3 }; /* trace/roles.h */

struct held {
    CUdeviceptr at;
    size_t bytes;
    unsigned char value;
};

static void *function(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static CUdeviceptr get(size_t bytes, bool torch)
{
    void *(*torchs)(ssize_t, int, CUstream) =
        torch ? (void *(*)(ssize_t, int, CUstream))(uintptr_t)function("vramscope_torch_malloc") : NULL;
    CUdeviceptr p;
    if (torchs)
        return (uintptr_t)torchs((ssize_t)bytes, 0, NULL);
    OK(cuMemAlloc(&p, bytes));
    return p;
}

static void tell(CUdeviceptr at, unsigned role)
{
    int (*roles)(const uint64_t *, unsigned, unsigned) =
        (int (*)(const uint64_t *, unsigned, unsigned))(uintptr_t)function("vramscope_auto_roles");
    CHECK(!roles || roles(&(uint64_t){at}, 1, role) == 1);
}

static void look(const struct held *h)
{
    unsigned char *copy = malloc(h->bytes);
    OK(cuMemcpyDtoH(copy, h->at, h->bytes));
    for (size_t i = 0; i < h->bytes; i++)
        CHECK(copy[i] == h->value);
    free(copy);
}

int main(void)
{
    char c;
    begin();
    struct held held[] = {{get(3 * MIB, false), 3 * MIB, 7},
                          {get(4 * MIB + 300, true), 4 * MIB + 300, 8},
                          {get(5 * MIB, false), 5 * MIB, 9}};
    for (int i = 0; i < 3; i++)
        OK(cuMemsetD8(held[i].at, held[i].value, held[i].bytes));
    tell(held[0].at, PARAMETER);
    tell(held[1].at, STATE);
    puts("ready");
    fflush(stdout);
    CHECK(read(0, &c, 1) >= 0);
    for (int i = 0; i < 3; i++)
        look(&held[i]);
    puts("whole");
    return 0;
}
