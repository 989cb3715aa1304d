/*
 * aliases.c - what the arena rests on: what one kernel writes through one mapping of physical memory the
 * next one in the stream reads through another.
 *
 * Programmatic dependent launch loosens the order: there griddepcontrol.wait is what waits for the
 * predecessor's writes. A writer lets the reader begin, spins, and writes; the reader counts words that are
 * not the writer's, through the same mapping or the other. A reader that does not wait must see wrong words,
 * else nothing overlapped.
 */
#include "kit.h"

#define PIECES 8u /* 16 MiB: what the multiprocessors' first caches hold together */
#define GRAN   (2 * MIB)
#define WORDS  ((unsigned)(PIECES * GRAN / 4))
#define ROUNDS 200u
#define SPIN   20000u /* ns */
#define BLOCK  256u
#define GRID   264u /* two a multiprocessor: writer and reader fit side by side */

static const char code[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry writer(.param .u64 p, .param .u32 word, .param .u32 spin, .param .u32 words)\n"
    "{\n"
    " .reg .pred %q; .reg .b32 %i, %n, %w, %e, %t; .reg .b64 %a, %s, %x, %y, %k;\n"
    " griddepcontrol.launch_dependents;\n"
    " ld.param.u64 %a, [p]; ld.param.u32 %w, [word]; ld.param.u32 %t, [spin]; ld.param.u32 %e, [words];\n"
    " cvta.to.global.u64 %a, %a;\n"
    " cvt.u64.u32 %x, %t;\n"
    " mov.u64 %s, %globaltimer;\n"
    "SPIN:\n"
    " mov.u64 %y, %globaltimer;\n"
    " sub.u64 %y, %y, %s;\n"
    " setp.lt.u64 %q, %y, %x;\n"
    " @%q bra SPIN;\n"
    " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;\n"
    " mad.lo.u32 %i, %i, %n, %t;\n"
    " mov.u32 %t, %nctaid.x;\n"
    " mul.lo.u32 %n, %n, %t;\n"
    "EACH:\n"
    " setp.ge.u32 %q, %i, %e;\n"
    " @%q bra END;\n"
    " mul.wide.u32 %k, %i, 4;\n"
    " add.u64 %k, %a, %k;\n"
    " st.global.u32 [%k], %w;\n"
    " add.u32 %i, %i, %n;\n"
    " bra EACH;\n"
    "END:\n"
    " ret;\n"
    "}\n"
    /* how: 1 = reads before, 2 = waits; bad[0]: wrong words, bad[1]: those before it waited */
    ".visible .entry reader(.param .u64 p, .param .u32 word, .param .u32 how, .param .u32 words, .param .u64 "
    "bad)\n"
    "{\n"
    " .reg .pred %q, %f; .reg .b32 %i, %n, %w, %e, %t, %h, %v, %c, %b, %m; .reg .b64 %a, %k, %o;\n"
    " ld.param.u64 %a, [p]; ld.param.u32 %w, [word]; ld.param.u32 %h, [how]; ld.param.u32 %e, [words];\n"
    " ld.param.u64 %o, [bad];\n"
    " cvta.to.global.u64 %a, %a;\n"
    " cvta.to.global.u64 %o, %o;\n"
    " mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;\n"
    " mad.lo.u32 %b, %i, %n, %t;\n"
    " mov.u32 %t, %nctaid.x;\n"
    " mul.lo.u32 %n, %n, %t;\n"
    " and.b32 %m, %h, 1;\n"
    " setp.eq.u32 %f, %m, 0;\n"
    " @%f bra WAIT;\n"
    " mov.u32 %c, 0; mov.u32 %i, %b;\n"
    "BEFORE:\n"
    " setp.ge.u32 %q, %i, %e;\n"
    " @%q bra TOLD;\n"
    " mul.wide.u32 %k, %i, 4;\n"
    " add.u64 %k, %a, %k;\n"
    " ld.global.ca.u32 %v, [%k];\n"
    " setp.ne.u32 %q, %v, %w;\n"
    " @%q add.u32 %c, %c, 1;\n"
    " add.u32 %i, %i, %n;\n"
    " bra BEFORE;\n"
    "TOLD:\n"
    " red.global.add.u32 [%o+4], %c;\n"
    "WAIT:\n"
    " and.b32 %m, %h, 2;\n"
    " setp.eq.u32 %f, %m, 0;\n"
    " @%f bra READ;\n"
    " griddepcontrol.wait;\n"
    "READ:\n"
    " mov.u32 %c, 0; mov.u32 %i, %b;\n"
    "AFTER:\n"
    " setp.ge.u32 %q, %i, %e;\n"
    " @%q bra DONE;\n"
    " mul.wide.u32 %k, %i, 4;\n"
    " add.u64 %k, %a, %k;\n"
    " ld.global.ca.u32 %v, [%k];\n"
    " setp.ne.u32 %q, %v, %w;\n"
    " @%q add.u32 %c, %c, 1;\n"
    " add.u32 %i, %i, %n;\n"
    " bra AFTER;\n"
    "DONE:\n"
    " red.global.add.u32 [%o], %c;\n"
    " ret;\n"
    "}\n";

static CUfunction writer, reader;
static CUstream stream;
static CUdeviceptr mapping[2], bad;

static void allow(CUdeviceptr p)
{
    CUmemAccessDesc desc = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess, p, PIECES * GRAN, &desc, 1);
}

/* The same granules at two addresses, in two orders, but the words are compared by place: in pairs. */
static void map_twice(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    OK(cuMemAddressReserve, &mapping[0], PIECES * GRAN, 0, 0, 0);
    OK(cuMemAddressReserve, &mapping[1], PIECES * GRAN, 0, 0, 0);
    for (unsigned i = 0; i < PIECES; i++) {
        OK(cuMemCreate, &handle, GRAN, &prop, 0);
        OK(cuMemMap, mapping[0] + i * GRAN, GRAN, 0, handle, 0);
        OK(cuMemMap, mapping[1] + (PIECES - 1 - i) * GRAN, GRAN, 0, handle, 0);
        OK(cuMemRelease, handle);
    }
    allow(mapping[0]);
    allow(mapping[1]);
}

static void launch(CUfunction f, bool early, void **arguments)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = GRID,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = BLOCK,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = early};
    OK(cuLaunchKernelEx, &config, f, arguments, NULL);
}

static void run(const char *what, unsigned to, bool early, unsigned how, bool must_be_right)
{
    unsigned words = WORDS, spin = SPIN, count[2] = {0, 0};
    char line[192];
    OK(cuMemsetD32, bad, 0, 2);
    double t = now_us();
    for (unsigned i = 1; i <= ROUNDS; i++) {
        unsigned word = to * 1000000 + how * 10000 + early * 100000 + i;
        void *w[] = {&mapping[0], &word, &spin, &words};
        void *r[] = {&mapping[to], &word, &how, &words, &bad};
        launch(writer, false, w); /* after all that came before */
        launch(reader, early, r);
    }
    OK(cuStreamSynchronize, stream);
    t = now_us() - t;
    OK(cuMemcpyDtoH, count, bad, sizeof count);
    snprintf(line, sizeof line, "%-52s wrong %10u, before the wait %10u, of %u, %6.1f us a pair", what,
             count[0], count[1], WORDS * ROUNDS, t / ROUNDS);
    if (must_be_right)
        verdict(count[0] == 0, line);
    else
        printf("~ %s\n", line);
}

int main(void)
{
    CUmodule module;
    begin();
    CUresult loaded = CU(cuModuleLoadData, &module, code);
    if (loaded != CUDA_SUCCESS || CU(cuModuleGetFunction, &writer, module, "writer") != CUDA_SUCCESS) {
        printf("SKIP: the kernels need compute capability 9.0 (error %d)\n", loaded);
        return 77;
    }
    OK(cuModuleGetFunction, &reader, module, "reader");
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    OK(cuMemAlloc, &bad, 8);
    map_twice();
    run("one mapping, usual launch", 0, false, 2, true);
    run("two mappings, usual launch", 1, false, 2, true);
    run("one mapping, early launch, waits", 0, true, 2, true);
    run("two mappings, early launch, waits", 1, true, 2, true);
    run("one mapping, early launch, reads, waits, reads", 0, true, 3, false);
    run("two mappings, early launch, reads, waits, reads", 1, true, 3, false);
    run("one mapping, early launch, does not wait", 0, true, 0, false);
    run("two mappings, early launch, does not wait", 1, true, 0, false);
    puts("done");
    return 0;
}
