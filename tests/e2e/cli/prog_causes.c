// link: cuda
/*
 * prog_causes.c HOW STEPS - a training in which HOW makes the peak, or grows from step to step.
 *
 * Weights of 64 MiB, activations of 32, gradients of 64; all is freed in the end.
 */
#include "prog.h"
#include "vramscope.h"
#include <stdbool.h>
#include <string.h>

static const char *how;
static CUdeviceptr kept[4096], gradients, states;
static size_t count;

static bool is(const char *what)
{
    return strcmp(how, what) == 0;
}

__attribute__((noinline)) static CUdeviceptr get(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

static void put(CUdeviceptr *p)
{
    if (*p)
        OK(cuMemFree(*p));
    *p = 0;
}

static void keep(size_t bytes)
{
    CHECK(count < sizeof kept / sizeof *kept);
    kept[count++] = get(bytes);
}

static void clear(void)
{
    while (count)
        put(&kept[--count]);
}

static void compute(void)
{
    vramscope_range_push("forward");
    CUdeviceptr activations = get(32 * MIB), logits = 0;
    CUdeviceptr attention = is("kept") ? get(128 * MIB) : 0;
    put(&attention);
    if (is("leak") || is("returns") || is("drip"))
        keep(is("drip") ? 4096 : MIB);
    vramscope_range_pop();
    if (is("logits")) {
        vramscope_range_push("logits");
        logits = get(256 * MIB);
        vramscope_range_pop();
    }
    vramscope_range_push("backward");
    put(&logits);
    if (!gradients)
        gradients = get(64 * MIB);
    put(&activations);
    vramscope_range_pop();
}

static void optimize(void)
{
    vramscope_range_push("optimizer");
    CUdeviceptr temporary = is("optimizer") ? get(128 * MIB) : 0;
    if (is("optimizer") && !states)
        states = get(128 * MIB);
    put(&temporary);
    vramscope_range_pop();
    if (!is("kept"))
        put(&gradients);
}

static void evaluate(void)
{
    vramscope_range_push("evaluation");
    CUdeviceptr p = get(48 * MIB);
    put(&p);
    vramscope_range_pop();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    how = argv[1];
    begin();
    CUdeviceptr weights = get(64 * MIB);
    for (int step = 1; step <= atoi(argv[2]); step++) {
        compute();
        optimize();
        if (is("returns") && step == atoi(argv[2]))
            clear(); /* a list goes with its function: only then is it known that the step has ended */
        vramscope_step();
        if (is("none") && step % 5 == 0)
            evaluate();
    }
    clear();
    put(&gradients);
    put(&states);
    put(&weights);
    puts("done");
    return 0;
}
