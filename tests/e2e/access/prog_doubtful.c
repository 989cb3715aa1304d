// link: cuda
/*
 * prog_doubtful.c - a training over six steps whose optimizer makes blocks of several kinds, each known by
 * its size, and in which a library's kernels get a structure of which nobody outside knows what is in use.
 *
 *      KiB    made by the optimizer, and
 *      100    a state: its address is left in what backward's kernels get, in every step
 *      200    copies of the weights that the optimizer makes anew every third step: forward and backward use
 *             them by structures alone
 *      300    averages of the weights, which evaluation uses by a structure
 *      400    a mask that backward multiplies with, by a parameter of its own
 *      500    a copy of the gradients, which the next step's backward uses
 *      600    a state of which nothing was left anywhere
 *
 * The block of 700 KiB is a library's workspace: made in the first forward, used by the optimizer alone
 * (Muon's products).
 */
#define _GNU_SOURCE
#include "prog.h"
#include "vramscope.h"

#include <stdbool.h>

#define KIB 1024ull

static const char ptx[] = ".visible .entry simcuda_nothing_two(.param .u64 a, .param .u64 b) { ret; }\n"
                          ".visible .entry simcuda_nothing_gemm(.param .align 8 .b8 s[64]) { ret; }\n";
static CUfunction two, gemm;

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

static void library(CUdeviceptr a, CUdeviceptr b, CUdeviceptr left)
{
    uint64_t words[8] = {a, b, 0, 7, left};
    OK(cuLaunchKernel(gemm, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){words}, NULL));
}

int main(void)
{
    CUmodule module;
    CUdeviceptr state = 0, weights = 0, averages = 0, mask = 0, copy = 0, second = 0, workspace = 0;
    begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&two, module, "simcuda_nothing_two"));
    OK(cuModuleGetFunction(&gemm, module, "simcuda_nothing_gemm"));
    CUdeviceptr parameter = block(50);
    for (int step = 1; step <= 6; step++) {
        vramscope_range_push("forward");
        CUdeviceptr activation = block(60);
        library(parameter, activation, 0);
        if (weights)
            library(weights, activation, 0);
        if (!workspace)
            workspace = block(700);
        vramscope_range_pop();
        vramscope_range_push("backward");
        CUdeviceptr gradient = block(70);
        library(activation, gradient, state);
        if (weights) {
            library(weights, gradient, state);
            work(mask, gradient);
            library(copy, gradient, 0);
            OK(cuMemFree(copy));
        }
        OK(cuMemFree(activation));
        vramscope_range_pop();
        vramscope_range_push("optimizer");
        if (step == 1) {
            state = block(100);
            averages = block(300);
            mask = block(400);
            second = block(600);
        }
        if (step % 3 == 1) {
            if (weights)
                OK(cuMemFree(weights));
            weights = block(200);
        }
        copy = step < 6 ? block(500) : 0;
        work(parameter, gradient);
        work(state, second);
        work(weights, averages);
        work(copy, mask);
        work(workspace, gradient);
        vramscope_range_pop();
        if (step % 2 == 0) {
            vramscope_range_push("evaluation");
            library(averages, 0, 0);
            vramscope_range_pop();
        }
        vramscope_step();
        OK(cuMemFree(gradient));
    }
    puts("done");
    return 0;
}
