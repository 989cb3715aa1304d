// link: cuda
/*
 * prog_steps.c COUNT - COUNT blocks in 300 steps of forward, backward and optimizer, the biggest in the
 * middle, by the framework's reports; the same events in every run.
 */
#define _GNU_SOURCE
#include "prog.h"
#include "vramscope.h"

#include <dlfcn.h>
#include <stdint.h>

#define STEPS 300

struct device {
    int8_t type, index;
};
typedef void report_fn(void *, int64_t, size_t, size_t, struct device);
static report_fn *report;
static CUdeviceptr base;
static size_t allocated, used;
static const size_t reserved = 256 * MIB;

static void block(size_t at, int64_t size)
{
    allocated += (size_t)size;
    if (report)
        report((void *)(uintptr_t)(base + at), size, allocated, reserved, (struct device){1, 0});
}

/* Blocks that come and go, with up to LIVE at a time. */
static void churn(long count, long live, size_t size)
{
    size_t start = used;
    for (long i = 0; i < count; i++) {
        if (i >= live)
            block(start + (size_t)(i % live) * size, -(int64_t)size);
        block(start + (size_t)(i % live) * size, (int64_t)size);
    }
    for (long i = 0; i < (count < live ? count : live); i++)
        block(start + (size_t)i * size, -(int64_t)size);
}

static void phase(const char *name, long count, long live, size_t size)
{
    vramscope_range_push(name);
    churn(count, live, size);
    vramscope_range_pop();
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    long each = atol(argv[1]) / STEPS / 3;
    report = (report_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    begin();
    OK(cuMemAlloc(&base, reserved));
    for (int i = 0; i < 100; i++, used += MIB)
        block(used, (int64_t)MIB);
    for (int step = 0; step < STEPS; step++) {
        long live = 20 + (step < STEPS / 2 ? step : STEPS - step);
        phase("forward", each, live, 8192);
        phase("backward", each, 2 * live, 8192 + 512 * (size_t)(step % 7));
        phase("optimizer", each, live / 2, 512);
        vramscope_step();
    }
    printf("%zu\n", allocated);
    return 0;
}
