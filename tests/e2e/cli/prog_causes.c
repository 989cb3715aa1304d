// link: cuda
/*
 * prog_causes.c - training steps of known sizes, in which one thing makes the peak, or only looks as if it
 * did: ARGV[1] says which.  Ten steps; weights of 64 MiB, activations of 32 MiB, gradients of 64 MiB.
 */
#include "prog.h"
#include "vramscope.h"
#include <stdbool.h>
#include <string.h>

__attribute__((noinline)) static CUdeviceptr get(size_t mib)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, mib * MIB));
    return p;
}

static void put(CUdeviceptr *p)
{
    if (*p)
        OK(cuMemFree(*p));
    *p = 0;
}

static const char *how;

static bool is(const char *what)
{
    return strcmp(how, what) == 0;
}

static CUdeviceptr gradients, states;

/* Forward and backward of a batch. */
static void compute(void)
{
    vramscope_range_push("forward");
    CUdeviceptr activations = get(32), logits = 0;
    CUdeviceptr attention = is("kept") || is("accumulated") ? get(128) : 0;
    put(&attention);
    vramscope_range_pop();
    if (is("logits") || is("small_logits") || is("late_zero_grad")) {
        vramscope_range_push("logits");
        logits = get(is("logits") || is("late_zero_grad") ? 256 : 24);
        vramscope_range_pop();
    }
    if (is("late_zero_grad")) /* the gradients of the step before live through forward and logits */
        put(&gradients);
    vramscope_range_push("backward");
    put(&logits);
    if (!gradients)
        gradients = get(64);
    put(&activations);
    vramscope_range_pop();
}

static void step(void)
{
    vramscope_range_push("optimizer");
    CUdeviceptr temporary = is("small_logits") || is("optimizer") || is("first_states") ? get(128) : 0;
    if ((is("states") || is("first_states")) && !states)
        states = get(128);
    put(&temporary);
    vramscope_range_pop();
    if (!is("kept") && !is("late_zero_grad"))
        put(&gradients);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    how = argv[1];
    begin();
    CUdeviceptr weights = get(64);
    for (int i = 0; i < 10; i++) {
        compute();
        if (is("accumulated"))
            compute(); /* a second batch adds to the gradients of the same step */
        step();
        vramscope_step();
    }
    put(&gradients);
    put(&states);
    put(&weights);
    puts("done");
    return 0;
}
