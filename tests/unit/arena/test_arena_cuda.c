/*
 * test_arena_cuda.c - the arena over the simulated driver: real mappings, real streams, real words.
 *
 * A block is filled by its stream when it is handed out, and its words are read back by its stream just
 * before it is freed, all without waiting: a block that two own at once, a chunk mapped at a wrong place, or
 * memory that another stream gets too early shows as a wrong word.
 */
#include "unit/simcuda/simcuda_kit.h"

#include "arena/device/backing_cuda.h"

#define STREAMS 4
#define BLOCKS  48
#define WORDS   6 /* read back of each block */
#define ROUNDS  700

static struct vs_backing_cuda cuda;
static uint32_t capturing;
static struct vs_arena *arena;

static void open_arena(uint64_t capacity)
{
    struct vs_backing backing;
    struct vs_arena_config config = {.capacity = capacity, .record_bytes = 4 * MIB};
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&cuda.context, 0));
#define X(symbol, parameters) cuda.call.symbol = symbol;
    VS_ARENA_CALLS(X)
#undef X
    cuda.captures = &capturing;
    OK(vs_backing_cuda_init(&cuda, &backing));
    CHECK(vs_arena_create(&arena, &backing, &config) == 0);
}

static void close_arena(void)
{
    size_t free_bytes, total;
    vs_arena_destroy(arena);
    vs_backing_cuda_end(&cuda);
    OK(cuCtxSetCurrent(cuda.context));
    OK(cuMemGetInfo_v2(&free_bytes, &total));
}

static uint64_t used_bytes(void)
{
    size_t free_bytes, total;
    OK(cuMemGetInfo_v2(&free_bytes, &total));
    return total - free_bytes;
}

static uint64_t random_state = 1;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* ---- words ---- */

static struct block {
    uint64_t address, size;
    uint32_t stream, queue, id;
} block[BLOCKS];
static CUstream stream[STREAMS];
static uint32_t queue[STREAMS];
static uint32_t (*seen)[WORDS], *wanted; /* by free */
static uint32_t frees, ids;

static void take(struct block *b)
{
    uint32_t s = rnd(STREAMS);
    uint64_t size = rnd(3) ? 4 + rnd(5 * MIB) : 4 + rnd(300000);
    if (vs_arena_malloc(arena, queue[s], size, &b->address) != 0)
        return;
    *b = (struct block){b->address, size & ~3ull, s, queue[s], ++ids};
    OK(cuMemsetD32Async(b->address, b->id, b->size / 4, stream[s]));
}

static void give(struct block *b)
{
    for (int i = 0; i < WORDS; i++) {
        uint64_t at = i == 0 ? 0 : i == 1 ? b->size - 4 : (uint64_t)rnd((uint32_t)(b->size / 4)) * 4;
        OK(cuMemcpyDtoHAsync_v2(&seen[frees][i], b->address + at, 4, stream[b->stream]));
    }
    wanted[frees++] = b->id;
    CHECK(vs_arena_free(arena, b->address, b->queue, 0) == 0);
    b->size = 0;
}

static void no_word_is_ever_anothers(void)
{
    alarm(240); /* the thread sanitizer looks at every word */
    open_arena(512 * MIB);
    OK(cuCtxSetCurrent(cuda.context));
    for (int i = 0; i < STREAMS; i++) {
        OK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
        CHECK(vs_arena_open_queue(arena, (uint64_t)(uintptr_t)stream[i], 0, &queue[i]) == 0);
    }
    OK(cuMemHostAlloc((void **)&seen, ROUNDS * sizeof *seen, 0));
    wanted = calloc(ROUNDS, sizeof *wanted);
    for (int n = 0; n < ROUNDS; n++) {
        struct block *b = &block[rnd(BLOCKS)];
        if (b->size)
            give(b);
        else
            take(b);
    }
    OK(cuCtxSynchronize());
    for (uint32_t f = 0; f < frees; f++)
        for (int i = 0; i < WORDS; i++)
            CHECK(seen[f][i] == wanted[f]);
    struct vs_arena_stats s;
    vs_arena_stats(arena, &s);
    CHECK(frees > ROUNDS / 3 && s.aliased > 0 && s.stream_waits > 0);
    close_arena();
}

/* ---- the driver's alias mapping ---- */

static void all_memory_goes_back_to_the_device(void)
{
    uint64_t address[20];
    open_arena(512 * MIB);
    OK(cuCtxSetCurrent(cuda.context));
    uint64_t before = used_bytes();
    for (int i = 0; i < 20; i++)
        CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address[i]) == 0);
    CHECK(used_bytes() == before + 40 * MIB);
    for (int i = 0; i < 20; i += 2)
        CHECK(vs_arena_free(arena, address[i], VS_ARENA_ANY, 0) == 0);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 16 * MIB, &address[0]) == 0); /* an alias mapping */
    CHECK(used_bytes() == before + 40 * MIB);
    OK(cuMemsetD32_v2(address[0], 7, 4 * MIB)); /* one block, whatever lies behind it */
    CHECK(vs_arena_trim(arena, 0) == 0);
    CHECK(used_bytes() == before + 36 * MIB);
    vs_arena_destroy(arena);
    vs_backing_cuda_end(&cuda);
    CHECK(used_bytes() == before);
}

static void the_driver_refuses_and_the_caller_is_told(void)
{
    uint64_t address;
    open_arena(512 * MIB);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 100 * MIB, &address) == 0);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 600 * MIB, &address) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 300 * MIB, &address) == 0);
    close_arena();
}

static void an_error_of_the_driver_is_handed_on(void)
{
    uint64_t address;
    open_arena(512 * MIB);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address) == 0);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address) == 719);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address) == 0);
    close_arena();
}

static unsigned refused_in; /* calls */

static CUresult no_current(CUcontext *current)
{
    return --refused_in == 0 ? CUDA_ERROR_UNKNOWN : cuCtxGetCurrent(current);
}

static CUresult no_push(CUcontext context)
{
    return --refused_in == 0 ? CUDA_ERROR_UNKNOWN : cuCtxPushCurrent_v2(context);
}

/* At each of the calls of a trim that there are: it tells, or goes on; the next one leaves nothing behind. */
static unsigned refuse_each(uint64_t before)
{
    unsigned call = 1;
    for (bool met = true; met; call++) {
        uint64_t address[4];
        refused_in = 0;
        for (int i = 0; i < 4; i++)
            CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 3 * MIB, &address[i]) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(vs_arena_free(arena, address[i], VS_ARENA_ANY, 0) == 0);
        CHECK(used_bytes() > before);
        refused_in = call;
        vs_arena_trim(arena, 0);
        met = refused_in == 0 || refused_in > call; /* it counts on, below 0 */
        refused_in = 0;
        CHECK(vs_arena_trim(arena, 0) == 0);
        CHECK(used_bytes() == before);
    }
    return call;
}

static void no_context_loses_no_chunk(void)
{
    struct vs_arena_stats stats;
    CUcontext other;
    open_arena(512 * MIB);
    OK(cuCtxCreate(&other, NULL, 0, 0));
    uint64_t before = used_bytes();
    cuda.call.cuCtxGetCurrent = no_current;
    CHECK(refuse_each(before) > 6); /* to synchronize, to unmap, and to release each of several chunks */
    cuda.call.cuCtxGetCurrent = cuCtxGetCurrent;
    cuda.call.cuCtxPushCurrent_v2 = no_push;
    CHECK(refuse_each(before) > 6);
    cuda.call.cuCtxPushCurrent_v2 = cuCtxPushCurrent_v2;
    vs_arena_stats(arena, &stats);
    CHECK(stats.lost == 0);
    close_arena();
}

/* What network cards and other processes need of memory is asked for with every chunk. */
static void chunks_can_be_registered_and_exported(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    uint64_t address;
    open_arena(512 * MIB);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address) == 0);
    OK(cuMemRetainAllocationHandle(&handle, (void *)address));
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(prop.allocFlags.gpuDirectRDMACapable == 1);
    CHECK(prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(cuMemRelease(handle));
    close_arena();
}

static uint64_t far_access(uint64_t address, uint64_t size)
{
    CUmemLocation far = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    uint64_t reached = 0;
    for (uint64_t at = address; at < address + size; at += 2 * MIB) {
        unsigned long long flags = 0;
        OK(cuMemGetAccess(&flags, &far, at));
        reached += flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return reached;
}

/* Mappings that are there, and those to come: of chunks and of alias mappings. */
static void a_peer_reaches_every_mapping(void)
{
    uint64_t address[12], alias, late;
    open_arena(512 * MIB);
    for (int i = 0; i < 12; i++)
        CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address[i]) == 0);
    for (int i = 0; i < 12; i += 2)
        CHECK(vs_arena_free(arena, address[i], VS_ARENA_ANY, 0) == 0);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 6 * MIB, &alias) == 0);
    CHECK(far_access(address[1], 2 * MIB) == 0 && far_access(alias, 6 * MIB) == 0);
    CHECK(vs_arena_set_peers(arena, 1u << 1) == 0);
    for (int i = 1; i < 12; i += 2)
        CHECK(far_access(address[i], 2 * MIB) == 1);
    CHECK(far_access(alias, 6 * MIB) == 3);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 40 * MIB, &late) == 0);
    CHECK(far_access(late, 40 * MIB) == 20);
    CHECK(vs_arena_free(arena, alias, VS_ARENA_ANY, 0) == 0);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 12 * MIB, &alias) == 0); /* another alias mapping */
    CHECK(far_access(alias, 12 * MIB) == 6);
    close_arena();
}

/* A thread that has no context, or another one, is left as it was. */
static void the_threads_context_stays(void)
{
    uint64_t address;
    CUcontext current = NULL;
    open_arena(512 * MIB);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address) == 0);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    close_arena();
}

/* While a stream is captured no event is recorded in it, and nobody waits for the device. */
static void a_capture_is_not_spoilt(void)
{
    uint64_t first, second;
    uint32_t one, two;
    CUstream a, b;
    CUgraph graph;
    open_arena(16 * MIB);
    OK(cuCtxSetCurrent(cuda.context));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CHECK(vs_arena_open_queue(arena, (uint64_t)(uintptr_t)a, 0, &one) == 0);
    CHECK(vs_arena_open_queue(arena, (uint64_t)(uintptr_t)b, 0, &two) == 0);
    CHECK(vs_arena_malloc(arena, one, 12 * MIB, &first) == 0);
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    capturing = 1;
    OK(cuMemsetD32Async(first, 7, 4, a));
    CHECK(vs_arena_free(arena, first, one, 0) == 0);
    CHECK(vs_arena_malloc(arena, two, 8 * MIB, &second) != 0 || second != first);
    capturing = 0;
    OK(cuStreamEndCapture(a, &graph)); /* and was not invalidated */
    CHECK(graph != NULL);
    close_arena();
}

/* ---- away ---- */

#define RUNS 16

static struct vs_arena_run run[RUNS];
static uint32_t *kept[RUNS];

/* As a caller does: contents to the host, memory to the driver. */
static void send(uint32_t i)
{
    kept[i] = malloc(run[i].size);
    OK(cuMemcpyDtoH_v2(kept[i], run[i].address, run[i].size));
    CHECK(vs_arena_send(arena, run[i]) == 0);
    IS(cuMemcpyDtoH_v2(kept[i], run[i].address, 4), CUDA_ERROR_INVALID_VALUE);
}

static void fetch(uint32_t i)
{
    CHECK(vs_arena_fetch(arena, run[i]) == 0);
    OK(cuMemsetD8_v2(run[i].address, 0xee, run[i].size));
    OK(cuMemcpyHtoD_v2(run[i].address, kept[i], run[i].size));
    free(kept[i]);
}

/* Words that count up from FIRST. */
static void fill(uint64_t address, uint64_t size, uint32_t first)
{
    uint32_t *word = malloc(size);
    for (uint64_t i = 0; i < size / 4; i++)
        word[i] = first + (uint32_t)i;
    OK(cuMemcpyHtoD_v2(address, word, size));
    free(word);
}

static bool has(uint64_t address, uint64_t size, uint32_t first)
{
    uint32_t *word = malloc(size);
    bool all = true;
    OK(cuMemcpyDtoH_v2(word, address, size));
    for (uint64_t i = 0; i < size / 4; i++)
        all = all && word[i] == first + (uint32_t)i;
    free(word);
    return all;
}

static void what_was_away_has_its_words_at_every_address(void)
{
    uint64_t address[12], alias;
    open_arena(512 * MIB);
    OK(cuCtxSetCurrent(cuda.context));
    uint64_t before = used_bytes();
    for (int i = 0; i < 12; i++)
        CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 2 * MIB, &address[i]) == 0);
    for (int i = 0; i < 12; i += 2)
        CHECK(vs_arena_free(arena, address[i], VS_ARENA_ANY, 0) == 0);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 12 * MIB, &alias) == 0); /* an alias mapping of the six */
    fill(alias, 12 * MIB, 1);
    fill(address[3], 2 * MIB, 1u << 30);
    for (int round = 0; round < 2; round++) {
        CHECK(vs_arena_close(arena) == 0);
        uint64_t at = 0;
        uint32_t runs = vs_arena_all_runs(arena, &at, 10 * MIB, run, RUNS);
        CHECK(runs == 3 && used_bytes() == before + 24 * MIB);
        for (uint32_t i = 0; i < runs; i++)
            send(i);
        CHECK(used_bytes() == before);
        IS(cuMemcpyDtoH_v2(&at, alias + 6 * MIB, 4), CUDA_ERROR_INVALID_VALUE);
        for (uint32_t i = runs; i-- > 0;)
            fetch(i);
        CHECK(vs_arena_open(arena) == 0 && used_bytes() == before + 24 * MIB);
        CHECK(has(alias, 12 * MIB, 1) && has(address[3], 2 * MIB, 1u << 30));

        CHECK(vs_arena_leave(arena, alias, 12 * MIB) == 0);
        CHECK(vs_arena_block_runs(arena, alias, run, RUNS) == 1 && run[0].size == 12 * MIB);
        send(0);
        CHECK(used_bytes() == before + 12 * MIB && has(address[3], 2 * MIB, 1u << 30));
        fetch(0);
        CHECK(vs_arena_return(arena, alias) == 0);
        for (uint32_t i = 0; i < 6; i++) /* where the heap has them */
            CHECK(has(address[2 * i], 2 * MIB, 1 + i * (2 * MIB / 4)));
    }
    close_arena();
}

static void in_a_child(void (*body)(void), const char *name, const char *value)
{
    assert_int_equal(child_status(body, name, value), 0);
}

TEST(words)
{
    in_a_child(no_word_is_ever_anothers, "SIMCUDA_CAPACITY", "96MiB");
}

TEST(accounts)
{
    in_a_child(all_memory_goes_back_to_the_device, "SIMCUDA_CAPACITY", "1GiB");
}

TEST(refusals)
{
    in_a_child(the_driver_refuses_and_the_caller_is_told, "SIMCUDA_CAPACITY", "512MiB");
}

TEST(away)
{
    in_a_child(what_was_away_has_its_words_at_every_address, "SIMCUDA_CAPACITY", "512MiB");
}

TEST(errors)
{
    in_a_child(an_error_of_the_driver_is_handed_on, "SIMCUDA_FAIL", "cuMemCreate:2=719");
}

TEST(missing_contexts)
{
    in_a_child(no_context_loses_no_chunk, NULL, NULL);
}

static uint64_t clock_ns, clock_step;
static uint32_t slow_calls;
static uint64_t slow_made;

static uint64_t fake_clock(void)
{
    return clock_ns += clock_step;
}

static void note_slow(const struct vs_backing_cuda *b)
{
    slow_calls++;
    slow_made = b->made;
}

/* Each chunk takes STEP: whoever waits for two seconds, and long for each, is told once.
 */
static void make_chunks(uint64_t step)
{
    uint64_t address;
    clock_step = step;
    cuda.now = fake_clock;
    cuda.slow = note_slow;
    open_arena(8192 * MIB);
    CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, 4000 * MIB, &address) == 0);
    close_arena();
}

static void a_slow_driver_is_told_once(void)
{
    make_chunks(100000); /* 2000 chunks in 0.4 s: busy, but no hang */
    CHECK(slow_calls == 0);
    make_chunks(1200000);
    CHECK(slow_calls == 1 && slow_made > 1600 && slow_made < 1700);
}

static void chunks_are_as_coarse_as_asked(void)
{
    static const uint64_t coarse[] = {0, 3 * MIB, 4 * MIB, 9 * MIB}, chunk[] = {2, 2, 4, 8};
    for (int i = 0; i < 4; i++) {
        uint64_t address, used;
        cuda.coarse = coarse[i];
        open_arena(64 * MIB);
        OK(cuCtxSetCurrent(cuda.context));
        used = used_bytes();
        CHECK(cuda.chunk == chunk[i] * MIB);
        CHECK(vs_arena_malloc(arena, VS_ARENA_ANY, MIB, &address) == 0 && used_bytes() - used == cuda.chunk);
        close_arena();
    }
}

TEST(chunks)
{
    in_a_child(chunks_are_as_coarse_as_asked, NULL, NULL);
}

TEST(slow_drivers)
{
    in_a_child(a_slow_driver_is_told_once, "SIMCUDA_CAPACITY", "8GiB");
}

TEST(capabilities)
{
    in_a_child(chunks_can_be_registered_and_exported, NULL, NULL);
}

TEST(peers)
{
    in_a_child(a_peer_reaches_every_mapping, "SIMCUDA_DEVICES", "2");
}

TEST(contexts)
{
    in_a_child(the_threads_context_stays, NULL, NULL);
}

TEST(captures)
{
    in_a_child(a_capture_is_not_spoilt, NULL, NULL);
}
