/*
 * witness.c - a provider (provider/provider.h) that holds the access ledger against the device: it takes
 * memory away while the ledger says that it lies idle.
 *
 * In the arena's place (VRAMSCOPE_ALLOCATOR=arena), a program runs twice, and must do the same in both runs.
 * The second time each block is inaccessible whenever the recording of the first says that the device does
 * not use it; if it does, the program dies of it.
 *
 *      run 1   a log of births and of work       plan.py: recording + log --> plan
 *      run 2   plan: of birth 17, [0, 203) and [1101, end) inaccessible
 *
 *      birth of 17         work 203           work 1101                 free of 17
 *      ├── no access ─────┤├── access ────────┤├── no access ───────────┤
 *
 * Births are cuMemAlloc's of 2 MiB or more, and those of any size during a capture; work is every launch,
 * copy, fill and launch of a graph; both are numbered from 1 in the order of the program's calls.  Every
 * block has addresses of its own and an unmapped stretch behind it.  The context is waited for before access
 * is taken away.  A block that was born during a capture serves nobody again, since graphs may use it.
 *
 *      WITNESS_LOG=FILE    births and work go there: struct entry
 *      WITNESS_PLAN=FILE   lines "birth size from to": access is taken after work FROM (0: at birth), and
 *                          given back before work TO (0: at the free).  Sorted by birth
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/hot.h"
#include "hooks/driver.h"
#include "provider/provider.h"

#define UNIT    (UINT64_C(2) << 20)
#define BLOCKS  (1u << 16) /* that live, or are kept, at one time */
#define SPANS   (1u << 20)
#define ENTRIES (1u << 22)
#define BIRTH   (UINT64_C(1) << 63)

struct entry {
    uint64_t t_ns; /* before the call; of the clock of events */
    uint64_t what; /* BIRTH | size, or the enum vs_api of work */
};

struct span {
    uint64_t birth, size, from, to;
};

struct block {
    CUdeviceptr address;
    uint64_t size, mapped;
    CUmemGenericAllocationHandle handle;
    uint32_t span, spans; /* the next, and how many are left */
    bool lives, taken, in_graph;
};

static struct {
    pthread_mutex_t lock;
    bool ready, failed;
    struct block block[BLOCKS];
    uint32_t blocks;
    struct span span[SPANS];
    uint32_t spans, next_span;
    struct entry *log;
    uint64_t entries, births, works, changes, mapped, living;
    uint64_t takings, bytes_taken;
    int captures;
    bool by_unmapping; /* the driver does not take PROT_NONE */
    struct {
        __typeof__(&cuMemAddressReserve) reserve;
        __typeof__(&cuMemCreate) create;
        __typeof__(&cuMemMap) map;
        __typeof__(&cuMemUnmap) unmap;
        __typeof__(&cuMemSetAccess) access;
        __typeof__(&cuCtxGetCurrent) context;
        __typeof__(&cuCtxGetDevice) device;
        __typeof__(&cuCtxSynchronize) synchronize;
        __typeof__(&cuThreadExchangeStreamCaptureMode) capture_mode;
    } call;
} w = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Says what went wrong, and ends the process: nothing that comes after it would prove anything. */
static __attribute__((noreturn, format(printf, 1, 2))) void give_up(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("witness: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    _exit(86);
}

/* ---- log, plan ---- */

static void open_log(const char *path)
{
    uint64_t bytes = ENTRIES * sizeof(struct entry);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        give_up("%s: %m", path);
    w.log = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (w.log == MAP_FAILED)
        give_up("%s: %m", path);
    close(fd);
}

static void read_plan(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        give_up("%s: %m", path);
    uint64_t bytes = (uint64_t)status.st_size;
    /* one byte more, which is 0 */
    char *text = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *at = text;
    if (text == MAP_FAILED || read(fd, text, bytes) != (ssize_t)bytes)
        give_up("%s: %m", path);
    close(fd);
    while (*at != '\0' && w.spans < SPANS) {
        uint64_t number[4];
        for (int i = 0; i < 4; i++)
            number[i] = strtoull(at, &at, 10);
        while (*at == '\n' || *at == ' ')
            at++;
        w.span[w.spans++] = (struct span){number[0], number[1], number[2], number[3]};
    }
    munmap(text, bytes + 1);
}

static void get_ready(void)
{
    const char *log = getenv("WITNESS_LOG"), *plan = getenv("WITNESS_PLAN");
    w.call.reserve = vs_cuda_real("cuMemAddressReserve");
    w.call.create = vs_cuda_real("cuMemCreate");
    w.call.map = vs_cuda_real("cuMemMap");
    w.call.unmap = vs_cuda_real("cuMemUnmap");
    w.call.access = vs_cuda_real("cuMemSetAccess");
    w.call.context = vs_cuda_real("cuCtxGetCurrent");
    w.call.device = vs_cuda_real("cuCtxGetDevice");
    w.call.synchronize = vs_cuda_real("cuCtxSynchronize");
    w.call.capture_mode = vs_cuda_real("cuThreadExchangeStreamCaptureMode");
    if (!w.call.reserve || !w.call.create || !w.call.map || !w.call.unmap || !w.call.access ||
        !w.call.context || !w.call.device || !w.call.synchronize || !w.call.capture_mode)
        give_up("the driver lacks a function");
    if (log != NULL)
        open_log(log);
    if (plan != NULL)
        read_plan(plan);
    w.ready = true;
}

static void enter(void)
{
    pthread_mutex_lock(&w.lock);
    if (!w.ready)
        get_ready();
}

static void leave(void)
{
    pthread_mutex_unlock(&w.lock);
}

static void note(uint64_t what)
{
    if (w.log == NULL)
        return;
    if (w.entries == ENTRIES)
        give_up("the log is full");
    w.log[w.entries++] = (struct entry){vs_event_clock_of(&vs_self.clock), what};
}

/* ---- access ---- */

static CUresult set_access(const struct block *b, CUmemAccess_flags flags)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, .flags = flags};
    return w.call.access(b->address, b->mapped, &d, 1);
}

/* The context was waited for. */
static void take(struct block *b)
{
    if (!w.by_unmapping && set_access(b, CU_MEM_ACCESS_FLAGS_PROT_NONE) != CUDA_SUCCESS)
        w.by_unmapping = true;
    if (w.by_unmapping && w.call.unmap(b->address, b->mapped) != CUDA_SUCCESS)
        give_up("access cannot be taken away");
    b->taken = true;
    w.takings++;
    w.bytes_taken += b->mapped;
}

static void give_back(struct block *b)
{
    if (!b->taken)
        return;
    if ((w.by_unmapping && w.call.map(b->address, b->mapped, 0, b->handle, 0) != CUDA_SUCCESS) ||
        set_access(b, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) != CUDA_SUCCESS)
        give_up("access cannot be given back");
    b->taken = false;
}

/* Before work NUMBER: what it may use is there. */
static void give_back_due(uint64_t number)
{
    for (uint32_t i = 0; i < w.blocks; i++) {
        struct block *b = &w.block[i];
        while (b->lives && b->spans > 0 && w.span[b->span].to != 0 && w.span[b->span].to <= number) {
            give_back(b);
            b->span++;
            b->spans--;
        }
    }
}

/* After work NUMBER.  A capture must not be disturbed by a wait; what it enqueues is no use yet. */
static void take_due(uint64_t number)
{
    bool waited = false;
    for (uint32_t i = 0; i < w.blocks && w.captures == 0 && !w.failed; i++) {
        struct block *b = &w.block[i];
        if (!b->lives || b->taken || b->spans == 0 || w.span[b->span].from > number)
            continue;
        if (!waited && w.call.synchronize() != CUDA_SUCCESS) {
            w.failed = true; /* the program learns of it by its next call */
            return;
        }
        waited = true;
        take(b);
    }
}

/* ---- blocks ---- */

static struct block *block_at(CUdeviceptr address)
{
    for (uint32_t i = 0; i < w.blocks; i++)
        if (w.block[i].lives && address >= w.block[i].address &&
            address < w.block[i].address + w.block[i].mapped)
            return &w.block[i];
    return NULL;
}

/* Memory that was freed last, of MAPPED bytes; NULL: there is none. */
static struct block *used_before(uint64_t mapped)
{
    for (uint32_t i = w.blocks; i-- > 0;)
        if (!w.block[i].lives && !w.block[i].in_graph && w.block[i].mapped == mapped)
            return &w.block[i];
    return NULL;
}

static struct block *make(uint64_t mapped)
{
    struct block *b = &w.block[w.blocks];
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    if (w.blocks == BLOCKS)
        give_up("too many blocks");
    *b = (struct block){.mapped = mapped};
    if (w.call.create(&b->handle, mapped, &prop, 0) != CUDA_SUCCESS)
        return NULL;
    if (w.call.reserve(&b->address, mapped + UNIT, 0, 0, 0) != CUDA_SUCCESS ||
        w.call.map(b->address, mapped, 0, b->handle, 0) != CUDA_SUCCESS ||
        set_access(b, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) != CUDA_SUCCESS)
        give_up("memory cannot be mapped");
    w.blocks++;
    w.mapped += mapped;
    return b;
}

static void be_born(struct block *b, uint64_t size)
{
    note(BIRTH | size);
    w.births++;
    b->lives = true;
    b->size = size;
    b->in_graph = w.captures > 0;
    w.living += b->mapped;
    w.changes++;
    while (w.next_span < w.spans && w.span[w.next_span].birth < w.births)
        w.next_span++;
    b->span = w.next_span;
    for (b->spans = 0; b->span + b->spans < w.spans && w.span[b->span + b->spans].birth == w.births;)
        if (w.span[b->span + b->spans++].size != size)
            give_up("birth %lu has %lu bytes, and had others in the first run", (unsigned long)w.births,
                    (unsigned long)size);
    take_due(w.works);
}

static bool on_first_device(struct vs_given *g)
{
    CUdevice device = -1;
    return w.call.context(&g->context) == CUDA_SUCCESS && g->context != NULL &&
           w.call.device(&device) == CUDA_SUCCESS && device == 0;
}

static bool witness_alloc(struct vs_given *g, CUdeviceptr *out, size_t size)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    uint64_t mapped = (size + UNIT - 1) / UNIT * UNIT;
    if (size == 0 || out == NULL)
        return false;
    enter();
    struct block *b = NULL;
    if ((size >= UNIT || w.captures > 0) && on_first_device(g)) {
        w.call.capture_mode(&mode);
        b = used_before(mapped);
        b = b != NULL ? b : make(mapped);
        if (b != NULL) {
            be_born(b, size);
            *out = b->address;
            g->space = VS_SPACE_ARENA;
            g->device = 0;
            g->change = w.changes;
        }
        w.call.capture_mode(&mode);
    }
    leave();
    return b != NULL;
}

static bool witness_free(struct vs_given *g, CUdeviceptr address)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    enter();
    struct block *b = block_at(address);
    if (b != NULL && b->address == address) {
        g->status = w.captures == 0 ? w.call.synchronize() : CUDA_SUCCESS; /* as cuMemFree waits */
        w.call.capture_mode(&mode);
        if (g->status == CUDA_SUCCESS) {
            give_back(b);
            b->lives = false;
            b->spans = 0;
            w.living -= b->mapped;
            w.changes++;
        }
        w.call.capture_mode(&mode);
        g->device = 0;
        g->change = w.changes;
    }
    leave();
    return b != NULL;
}

static bool alloc_rows(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                       unsigned int element)
{
    return false;
}

static bool alloc_ordered(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                          CUmemoryPool pool)
{
    return false;
}

static bool free_ordered(struct vs_given *g, CUdeviceptr address, CUstream stream)
{
    return witness_free(g, address);
}

static bool shortage(void)
{
    return false;
}

static bool owner(CUdeviceptr address, struct vs_owned *block)
{
    enter();
    const struct block *b = block_at(address);
    if (b != NULL)
        *block = (struct vs_owned){b->address, b->size};
    leave();
    return b != NULL;
}

static bool holds(int device, struct vs_holding *h)
{
    if (device != 0)
        return false;
    enter();
    *h = (struct vs_holding){.change = w.changes, .reserved = w.mapped, .idle = w.mapped - w.living};
    leave();
    return true;
}

static bool figures(int device, bool at_once, uint64_t figure[VS_FIGURE_END])
{
    return false;
}

static bool ended(int device, uint64_t figure[VS_FIGURE_END])
{
    return false;
}

/* ---- work: what stands before and behind each call that gives the device something to do ---- */

static void before(enum vs_api api)
{
    int saved = errno;
    enter();
    note(api);
    give_back_due(++w.works);
    leave();
    errno = saved;
}

static void after(void)
{
    int saved = errno;
    enter();
    take_due(w.works);
    leave();
    errno = saved;
}

static void captured(int begun)
{
    enter();
    w.captures += begun;
    take_due(w.works);
    leave();
}

#define WORK(symbol, n, signature, arguments)                                                                \
    static CUresult at_##symbol(VS_PARAMS_##n signature)                                                     \
    {                                                                                                        \
        CUresult (*real)(VS_PARAMS_##n signature) = vs_real_under(VS_API_##symbol);                          \
        before(VS_API_##symbol);                                                                             \
        CUresult status = real(VS_ARGS_##n signature);                                                       \
        after();                                                                                             \
        return status;                                                                                       \
    }
/* A capture begins before the call, and has ended after it: between the two waiting would disturb it. */
#define BRACKET(symbol, n, signature, arguments)                                                             \
    static CUresult at_##symbol(VS_PARAMS_##n signature)                                                     \
    {                                                                                                        \
        CUresult (*real)(VS_PARAMS_##n signature) = vs_real_under(VS_API_##symbol);                          \
        const int begun = CONCERNS arguments;                                                                \
        if (begun > 0)                                                                                       \
            captured(1);                                                                                     \
        CUresult status = real(VS_ARGS_##n signature);                                                       \
        if (begun < 0 || status != CUDA_SUCCESS)                                                             \
            captured(-1);                                                                                    \
        return status;                                                                                       \
    }
#define CONCERNS(begun) (begun)
#define OTHER(symbol, n, signature, arguments)

/* Of a row of driver.def with the shape S the macro that KIND_S names; OTHER if there is none. */
#define KIND_LAUNCH       ~, WORK,
#define KIND_GIVEN        ~, WORK,
#define KIND_WORK         ~, WORK,
#define KIND_GRAPH_LAUNCH ~, WORK,
#define KIND_CAPTURE      ~, BRACKET,
#define SECOND(a, b, ...) b
#define PICK(...)         SECOND(__VA_ARGS__, OTHER, ~)
#define PICKED(pick, ...) pick(__VA_ARGS__)
#define EACH(pick, ...)   PICKED(pick, __VA_ARGS__)

#define VS_API(number, symbol, base, version, stream_kind, shape, shape_args, n, signature)                  \
    EACH(PICK(KIND_##shape), symbol, n, signature, shape_args)
#include "trace/driver.def"
#undef VS_API

#undef WORK
#undef BRACKET
#define WORK(symbol, n, signature, arguments)    {VS_API_##symbol, (void *)at_##symbol},
#define BRACKET(symbol, n, signature, arguments) WORK(symbol, n, signature, arguments)
static const struct vs_stand_in works[] = {
#define VS_API(number, symbol, base, version, stream_kind, shape, shape_args, n, signature)                  \
    EACH(PICK(KIND_##shape), symbol, n, signature, shape_args)
#include "trace/driver.def"
#undef VS_API
    {0, NULL}};
static const struct vs_stand_in *const all[] = {works, NULL};

static const struct vs_provider witness = {.alloc = witness_alloc,
                                           .alloc_rows = alloc_rows,
                                           .alloc_ordered = alloc_ordered,
                                           .free = witness_free,
                                           .free_ordered = free_ordered,
                                           .shortage = shortage,
                                           .owner = owner,
                                           .holds = holds,
                                           .figures = figures,
                                           .ended = ended,
                                           .stand_ins = all};

const struct vs_provider *vs_arena_provider(bool serves)
{
    return serves ? &witness : NULL;
}

static __attribute__((destructor)) void say(void)
{
    if (w.births > 0)
        fprintf(stderr, "witness: %lu births, %lu works, access taken %lu times, %lu MiB, by %s\n",
                (unsigned long)w.births, (unsigned long)w.works, (unsigned long)w.takings,
                (unsigned long)(w.bytes_taken >> 20), w.by_unmapping ? "unmapping" : "protection");
}
