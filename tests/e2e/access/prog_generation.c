// link: cuda
/*
 * prog_generation.c - a model that is called five times and never trained; blocks are known by their size.
 *
 *      KiB
 *      50     weights, which live to the end
 *      100    what a call makes for itself
 *      200    a cache that each call makes anew of the previous one, which it frees; the last is never read
 *      300    weights of another model, made before the calls and given back after them
 */
#define _GNU_SOURCE
#include "prog.h"
#include "vramscope.h"

#define KIB 1024ull

static const char ptx[] = ".visible .entry simcuda_nothing_two(.param .u64 a, .param .u64 b) { ret; }\n";
static CUfunction two;

static CUdeviceptr block(uint64_t kib)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, kib * KIB));
    return p;
}

static void work(CUdeviceptr a, CUdeviceptr b)
{
    OK(cuLaunchKernel(two, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a, &b}, NULL));
}

int main(void)
{
    CUmodule module;
    begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&two, module, "simcuda_nothing_two"));
    CUdeviceptr weights = block(50), others = block(300), cache = 0;
    for (int call = 0; call < 5; call++) {
        vramscope_range_push("evaluation");
        CUdeviceptr own = block(100), next = block(200);
        work(weights, own);
        work(others, own);
        work(own, next);
        if (cache) {
            work(cache, next);
            OK(cuMemFree(cache));
        }
        cache = next;
        OK(cuMemFree(own));
        vramscope_range_pop();
    }
    OK(cuMemFree(cache));
    OK(cuMemFree(others));
    puts("done");
    return 0;
}
