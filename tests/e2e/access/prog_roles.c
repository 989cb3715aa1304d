// link: cuda
/*
 * prog_roles.c [told|leftovers] [STEPS] - a training of STEPS steps (4 unless given) with a block of every
 * role, known by its size.
 *
 * Kernels compute nothing.  The peak is in backward.  told: after each step it says what PyTorch would say
 * of storages, and also addresses where no block begins and a role that there is not.  leftovers: kernels
 * get structures as PyTorch's strided ones do, whose unused room has the addresses of all blocks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "prog.h"
#include "vramscope.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KIB 1024ull

/* names with PyTorch's templates in them */
#define STRIDED                                                                                              \
    "simcuda_nothing_2at6native18elementwise_kernelILi128ELi4EZNS0_15gpu_kernel_implINS0_15CUDAFunctor_"     \
    "addIfE"
#define REDUCES "simcuda_nothing_2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIfE"

static const char ptx[] = ".visible .entry " STRIDED "(.param .u32 n, .param .align 8 .b8 s[752]) { ret; }\n"
                          ".visible .entry " REDUCES "(.param .align 8 .b8 s[1040]) { ret; }\n"
                          ".visible .entry simcuda_nothing_four(.param .u64 a, .param .u64 b, .param .u64 c, "
                          ".param .u64 d) { ret; }\n"
                          ".visible .entry simcuda_nothing_ncclDevKernel_AllReduce(.param .u64 a) { ret; }\n";
static CUfunction four, reduce, strided, reduces;
static bool leftovers;
static CUdeviceptr made[8192]; /* all blocks */
static size_t blocks;

static CUdeviceptr block(uint64_t kib)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, kib * KIB));
    CHECK(blocks < sizeof made / sizeof *made || !leftovers);
    made[blocks++ % (sizeof made / sizeof *made)] = p;
    return p;
}

/* Fills WORDS with the addresses of blocks, the latest in front. */
static void leave(uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = made[blocks - 1 - i % blocks];
}

/* A calculator of offsets for one dimension is at AT. */
static void calculator(void *at)
{
    memcpy(at, &(int){1}, sizeof(int));
}

static void work_strided(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr d)
{
    uint64_t words[94];
    unsigned n = 1;
    leave(words, 94);
    calculator(words);
    memcpy(words + 88, (uint64_t[]){a, b, c, d}, 32);
    OK(cuLaunchKernel(strided, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&n, words}, NULL));
}

static void work_reduces(CUdeviceptr from, CUdeviceptr to, CUdeviceptr and_to)
{
    uint64_t words[130];
    leave(words, 130);
    memset(words, 0, 68); /* the function and its configuration */
    calculator((char *)words + 68);
    calculator((char *)words + 472);
    words[122] = from;
    words[123] = to;
    if (and_to)
        words[124] = and_to;
    memset(words + 125, 0, 40); /* no buffers */
    memcpy((char *)words + 1036, &(int){and_to ? 2 : 1}, sizeof(int));
    OK(cuLaunchKernel(reduces, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){words}, NULL));
}

static void work(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUdeviceptr d)
{
    if (leftovers && d)
        work_strided(a, b, c, d);
    else if (leftovers && a)
        work_reduces(a, b, c);
    else
        OK(cuLaunchKernel(four, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&a, &b, &c, &d}, NULL));
}

enum { PARAMETER = 1, GRADIENT, STATE, BUFFER };

static bool busy; /* so many events that the drain may be behind: then nothing is said */

static void tell(unsigned role, unsigned n, const uint64_t *addresses)
{
    int (*roles)(const uint64_t *, unsigned, unsigned) =
        (int (*)(const uint64_t *, unsigned, unsigned))dlsym(RTLD_DEFAULT, "vramscope_auto_roles");
    if (roles)
        CHECK((roles(NULL, 0, 0) == 1 && roles(addresses, n, role) == 1) || busy);
}

int main(int argc, char **argv)
{
    bool told = argc > 1 && !strcmp(argv[1], "told");
    leftovers = argc > 1 && !strcmp(argv[1], "leftovers");
    CUmodule module;
    CUdeviceptr states = 0;
    static char host[4096];
    begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&four, module, "simcuda_nothing_four"));
    OK(cuModuleGetFunction(&strided, module, STRIDED));
    OK(cuModuleGetFunction(&reduces, module, REDUCES));
    OK(cuModuleGetFunction(&reduce, module, "simcuda_nothing_ncclDevKernel_AllReduce"));
    CUdeviceptr parameter = block(100), buffer = block(200), unused = block(300), frozen = block(400);
    OK(cuMemcpyHtoD(frozen, host, sizeof host)); /* as weights are loaded; it stays, so it is no input */
    int steps = argc > 2 ? atoi(argv[2]) : 4;
    busy = steps > 4;
    for (int step = 1; step <= steps; step++) {
        CUdeviceptr input = block(500);
        OK(cuMemcpyHtoD(input, host, sizeof host));
        vramscope_range_push("forward");
        CUdeviceptr activation = block(600), inside = block(700);
        work(parameter, input, activation, inside);
        work(buffer, frozen, activation, inside);
        work(activation, inside, states, 0); /* an address that was left in a structure of a kernel's */
        OK(cuMemFree(inside));
        vramscope_range_pop();
        vramscope_range_push("logits");
        CUdeviceptr logits = block(800);
        work(activation, parameter, logits, 0);
        if (step == steps) {
            CUdeviceptr most = block(900);
            work(most, logits, 0, 0);
            OK(cuMemFree(most));
        }
        vramscope_range_pop();
        vramscope_range_push("backward");
        CUdeviceptr gradient = block(1000), passing = block(1100);
        work(logits, parameter, passing, gradient);
        work(activation, frozen, passing, gradient);
        OK(cuMemFree(logits));
        OK(cuMemFree(activation));
        OK(cuMemFree(passing));
        vramscope_range_pop();
        vramscope_range_push("optimizer");
        if (states == 0)
            states = block(1200);
        CUdeviceptr foreach = block(1300);
        work(parameter, gradient, states, foreach);
        OK(cuMemFree(foreach));
        vramscope_range_pop();
        if (told) {
            tell(PARAMETER, 1, &(uint64_t){parameter});
            tell(GRADIENT, 2, (uint64_t[]){gradient, 0x1000});
            tell(STATE, 1, &(uint64_t){states});
            tell(BUFFER, 4, (uint64_t[]){0, frozen + 512, (uint64_t)(uintptr_t)host, buffer});
            tell(77, 1, &(uint64_t){input});
        }
        vramscope_step();
        OK(cuMemFree(gradient));
        OK(cuMemFree(input));
    }
    CUdeviceptr bucket = block(1400);
    OK(cuLaunchKernel(reduce, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&bucket}, NULL));
    OK(cuMemFree(bucket));
    OK(cuMemFree(unused));
    puts("done");
    return 0;
}
