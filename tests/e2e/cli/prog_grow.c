// link: cuda
/*
 * prog_grow.c - training jobs of which memory grows from step to step, or only seems to: ARGV[1] says which,
 * ARGV[2] how many steps.  All that is kept is freed in the end.
 */
#include "prog.h"
#include "vramscope.h"
#include <string.h>

#define MOST 4096

static CUdeviceptr kept[MOST];
static size_t count;

static CUdeviceptr get(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

__attribute__((noinline)) static void keep(size_t bytes)
{
    CHECK(count < MOST);
    kept[count++] = get(bytes);
}

static void clear(void)
{
    while (count)
        OK(cuMemFree(kept[--count]));
}

/* a job for each claim that could be false; STEP counts from 1 */
static void grow(const char *how, int step)
{
    size_t length = (size_t)(step * 7 % 5 + 1) * MIB;
    if (!strcmp(how, "leak") || !strcmp(how, "teacher") || !strcmp(how, "returns"))
        keep(MIB);
    if (!strcmp(how, "teacher") && step == 20) { /* what ends in the middle hides nothing */
        OK(cuMemFree(kept[0]));
        kept[0] = kept[--count];
    }
    if (!strcmp(how, "history")) /* the graph of each loss, of that step's length */
        keep(length), keep(2 * length);
    if (!strcmp(how, "lengths")) /* the last step's outputs */
        clear(), keep(length), keep(3 * length);
    if (!strcmp(how, "stops") && step <= 20)
        keep(MIB);
    if (!strcmp(how, "fills") && (step <= 16 || (step <= 24 && step % 2) || step == 32 || step == 38))
        keep(MIB);
    if (!strcmp(how, "cleared") && step % 10 == 1)
        clear();
    if (!strcmp(how, "cleared"))
        keep(MIB);
    if (!strcmp(how, "states") && step == 1)
        for (int i = 0; i < 32; i++)
            keep(MIB);
    if (!strcmp(how, "turns")) { /* each of 64 buffers is made anew when its turn comes */
        OK(cuMemFree(kept[step % 64]));
        kept[step % 64] = get(MIB);
    }
    if (!strcmp(how, "crumbs"))
        keep(512);
    if (!strcmp(how, "drip"))
        keep(4096);
}

static void evaluate(void)
{
    vramscope_range_push("evaluation");
    CUdeviceptr p = get(96 * MIB);
    OK(cuMemFree(p));
    vramscope_range_pop();
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const char *how = argv[1];
    begin();
    CUdeviceptr weights = get(64 * MIB);
    if (!strcmp(how, "teacher"))
        kept[count++] = get(256 * MIB);
    for (int i = 0; !strcmp(how, "turns") && i < 64; i++)
        keep(MIB);
    for (int step = 1; step <= atoi(argv[2]); step++) {
        vramscope_range_push("forward");
        CUdeviceptr activations = get((size_t)(8 + step * 3 % 4) * MIB);
        grow(how, step);
        vramscope_range_pop();
        vramscope_range_push("backward");
        CUdeviceptr gradients = get(4 * MIB);
        OK(cuMemFree(activations));
        vramscope_range_pop();
        vramscope_range_push("optimizer");
        OK(cuMemFree(gradients));
        vramscope_range_pop();
        if (!strcmp(how, "returns") && step == atoi(argv[2]))
            clear(); /* the function that held the list returns, and only then is it known that the step has
                        ended */
        vramscope_step();
        if (!strcmp(how, "evaluation") && step % 5 == 0)
            evaluate();
    }
    clear();
    OK(cuMemFree(weights));
    puts("done");
    return 0;
}
