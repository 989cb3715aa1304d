// link: cuda
/*
 * prog_park_pays.c STEPS middle|end [how] - steps of a training with 12 optimizer states of 4 MiB.  Memory is
 * fullest in the middle, when forward has made all activations, or at the end of backward: then they are
 * freed there, behind a large gradient.  Says how long each step takes the device.
 *
 *      grows   memory grows in each step
 *      warm    up to the eighth step forward takes three times as long, and memory grows
 *      turns   up to the eighth step memory grows, and is fullest at the end of backward
 *      full    from the eighth step on the device has no memory left
 *      many    40 states
 *
 * Between their launches forward and backward make and free small blocks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "prog.h"
#include "vramscope.h"

#include "trace/roles.h"

enum { STATES = 12, MANY = 40, LAYERS = 16, SMALL = 24, EARLY = 8, SIZE = 4 /* MiB */ };

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry simcuda_nothing_one(.param .u64 a) { ret; }\n";

static CUfunction one;
static CUstream stream;
static int states = STATES;
static CUdeviceptr state[MANY], activation[LAYERS], gradient;

static void launch(CUdeviceptr at)
{
    OK(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at}, NULL));
}

static CUdeviceptr make(size_t mib)
{
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, mib * MIB, stream));
    return at;
}

static void small_blocks(void)
{
    CUdeviceptr at;
    for (int i = 0; i < SMALL; i++) {
        OK(cuMemAllocAsync(&at, 512, stream));
        OK(cuMemFreeAsync(at, stream));
    }
}

static void look(CUdeviceptr at, uint32_t value)
{
    static uint32_t words[SIZE * MIB / 4];
    OK(cuMemcpyDtoHAsync(words, at, sizeof words, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < sizeof words / 4; i++)
        CHECK(words[i] == value);
}

static void forward(int launches)
{
    vramscope_range_push("forward");
    for (int i = 0; i < LAYERS; i++) {
        activation[i] = make(SIZE);
        for (int n = 0; n < launches; n++)
            launch(activation[i]);
        small_blocks();
    }
    vramscope_range_pop();
}

static void backward(bool end)
{
    vramscope_range_push("backward");
    for (int i = LAYERS; i-- > 0;) {
        launch(activation[i]);
        if (!end)
            OK(cuMemFreeAsync(activation[i], stream));
        small_blocks();
    }
    gradient = make(2 * SIZE);
    launch(gradient);
    for (int i = 0; i < LAYERS && end; i++)
        OK(cuMemFreeAsync(activation[i], stream));
    vramscope_range_pop();
}

static void optimizer(int step)
{
    vramscope_range_push("optimizer");
    for (int i = 0; i < states; i++) {
        launch(state[i]);
        look(state[i], (uint32_t)(step * 100 + i));
        OK(cuMemsetD32Async(state[i], (uint32_t)(step * 100 + 100 + i), SIZE * MIB / 4, stream));
    }
    vramscope_range_pop();
    OK(cuMemFreeAsync(gradient, stream));
}

static void tell_states(void)
{
    int (*tell)(const uint64_t *, unsigned, unsigned) =
        (int (*)(const uint64_t *, unsigned, unsigned))(uintptr_t)dlsym(RTLD_DEFAULT, "vramscope_auto_roles");
    uint64_t addresses[MANY];
    for (int i = 0; i < states; i++)
        addresses[i] = state[i];
    CHECK(!tell || tell(addresses, (unsigned)states, VS_ROLE_STATE) == 1);
}

/* But some, which the arena keeps. */
static void take_all(void)
{
    static CUdeviceptr taken[1024];
    int n = 0;
    while (n < 1024 && cuMemAllocAsync(&taken[n], 2 * MIB, stream) == CUDA_SUCCESS)
        n++;
    for (int i = 0; i < 4 * SIZE && n > 0; i++)
        OK(cuMemFreeAsync(taken[--n], stream));
}

static void run(int step, bool end, const char *how)
{
    bool early = step <= EARLY, warm = early && !strcmp(how, "warm"), turns = early && !strcmp(how, "turns");
    CUevent begun, ended;
    float ms;
    OK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&ended, CU_EVENT_DEFAULT));
    OK(cuEventRecord(begun, stream));
    forward(warm ? 5 : 1);
    if (warm || turns || !strcmp(how, "grows"))
        make(5 * SIZE);
    if (step == EARLY && !strcmp(how, "full"))
        take_all();
    backward(end || turns);
    optimizer(step);
    OK(cuEventRecord(ended, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuEventElapsedTime(&ms, begun, ended));
    fprintf(stderr, "step %d: %.0f us\n", step, (double)ms * 1e3);
    tell_states();
    vramscope_step();
}

int main(int argc, char **argv)
{
    CUmodule module;
    CHECK(argc >= 3);
    int steps = atoi(argv[1]);
    states = argc > 3 && !strcmp(argv[3], "many") ? MANY : STATES;
    begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&one, module, "simcuda_nothing_one"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < states; i++) {
        state[i] = make(SIZE);
        OK(cuMemsetD32Async(state[i], (uint32_t)(100 + i), SIZE * MIB / 4, stream));
    }
    for (int step = 1; step <= steps; step++)
        run(step, !strcmp(argv[2], "end"), argc > 3 ? argv[3] : "");
    puts("done");
    return 0;
}
