/*
 * raise_on_cpu.c - preloaded beside the shim: where PyTorch makes a tensor on the CPU, the arena is asked,
 * once, for what it cannot have.  What is thrown goes the way through torch that it goes on a GPU.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "arena/torch/abi.h"

/* What the next tensor asks for; set from Python. */
enum { NOTHING, ONE_BLOCK, TOO_MUCH, NO_FILTER };
extern int ask_for;
int ask_for = NOTHING;

void *allocator(void) __asm__("_ZN3c1015GetCPUAllocatorEv");

static void begin_without_filter(void)
{
    static uint64_t data[2];
    struct vs_function f = {.state = {0}};
    *(void **)&f.manage = data;
    *(void **)&f.call = data + 1;
    vramscope_torch_begin_allocate_to_pool(0, (struct vs_mempool){0, 1}, &f);
}

static void ask(int what)
{
    if (what == ONE_BLOCK || what == TOO_MUCH)
        vramscope_torch_malloc(what == TOO_MUCH ? (ssize_t)1 << 50 : 1000, 0, NULL);
    else if (what == NO_FILTER)
        begin_without_filter();
}

void *allocator(void)
{
    void *c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
    void *(*real)(void) = (void *(*)(void))dlsym(c10, "_ZN3c1015GetCPUAllocatorEv");
    int what = ask_for;
    ask_for = NOTHING;
    ask(what);
    return real();
}
