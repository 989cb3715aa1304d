/*
 * arena_words.h - device memory filled with words that say whose they are, and checked by the device.
 * Kernels are in PTX, so that they run on any GPU. What a check finds goes to a variable of the module, not
 * to memory of the allocator under test. On the simulated driver the host does the same through copies.
 */
#ifndef TESTS_GPU_ARENA_WORDS_H
#define TESTS_GPU_ARENA_WORDS_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (1ull << 20)

/* Memory is looked at that was freed, on purpose: that it is gone is as good as another's words in it. */
static bool words_planted;

static inline void words_must(CUresult status, const char *file, int line, const char *call)
{
    if (status == CUDA_SUCCESS)
        return;
    bool found = words_planted && status == CUDA_ERROR_ILLEGAL_ADDRESS;
    printf(found ? "%s:%d: %s gave %d: what was freed is gone, and was found to be used\n"
                 : "FAIL  %s:%d: %s gave %d\n",
           file, line, call, (int)status);
    fflush(stdout);
    _exit(found ? 1 : 3);
}

#define OK(call) words_must(call, __FILE__, __LINE__, #call)

/* report: wrong words; then of the first of them block, index, wanted, got */
static const char words_ptx[] = /* clang-format off */
    ".version 6.4\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .global .align 16 .u32 report[8];\n"
    ".visible .entry fill(.param .u64 p, .param .u64 n, .param .u32 seed)\n"
    "{\n"
    "  .reg .pred %q; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
    "  ld.param.u64 %d0, [p]; ld.param.u64 %d1, [n]; ld.param.u32 %r0, [seed];\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;\n"
    "  mul.wide.u32 %d2, %r1, %r2; cvt.u64.u32 %d3, %r3; add.u64 %d2, %d2, %d3; mul.wide.u32 %d4, %r4, %r2;\n"
    "loop:\n"
    "  setp.ge.u64 %q, %d2, %d1; @%q bra done;\n"
    "  cvt.u32.u64 %r5, %d2; mul.lo.u32 %r5, %r5, 0x9E3779B1; add.u32 %r5, %r5, %r0;\n"
    "  shr.u32 %r6, %r5, 15; xor.b32 %r5, %r5, %r6;\n"
    "  shl.b64 %d5, %d2, 2; add.u64 %d5, %d5, %d0; st.global.u32 [%d5], %r5;\n"
    "  add.u64 %d2, %d2, %d4; bra loop;\n"
    "done: ret;\n"
    "}\n"
    ".visible .entry check(.param .u64 p, .param .u64 n, .param .u32 seed, .param .u64 first, .param .u32 block)\n"
    "{\n"
    "  .reg .pred %q; .reg .b32 %r<10>; .reg .b64 %d<9>;\n"
    "  ld.param.u64 %d0, [p]; ld.param.u64 %d1, [n]; ld.param.u32 %r0, [seed]; ld.param.u64 %d6, [first];\n"
    "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;\n"
    "  mul.wide.u32 %d2, %r1, %r2; cvt.u64.u32 %d3, %r3; add.u64 %d2, %d2, %d3; mul.wide.u32 %d4, %r4, %r2;\n"
    "loop:\n"
    "  setp.ge.u64 %q, %d2, %d1; @%q bra done;\n"
    "  add.u64 %d7, %d2, %d6; cvt.u32.u64 %r5, %d7; mul.lo.u32 %r5, %r5, 0x9E3779B1; add.u32 %r5, %r5, %r0;\n"
    "  shr.u32 %r6, %r5, 15; xor.b32 %r5, %r5, %r6;\n"
    "  shl.b64 %d5, %d2, 2; add.u64 %d5, %d5, %d0; ld.global.u32 %r7, [%d5];\n"
    "  add.u64 %d2, %d2, %d4;\n"
    "  setp.eq.u32 %q, %r7, %r5; @%q bra loop;\n"
    "  atom.global.add.u32 %r8, [report], 1;\n"
    "  setp.ne.u32 %q, %r8, 0; @%q bra loop;\n"
    "  ld.param.u32 %r9, [block]; st.global.u32 [report+4], %r9; cvt.u32.u64 %r9, %d7; st.global.u32 [report+8], %r9;\n"
    "  st.global.u32 [report+12], %r5; st.global.u32 [report+16], %r7;\n"
    "  bra loop;\n"
    "done: ret;\n"
    "}\n"
    ".visible .entry delay(.param .u64 ns)\n"
    "{\n"
    "  .reg .pred %q; .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [ns]; mov.u64 %d1, %globaltimer;\n"
    "loop:\n"
    "  mov.u64 %d2, %globaltimer; sub.u64 %d3, %d2, %d1; setp.lt.u64 %q, %d3, %d0; @%q bra loop;\n"
    "  ret;\n"
    "}\n";
/* clang-format on */

struct words {
    bool on_host; /* the driver runs no kernels */
    CUfunction fill, check, delay;
    CUdeviceptr report;
    uint32_t wrong[5]; /* on the host: the same */
};

static struct words words;

static void words_begin(void)
{
    CUmodule module;
    size_t bytes;
    OK(cuModuleLoadData(&module, words_ptx));
    CUresult status = cuModuleGetFunction(&words.fill, module, "fill");
    words.on_host = status == CUDA_ERROR_NOT_SUPPORTED;
    if (words.on_host)
        return;
    OK(status);
    OK(cuModuleGetFunction(&words.check, module, "check"));
    OK(cuModuleGetFunction(&words.delay, module, "delay"));
    OK(cuModuleGetGlobal(&words.report, &bytes, module, "report"));
    OK(cuMemsetD32(words.report, 0, bytes / 4));
}

/* What all checks found, once the device is done: 0 where every word was right. */
static uint32_t words_wrong(void)
{
    if (!words.on_host)
        OK(cuMemcpyDtoH(words.wrong, words.report, sizeof words.wrong));
    if (words.wrong[0])
        printf("block %u: word %u is %08x, not %08x; %u wrong words\n", words.wrong[1], words.wrong[2],
               words.wrong[4], words.wrong[3], words.wrong[0]);
    return words.wrong[0];
}

static uint32_t word_of(uint64_t index, uint32_t seed)
{
    uint32_t x = (uint32_t)index * 0x9E3779B1u + seed;
    return x ^ x >> 15;
}

static void launch(CUfunction kernel, uint64_t n, CUstream stream, void **parameters)
{
    uint64_t groups = (n + 255) / 256;
    OK(cuLaunchKernel(kernel,
                      groups < 1      ? 1
                      : groups > 1024 ? 1024
                                      : (unsigned)groups,
                      1, 1, 256, 1, 1, 0, stream, parameters, NULL));
}

static void fill_on_host(CUdeviceptr p, uint64_t n, uint32_t seed, CUstream stream)
{
    uint32_t *word = malloc(n * 4);
    for (uint64_t i = 0; i < n; i++)
        word[i] = word_of(i, seed);
    OK(cuMemcpyHtoDAsync(p, word, n * 4, stream));
    OK(cuStreamSynchronize(stream));
    free(word);
}

static void words_fill(CUdeviceptr p, uint64_t n, uint32_t seed, CUstream stream)
{
    if (words.on_host)
        fill_on_host(p, n, seed, stream);
    else
        launch(words.fill, n, stream, (void *[]){&p, &n, &seed});
}

static void note_wrong(uint32_t block, uint64_t index, uint32_t wanted, uint32_t got)
{
    if (__atomic_fetch_add(&words.wrong[0], 1, __ATOMIC_RELAXED) != 0)
        return;
    words.wrong[1] = block;
    words.wrong[2] = (uint32_t)index;
    words.wrong[3] = wanted;
    words.wrong[4] = got;
}

static void check_on_host(CUdeviceptr p, uint64_t n, uint32_t seed, uint32_t block, CUstream stream)
{
    uint32_t *word = malloc(n * 4);
    OK(cuMemcpyDtoHAsync(word, p, n * 4, stream));
    OK(cuStreamSynchronize(stream));
    for (uint64_t i = 0; i < n; i++)
        if (word[i] != word_of(i, seed))
            note_wrong(block, i, word_of(i, seed), word[i]);
    free(word);
}

static void words_check(CUdeviceptr p, uint64_t n, uint32_t seed, uint32_t block, CUstream stream)
{
    uint64_t first = 0;
    if (words.on_host)
        check_on_host(p, n, seed, block, stream);
    else
        launch(words.check, n, stream, (void *[]){&p, &n, &seed, &first, &block});
}

/* STREAM does nothing for so long. */
static void words_delay(uint64_t ns, CUstream stream)
{
    if (!words.on_host)
        OK(cuLaunchKernel(words.delay, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&ns}, NULL));
}

#endif
