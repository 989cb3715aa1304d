/*
 * bench_tensors.c - ns that a tensor's note takes, and that a block's report takes to turn one into its id in
 * the journal, over 300 different tensors, beside a stand-in for PyTorch's function that does nothing.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "framework/tensors.h"
#include "trace/journal/journal.h"

enum { TIMES = 20000000, DIFFERENT = 300, CPU = 0x10001, CUDA = 0x10002, FLOAT = 6 };

struct sizes {
    const int64_t *at;
    size_t n;
};
typedef void *generic_fn(void *to, struct sizes size, void *allocator, uint64_t keys, uint64_t type,
                         uint64_t format);
generic_fn ours __asm__(VS_GENERIC);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_of(generic_fn *volatile call, size_t dims, uint64_t keys)
{
    const int64_t size[16] = {4, 2048, 8192, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    char tensor[8];
    double begin = now();
    for (int i = 0; i < TIMES; i++)
        call(tensor, (struct sizes){size, dims}, NULL, keys, FLOAT, 0);
    return (now() - begin) / TIMES;
}

static double time_of_reports(struct vs_journal *j)
{
    int64_t size[3] = {4, 0, 64};
    uint32_t sink = 0;
    double begin = now();
    for (int i = 0; i < TIMES / 4; i++) {
        size[1] = 1 + i * 7 % DIFFERENT;
        ours(&sink, (struct sizes){size, 3}, NULL, CUDA, FLOAT, 0);
        vs_tensor_note.stack = (uintptr_t)__builtin_frame_address(0) + 8; /* as from inside of the call */
        sink += vs_tensor_take(j, (uint64_t)size[1] * 1024);
    }
    double ns = (now() - begin) / (TIMES / 4);
    return sink ? ns : 0;
}

int main(int argc, char **argv)
{
    char path[4096];
    const char *slash = strrchr(argv[0], '/');
    snprintf(path, sizeof path, "%.*s/fakes/libtorch_cpu.so", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    generic_fn *alone = library ? (generic_fn *)dlsym(library, VS_GENERIC) : NULL;
    struct vs_journal_config c = {.ring_slots = 1024, .database = "/nowhere.db"};
    struct vs_journal *j = NULL;
    snprintf(path, sizeof path, "/tmp/bench-tensors-%d.vsj", (int)getpid());
    if (!alone || vs_journal_create(&j, path, &c) < 0) {
        fprintf(stderr, "bench_tensors: no stand-in or no journal\n");
        return 1;
    }
    unlink(path);
    double none = time_of(alone, 3, CUDA);
    printf("the call alone %36.1f ns\n", none);
    printf("through us, a CPU tensor: more by %17.1f ns\n", time_of(ours, 3, CPU) - none);
    for (size_t dims = 1; dims <= 16; dims = dims == 1 ? 3 : dims == 3 ? 5 : dims + 11)
        printf("through us, a CUDA tensor of %2zu dimensions: more by %2.1f ns\n", dims,
               time_of(ours, dims, CUDA) - none);
    double both = time_of_reports(j);
    printf("its note and its id, of %d different tensors %6.1f ns\n", DIFFERENT, both);
    return 0;
}
