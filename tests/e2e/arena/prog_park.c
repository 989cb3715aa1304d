// link: cuda
/*
 * prog_park.c STEPS [how...] - steps like a training's: activations are made in forward and freed in
 * backward, in which gradients are made that live until the next step; optimizer states, told as PyTorch
 * would tell them, are used in the optimizer alone.  Every byte of all is looked at.  Says how much of the
 * device it held at the most, in its last steps.
 *
 * In each third step, or (late, one) in the eighth alone:
 *      unforeseen   forward reads a state
 *      late         likewise
 *      unknown      forward runs a kernel that finds addresses in memory
 *      reaching     likewise, in each step from the eighth on
 *      longer       in these, forward takes a multiple of the time
 *      one          one state is freed while forward runs, and made anew; the states share chunks
 *      freed        the states are freed while forward runs, and made anew
 *      suspends     the program suspends itself in forward
 *      born         (in every step) nothing of this; the first optimizer makes the states
 *      stored       (from the second on) behind forward a kernel finds two states, later four, by
 *                   addresses in device memory, which the road STORES (stored.h) put there
 *      kept         (in every step) nothing of this; the addresses of all states were put there before
 *      outgrows     (in the eighth) backward takes all of the device: no state can come back to the
 *                   optimizer before that is freed
 *
 * prog_park.c hold - works as a line each on its standard input says: "state" looks at states, "other" at
 * memory that is none, by kernels and copies; "drop" frees a state.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "prog.h"
#include "stored.h"
#include "vramscope.h"

#include "trace/roles.h"

enum { STATES = 12, ACTIVATIONS = 24, GRADIENTS = 6, STATE = 8, ACTIVATION = 6, GRADIENT = 4 /* MiB */ };

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry simcuda_nothing_one(.param .u64 a) { ret; }\n"
                          ".visible .entry simcuda_nothing_ncclDevKernel(.param .u64 work) { ret; }\n";

static CUfunction one, reaching;
static CUstream stream;
static struct block {
    CUdeviceptr at;
    size_t bytes;
    uint32_t value;
} state[STATES], activation[ACTIVATIONS], gradient[GRADIENTS];
static uint32_t *words;
static size_t least_left = SIZE_MAX;
static char why[512];
static size_t shave; /* bytes that a state has less */

static void launch(CUfunction f, CUdeviceptr at)
{
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at}, NULL));
}

static void fill(struct block *b, uint32_t value)
{
    b->value = value;
    launch(one, b->at);
    OK(cuMemsetD32Async(b->at, value, b->bytes / 4, stream));
}

static void look(const struct block *b)
{
    launch(one, b->at);
    OK(cuMemcpyDtoHAsync(words, b->at, b->bytes, stream));
    OK(cuStreamSynchronize(stream));
    for (size_t i = 0; i < b->bytes / 4; i++)
        CHECK(words[i] == b->value);
}

static void make(struct block *b, size_t mib, uint32_t value)
{
    size_t left, total;
    b->bytes = mib * MIB - (mib == STATE ? shave : 0);
    OK(cuMemAllocAsync(&b->at, b->bytes, stream));
    OK(cuMemGetInfo(&left, &total));
    least_left = left < least_left ? left : least_left;
    fill(b, value);
}

static void drop(struct block *b)
{
    OK(cuMemFreeAsync(b->at, stream));
    b->at = 0;
}

static void tell_states(void)
{
    int (*tell)(const uint64_t *, unsigned, unsigned) =
        (int (*)(const uint64_t *, unsigned, unsigned))(uintptr_t)dlsym(RTLD_DEFAULT, "vramscope_auto_roles");
    uint64_t addresses[STATES];
    for (int i = 0; i < STATES; i++)
        addresses[i] = state[i].at;
    CHECK(!tell || tell(addresses, STATES, VS_ROLE_STATE) == 1);
}

static void renew_states(int step)
{
    for (int i = 0; i < STATES; i++)
        drop(&state[i]);
    for (int i = 0; i < STATES; i++)
        make(&state[i], STATE, (uint32_t)(1000 * step + i));
}

static CUdeviceptr table;
static const struct block *const in_table[] = {&state[2], &state[5], &state[7], &state[9]};

/* The Ith of these, from now on. */
static void store_state(int i)
{
    store(getenv("STORES"), table + (size_t)i * sizeof table, &in_table[i]->at, 1, stream);
}

static void reach_states(int count)
{
    for (int i = 0; i < count; i++) {
        const uint32_t *found = reach(one, table, (size_t)i, stream);
        for (size_t k = 0; k < in_table[i]->bytes / 4; k++)
            CHECK(found[k] == in_table[i]->value);
    }
}

static void forward(int step, const char *how)
{
    vramscope_range_push("forward");
    for (int i = 0; i < ACTIVATIONS; i++) {
        make(&activation[i], ACTIVATION, (uint32_t)(step * 100 + i));
        if (i == ACTIVATIONS / 2 && how) {
            if (!strcmp(how, "unforeseen") || !strcmp(how, "late"))
                look(&state[3]);
            else if (!strcmp(how, "unknown") || !strcmp(how, "reaching"))
                launch(reaching, activation[0].at);
            else if (!strcmp(how, "longer"))
                for (int n = 0; n < 100; n++)
                    OK(cuMemcpyDtoDAsync(activation[0].at, activation[0].at, ACTIVATION * MIB, stream));
            else if (!strcmp(how, "one")) {
                drop(&state[4]);
                make(&state[4], STATE, (uint32_t)(7000 + step));
            } else if (!strcmp(how, "freed"))
                renew_states(step);
            else if (!strcmp(how, "suspends"))
                CHECK(vramscope_suspend(why, sizeof why) == 0);
        }
    }
    vramscope_range_pop();
}

static void backward(int step)
{
    vramscope_range_push("backward");
    for (int i = ACTIVATIONS; i-- > 0;) {
        look(&activation[i]);
        if (i % (ACTIVATIONS / GRADIENTS) == 0)
            make(&gradient[i / (ACTIVATIONS / GRADIENTS)], GRADIENT, (uint32_t)(step * 10 + i));
        drop(&activation[i]);
    }
    vramscope_range_pop();
}

/* Until no more is to be had. */
static int take_all(CUdeviceptr *taken, int most)
{
    int n = 0;
    while (n < most && cuMemAllocAsync(&taken[n], 2 * MIB, stream) == CUDA_SUCCESS)
        n++;
    return n;
}

static void outgrow(void)
{
    static CUdeviceptr taken[4096];
    CUresult status = CUDA_SUCCESS;
    vramscope_range_push("backward");
    int n = take_all(taken, 4096);
    launch(one, activation[0].at);
    vramscope_range_pop();
    vramscope_range_push("optimizer");
    for (int i = 0; i < STATES && status == CUDA_SUCCESS; i++)
        status = cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&state[i].at}, NULL);
    IS(status, CUDA_ERROR_OUT_OF_MEMORY);
    while (n > 0)
        OK(cuMemFreeAsync(taken[--n], stream));
    vramscope_range_pop();
}

static void optimizer(int step)
{
    vramscope_range_push("optimizer");
    for (int i = 0; i < STATES; i++) {
        if (!state[i].at)
            make(&state[i], STATE, (uint32_t)i);
        look(&gradient[i % GRADIENTS]);
        look(&state[i]);
        fill(&state[i], (uint32_t)(step * 1000 + 500 + i));
    }
    vramscope_range_pop();
}

static void hold(void)
{
    char line[64];
    make(&activation[0], ACTIVATION, 7);
    tell_states();
    puts("ready");
    for (fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) {
        printf("begins %s", line);
        fflush(stdout);
        if (line[0] == 'd')
            drop(&state[STATES - 1]);
        for (int i = 0; i < STATES - 1 && line[0] == 's'; i++)
            look(&state[i]);
        look(&activation[0]);
        fill(&activation[0], activation[0].value + 1);
        fputs(line, stdout);
    }
}

int main(int argc, char **argv)
{
    CUmodule module;
    size_t total, left;
    CHECK(argc >= 2);
    int steps = atoi(argv[1]);
    shave = argc > 2 && !strcmp(argv[2], "one") ? 640 << 10 : 0;
    begin();
    OK(cuMemGetInfo(&left, &total));
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&one, module, "simcuda_nothing_one"));
    OK(cuModuleGetFunction(&reaching, module, "simcuda_nothing_ncclDevKernel"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    words = malloc((size_t)STATE * MIB);
    bool born = argc > 2 && !strcmp(argv[2], "born");
    for (int i = 0; i < STATES && !born; i++)
        make(&state[i], STATE, (uint32_t)i);
    if (!strcmp(argv[1], "hold"))
        hold();
    bool stores = argc > 2 && !strcmp(argv[2], "stored");
    OK(cuMemAllocAsync(&table, 4096, stream));
    if (stores)
        store_state(0);
    vramscope_record_start();
    for (int i = 0; i < STATES && argc > 2 && !strcmp(argv[2], "kept"); i++)
        store("copy", table + 8 * (size_t)i, &state[i].at, 1, stream);
    for (int step = 1; step <= steps; step++) {
        if (step == steps - 1)
            least_left = SIZE_MAX;
        bool once =
            argc > 2 && (!strcmp(argv[2], "late") || !strcmp(argv[2], "one") || !strcmp(argv[2], "outgrows"));
        bool late = argc > 2 && (!strcmp(argv[2], "reaching") || !strcmp(argv[2], "longer"));
        bool now = argc > 2 && !born &&
                   (once     ? step == 8
                    : late   ? step >= 8
                    : stores ? step > 1
                             : step % 3 == 0);
        forward(step, now ? argv[2] : NULL);
        if (now && stores)
            reach_states(step <= 8 ? 2 : 4);
        backward(step);
        if (stores && step == 8)
            store_state(2);
        if (now && !strcmp(argv[2], "outgrows"))
            outgrow();
        optimizer(step);
        if (stores && step == 8)
            store_state(3);
        if (!born)
            look(&state[1]); /* between two phases */
        for (int i = 0; i < GRADIENTS; i++)
            drop(&gradient[i]);
        tell_states();
        if (stores && step == 1)
            store_state(1);
        vramscope_step();
    }
    if (born)
        vramscope_range_push("optimizer");
    for (int i = 0; i < STATES; i++)
        if (state[i].at)
            look(&state[i]);
    if (born)
        vramscope_range_pop();
    fprintf(stderr, "held %llu MiB\n", (unsigned long long)((left - least_left) / MIB));
    puts("done");
    return 0;
}
