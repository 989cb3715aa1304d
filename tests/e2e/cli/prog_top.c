// link: cuda
/*
 * prog_top.c hold|steps|still - a job to be watched until a line or the end comes on standard input: after
 * three steps it stands still, goes on, or never had one.  Says "ready" when it is there.
 */
#include "prog.h"
#include "vramscope.h"
#include <poll.h>
#include <string.h>
#include <unistd.h>

static CUdeviceptr get(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    return p;
}

static void step(void)
{
    vramscope_range_push("forward");
    CUdeviceptr p = get(64 * MIB);
    OK(cuMemFree(p));
    vramscope_range_pop();
    vramscope_step();
}

int main(int argc, char **argv)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    CHECK(argc == 2);
    begin();
    CUdeviceptr weights = get(128 * MIB), more;
    for (int i = 0; i < 3 && strcmp(argv[1], "still"); i++)
        step();
    vramscope_range_push("forward");
    vramscope_range_push("attention");
    more = get(32 * MIB);
    puts("ready");
    fflush(stdout);
    while (poll(&in, 1, 10) == 0)
        if (!strcmp(argv[1], "steps"))
            vramscope_range_pop(), vramscope_range_pop(), step(), vramscope_range_push("forward"),
                vramscope_range_push("attention");
    vramscope_range_pop();
    vramscope_range_pop();
    OK(cuMemFree(more));
    OK(cuMemFree(weights));
    puts("done");
    return 0;
}
