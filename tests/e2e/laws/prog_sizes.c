// link: cuda
/*
 * prog_sizes.c BATCH SEQ [switch|list] [oom|refused|recovers|crash|hang|leave|slow] - a training whose
 * blocks follow known laws of batch and length.
 *
 *      always          3 weights of 2 MiB, their gradients in backward, 40 MiB in the optimizer
 *      in each layer   1024 B a token, 4 B x batch x length^2, length^2 bytes; 4096 B a batch
 *      switch          a workspace of 1 MiB up to 2048 tokens, beyond of 3 MiB + 100 B a token
 *      list            likewise, beyond of 64 B a token
 *
 * Beyond 4096 tokens: oom ends with 1 as PyTorch does; crash ends by a signal; hang never ends, even on
 * SIGTERM.  refused: the driver refuses 1 TiB, no framework reports that, and it ends with 1.  recovers:
 * likewise, after it got 1 MiB.  leave: a sleeping child is left behind.  Prints the most that was allocated.
 */
#define _GNU_SOURCE
#include "prog.h"
#include "vramscope.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

enum { STEPS = 4, LAYERS = 3, MOST = 64, LIMIT = 4096 };

struct device {
    int8_t type, index;
};
typedef void report_fn(void *, int64_t, size_t, size_t, struct device);
typedef void oom_fn(int64_t, size_t, size_t, struct device);
static report_fn *report;
static CUdeviceptr base;
static size_t allocated, most, top, sizes[MOST], places[MOST], count;
static const size_t reserved = 1024 * MIB;

static size_t rounded(size_t size)
{
    return (size + 511) / 512 * 512;
}

static void take(size_t size)
{
    size = rounded(size);
    CHECK(count < MOST && top + size <= reserved);
    places[count] = top;
    sizes[count++] = size;
    top += size;
    allocated += size;
    most = allocated > most ? allocated : most;
    if (report)
        report((void *)(uintptr_t)(base + places[count - 1]), (int64_t)size, allocated, reserved,
               (struct device){1, 0});
}

static void give(void)
{
    count--;
    top -= sizes[count];
    allocated -= sizes[count];
    if (report)
        report((void *)(uintptr_t)(base + places[count]), -(int64_t)sizes[count], allocated, reserved,
               (struct device){1, 0});
}

static __attribute__((noinline)) void layer(size_t batch, size_t seq)
{
    take(1024 * batch * seq);
    take(4 * batch * seq * seq);
    take(seq * seq);
    take(4096 * batch);
}

static __attribute__((noinline)) void workspace(size_t tokens, bool list)
{
    take(tokens <= 2048 ? MIB : list ? 64 * tokens : 3 * MIB + 100 * tokens);
}

static void step(size_t batch, size_t seq, bool switches, bool list)
{
    size_t before = count;
    vramscope_range_push("forward");
    for (int i = 0; i < LAYERS; i++)
        layer(batch, seq);
    if (switches || list)
        workspace(batch * seq, list);
    vramscope_range_pop();
    vramscope_range_push("backward");
    for (int i = 0; i < 3; i++)
        take(2 * MIB);
    vramscope_range_pop();
    while (count > before)
        give();
    vramscope_range_push("optimizer");
    take(40 * MIB);
    give();
    vramscope_range_pop();
    vramscope_step();
}

static bool has(int argc, char **argv, const char *word)
{
    for (int i = 3; i < argc; i++)
        if (!strcmp(argv[i], word))
            return true;
    return false;
}

static void run_out(void)
{
    oom_fn *oom = (oom_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");
    if (oom)
        oom(1 << 30, allocated, reserved, (struct device){1, 0});
    fprintf(stderr, "out of memory\n");
    exit(1);
}

/* As a program without a framework finds it. */
static void refuse(bool recovers)
{
    CUdeviceptr more;
    CHECK(cuMemAlloc(&more, (size_t)1024 * 1024 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    if (recovers)
        OK(cuMemAlloc(&more, MIB));
    exit(1);
}

static void hang(void)
{
    signal(SIGTERM, SIG_IGN);
    if (fork() == 0)
        signal(SIGHUP, SIG_IGN);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    size_t batch = strtoul(argv[1], NULL, 10), seq = strtoul(argv[2], NULL, 10);
    report = (report_fn *)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    begin();
    OK(cuMemAlloc(&base, reserved));
    for (int i = 0; i < 3; i++)
        take(2 * MIB);
    for (int i = 0; i < STEPS; i++) {
        if (i == 2 && batch * seq > LIMIT && has(argc, argv, "oom"))
            run_out();
        if (i == 2 && batch * seq > LIMIT && (has(argc, argv, "refused") || has(argc, argv, "recovers")))
            refuse(has(argc, argv, "recovers"));
        if (i == 2 && batch * seq > LIMIT && has(argc, argv, "crash"))
            raise(SIGSEGV);
        if (i == 2 && batch * seq > LIMIT && has(argc, argv, "hang"))
            hang();
        if (has(argc, argv, "slow"))
            usleep(10000);
        step(batch, seq, has(argc, argv, "switch"), has(argc, argv, "list"));
    }
    printf("%zu\n", most);
    if (has(argc, argv, "leave") && fork() == 0)
        for (;;)
            pause();
    return 0;
}
