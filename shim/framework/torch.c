/*
 * torch.c - records every block of PyTorch's caching allocator.
 *
 * libc10_cuda.so reports every block that it hands out or takes back to two functions of libc10.so, which
 * feed torch's own profiler.  It calls them through its PLT, so preloaded definitions of the same names see
 * all reports, in an unmodified process and without Python.  Ours record, then call the real functions.
 *
 *      c10::reportMemoryUsageToProfiler(void *ptr, int64_t size, size_t allocated, size_t reserved, Device)
 *      c10::reportOutOfMemoryToProfiler(int64_t size, size_t allocated, size_t reserved, Device)
 *
 * A free is reported with a negative size, when the program requests it, also of a block that another stream
 * still uses.  All reports run inside the allocator's mutex, so they take no GIL and no lock and call no
 * malloc, but for the loader's lock at the first report.  That adds no new order of locks: the cudaMalloc
 * behind the first block loads libraries inside the same mutex.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "torch.h"
#include "core/contracts.h"
#include "core/hot.h"
#include "core/walk.h"
#include "record/block.h"
#include "record/record.h"
#include "tensors.h"

__thread struct vs_tensor_note vs_tensor_note __attribute__((tls_model("initial-exec")));
VS_HOT _Atomic bool vs_tensor_seen;

/* c10::Device is trivially copyable: two bytes, type and index, passed in one integer register, like this
 * structure. */
typedef uint16_t c10_device;
enum { C10_CUDA = 1 };

#define OTHERS_MOST 64 /* after these there is no further search */

#define UNASKED UINT32_MAX /* for a tensor's id: the thread's note has not been taken yet */

static inline uint8_t type_of(c10_device device)
{
    return (uint8_t)device;
}

static inline int8_t index_of(c10_device device)
{
    return (int8_t)(device >> 8);
}

typedef void usage_fn(void *ptr, int64_t size, size_t allocated, size_t reserved, c10_device device);
typedef void oom_fn(int64_t size, size_t allocated, size_t reserved, c10_device device);

#define USAGE "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define OOM   "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"

#define EXPORT __attribute__((visibility("default")))
EXPORT void vs_c10_usage(void *, int64_t, size_t, size_t, c10_device) __asm__(USAGE);
EXPORT void vs_c10_oom(int64_t, size_t, size_t, c10_device) __asm__(OOM);

static struct {
    usage_fn *usage; /* atomic; every report finds it in vs_hot.profiler */
    oom_fn *oom;
    int done;     /* atomic; 1: both are final */
    int searched; /* atomic; 1: streams and events are, too, which takes a caller */
    int others;   /* atomic; reports of other libraries that came before */
} real;

/* ---- the real functions ---- */

static void *symbol(void *library, const char *name, void *ours)
{
    void *found = dlsym(library, name);

    return found == ours ? NULL : found;
}

/* Takes the functions that LIBRARY has; true: it is libc10.  The handle is never closed, so the pointers
 * stay valid. */
static bool take_from(void *library)
{
    usage_fn *usage = (usage_fn *)symbol(library, USAGE, (void *)vs_c10_usage);

    if (!usage)
        return false;
    real.oom = (oom_fn *)symbol(library, OOM, (void *)vs_c10_oom);
    /* Relaxed: a pointer to code needs no ordering, and the other one is read after `done`. */
    __atomic_store_n(&real.usage, usage, __ATOMIC_RELAXED);
    return true;
}

struct search {
    char path[4096];
    const char *name; /* libc10 */
    unsigned skip;    /* candidates already tried */
};

/* Notes the next loaded object named NAME*.so: wheels repaired by auditwheel carry a hash in the name. */
static int find_candidate(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    const char *slash = strrchr(info->dlpi_name, '/'), *base = slash ? slash + 1 : info->dlpi_name;
    size_t n = strlen(s->name);

    if (strncmp(base, s->name, n) || (base[n] >= 'a' && base[n] <= 'z') || base[n] == '_')
        return 0;
    if (s->skip-- > 0 || strlen(info->dlpi_name) >= sizeof(s->path))
        return 0;
    strcpy(s->path, info->dlpi_name);
    return 1;
}

/* RTLD_NEXT alone does not find it: Python loads torch RTLD_LOCAL, and then libc10 is not in the global
 * scope. */
static void look_up(void)
{
    void *library = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);

    if (library && take_from(library))
        return;
    for (unsigned i = 0; i < 8; i++) {
        struct search s = {.name = "libc10", .skip = i};

        if (!vs_walk_objects(find_candidate, &s))
            return;
        library = dlopen(s.path, RTLD_NOLOAD | RTLD_LAZY);
        if (library && take_from(library))
            return;
    }
}

/* ---- which PyTorch it is, for the sentences that name it; nothing is decided by it ---- */

static size_t read_beginning(const char *path, char *to, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, to, room - 1);
    if (file >= 0)
        close(file);
    to[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* Its libraries do not export their version.  The package says it in a file of its own beside them: LIBRARY
 * is
 * .../torch/lib/libc10.so, and .../torch/version.py has __version__ = '2.15.0+cu132'.  Once in a process. */
static void note_version(const char *library)
{
    static _Atomic bool looked;
    char path[4096 + 32], text[2048], version[32];
    if (atomic_exchange_explicit(&looked, true, memory_order_relaxed))
        return;
    const char *slash = strrchr(library, '/');
    snprintf(path, sizeof path, "%.*s/../version.py", slash ? (int)(slash - library) : 1,
             slash ? library : ".");
    const char *at = read_beginning(path, text, sizeof text) ? strstr(text, "\n__version__") : NULL;
    if (at && (at = strpbrk(at + 1, "'\"\n")) && sscanf(at + 1, "%31[0-9a-zA-Z.]", version) == 1)
        vs_party_version(VS_PARTY_TORCH, version);
}

void *vs_torch_library(const char *name)
{
    struct search s = {.name = name};
    if (!vs_walk_objects(find_candidate, &s))
        return NULL;
    note_version(s.path);
    return dlopen(s.path, RTLD_NOLOAD | RTLD_LAZY);
}

/* What is asked for by names of functions that libtorch calls: where it has other names, ours are never
 * called. */
static void look_for_names(void)
{
    void *library = vs_torch_library("libtorch_cpu");

    if (library && !dlsym(library, VS_GENERIC))
        vs_contract_broken(VS_CONTRACT_TORCH_TENSORS, "it makes tensors by functions that are not known");
    if (library && !dlsym(library, VS_SEQUENCE_NUMBER))
        vs_contract_broken(VS_CONTRACT_TORCH_NODE, "it numbers its nodes by a function that is not known");
}

/* The functions' names have all of their types.  What they do not have is what a device looks like inside;
 * that each report shows: one of CUDA's comes first of all here. */
static void prove_reports(void)
{
    if (__atomic_load_n(&real.usage, __ATOMIC_RELAXED))
        vs_contract_proven(VS_CONTRACT_TORCH_REPORTS, "its allocator reports each block");
    else
        vs_contract_broken(VS_CONTRACT_TORCH_REPORTS, "its own function for reports was not found");
}

/* Whether the code at CALLER is the library's whose blocks these are.  Anything else that reports has neither
 * its streams nor its events, and says nothing of it. */
static bool is_allocators(const void *caller)
{
    Dl_info info;
    const char *slash = dladdr(caller, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    return slash && strncmp(slash + 1, "libc10_cuda", 11) == 0;
}

/* Threads that come here at the same time find the same.  If nothing is found the search ends for good: a
 * caller's library has libc10 loaded.  Release: a thread that sees the mark sees the pointers. */
static __attribute__((noinline)) void look_up_once(const void *caller, int8_t device)
{
    int saved = errno;

    if (!__atomic_load_n(&real.done, __ATOMIC_ACQUIRE)) {
        look_up();
        __atomic_store_n(&real.done, 1, __ATOMIC_RELEASE);
    }
    if (caller && is_allocators(caller)) {
        prove_reports();
        vs_torch_stream_find(caller, device);
        vs_torch_events_watch(caller);
        look_for_names();
        __atomic_store_n(&real.searched, 1, __ATOMIC_RELEASE);
    } else if (caller && __atomic_add_fetch(&real.others, 1, __ATOMIC_RELAXED) >= OTHERS_MOST) {
        __atomic_store_n(&real.searched, 1, __ATOMIC_RELEASE);
    }
    dlerror(); /* the host must not see the error of our search */
    errno = saved;
}

/* CALLER: the code that reported a block of CUDA's; NULL: something else needs the functions, as the reports
 * of libc10's CPU allocator do under torch's profiler. */
static void need_real(const void *caller, int8_t device)
{
    const int *mark = caller ? &real.searched : &real.done;

    if (__builtin_expect(!__atomic_load_n(mark, __ATOMIC_ACQUIRE), 0))
        look_up_once(caller, device);
}

/* The pointer is not there yet, or this is a fork child, whose vs_hot was wiped.  With the pointer in vs_hot
 * reports may go straight into the ring, which the first one of CUDA's must not. */
static __attribute__((noinline, cold)) usage_fn *find_usage(void)
{
    need_real(NULL, 0);
    usage_fn *usage = __atomic_load_n(&real.usage, __ATOMIC_RELAXED);

    /* Relaxed, as above. */
    if (__atomic_load_n(&real.searched, __ATOMIC_RELAXED))
        atomic_store_explicit(&vs_hot.profiler, (void (*)(void))usage, memory_order_relaxed);
    return usage;
}

static inline void report_to_profiler(void *ptr, int64_t size, size_t allocated, size_t reserved,
                                      c10_device device)
{
    usage_fn *usage = (usage_fn *)atomic_load_explicit(&vs_hot.profiler, memory_order_relaxed);

    if (__builtin_expect(!usage, 0))
        usage = find_usage();
    if (usage)
        usage(ptr, size, allocated, reserved, device);
}

/* ---- the reports ---- */

/* The id of what is asked for, in the journal of the recording, which a block's report begins. */
static uint32_t tensor_of(uint8_t op, uint64_t size)
{
    struct vs_journal *j = vs_record_journal();

    if (!j && op == VS_OP_BLOCK_ALLOC && vs_record_start())
        j = vs_record_journal();
    if (j)
        return vs_tensor_take(j, size);
    vs_tensor_drop();
    return 0;
}

static void record(uint8_t op, const void *ptr, uint64_t size, size_t allocated, size_t reserved,
                   c10_device device, uint32_t tensor)
{
    /* Of a CPU's block no stream is asked for: in the fork child of a process that has used CUDA, such as a
     * DataLoader's worker, the answer would be an exception. */
    if (type_of(device) != C10_CUDA)
        return;
    struct vs_event event = {.op = op,
                             .space = VS_SPACE_DEVICE,
                             .device = index_of(device),
                             .context = op == VS_OP_BLOCK_FREE ? 0 : vs_torch_stream(index_of(device)),
                             .address = (uintptr_t)ptr,
                             .size = size,
                             .arg0 = allocated,
                             .arg1 = vs_with_tensor(reserved, tensor),
                             .status = (uint16_t)tensor};

    vs_record(&event);
}

/* Records every report that does not go straight into the ring.  TENSOR: of an allocation, or UNASKED. */
static __attribute__((noinline, cold)) void report_slowly(void *ptr, int64_t size, size_t allocated,
                                                          size_t reserved, c10_device device,
                                                          const void *caller, uint32_t tensor)
{
    uint8_t op = size > 0 ? VS_OP_BLOCK_ALLOC : VS_OP_BLOCK_FREE;

    if (type_of(device) == C10_CUDA) {
        need_real(caller, index_of(device));
        if (size <= 0)
            tensor = 0;
        else if (tensor == UNASKED)
            tensor = tensor_of(op, (uint64_t)size);
    }
    vs_torch_facts_due(); /* what was said before the block was requested */
    if (size != 0 && vs_record_enabled())
        record(op, ptr, size > 0 ? (uint64_t)size : 0 - (uint64_t)size, allocated, reserved, device, tensor);
    if (type_of(device) == C10_CUDA && vs_self.events)
        vs_torch_events_report(size < 0, (uintptr_t)ptr, index_of(device));
    vs_torch_facts_due(); /* likewise, where the report began the recording */
    report_to_profiler(ptr, size, allocated, reserved, device);
}

_Static_assert(VS_OP_BLOCK_FREE == VS_OP_BLOCK_ALLOC + 1, "the sign's bit tells them apart");

VS_HOT_CODE void vs_c10_usage(void *ptr, int64_t size, size_t allocated, size_t reserved, c10_device device)
{
    uint64_t negative = (uint64_t)size >> 63, bytes = ((uint64_t)size ^ -negative) + negative;
    uint8_t op = (uint8_t)(VS_OP_BLOCK_ALLOC + negative);
    usage_fn *usage = (usage_fn *)atomic_load_explicit(&vs_hot.profiler, memory_order_relaxed);
    /* without the real function this is the first report, or a fork child's */
    bool cuda = __builtin_expect(type_of(device) == C10_CUDA && size != 0 && usage, 1);
    /* Acquire: with the header the journal is there. */
    bool asks = cuda && !negative && atomic_load_explicit(&vs_hot.ring_header, memory_order_acquire);
    uint8_t stream = asks ? vs_torch_stream(index_of(device)) : 0;
    uint32_t tensor = asks ? vs_tensor_take(vs_hot.journal, bytes) : UNASKED;

    if (cuda && (negative || asks) &&
        vs_record_block(op, VS_SPACE_DEVICE, index_of(device), stream, (uintptr_t)ptr, bytes, allocated,
                        negative ? reserved : vs_with_tensor(reserved, tensor),
                        negative ? 0 : (uint16_t)tensor))
        usage(ptr, size, allocated, reserved, device);
    else
        report_slowly(ptr, size, allocated, reserved, device, __builtin_return_address(0), tensor);
}

void vs_c10_oom(int64_t size, size_t allocated, size_t reserved, c10_device device)
{
    bool cuda = type_of(device) == C10_CUDA;
    uint32_t tensor = cuda ? tensor_of(VS_OP_BLOCK_OOM, (uint64_t)size) : 0;

    record(VS_OP_BLOCK_OOM, NULL, (uint64_t)size, allocated, reserved, device, tensor);
    need_real(cuda ? __builtin_return_address(0) : NULL, index_of(device));
    if (real.oom)
        real.oom(size, allocated, reserved, device);
}

/* ---- blocks of the arena (arena/torch/torch.c) ---- */

/* The arena records its own reserved total, so the event has the stream in
 * its place. */
static void record_own(uint8_t op, const void *ptr, uint64_t size, uint64_t allocated, uint64_t stream,
                       int device)
{
    struct vs_event event = {.op = op,
                             .space = VS_SPACE_ARENA,
                             .device = (int8_t)device,
                             .address = (uintptr_t)ptr,
                             .size = size,
                             .arg0 = allocated,
                             .arg1 = stream};
    uint32_t tensor = op == VS_OP_BLOCK_FREE ? 0 : tensor_of(op, size);

    event.arg1 = vs_with_tensor(stream, tensor);
    event.status = (uint16_t)tensor;
    if (vs_record_enabled())
        vs_record(&event);
}

void vs_torch_block(void *ptr, int64_t size, uint64_t allocated, uint64_t stream, int device)
{
    if (size > 0)
        record_own(VS_OP_BLOCK_ALLOC, ptr, (uint64_t)size, allocated, stream, device);
    else
        record_own(VS_OP_BLOCK_FREE, ptr, 0 - (uint64_t)size, allocated, stream, device);
}

void vs_torch_block_oom(uint64_t size, uint64_t allocated, int device)
{
    record_own(VS_OP_BLOCK_OOM, NULL, size, allocated, 0, device);
}

void vs_torch_profile(void *ptr, int64_t size, uint64_t allocated, uint64_t reserved, int device)
{
    c10_device cuda = (c10_device)(C10_CUDA | (uint8_t)device << 8);

    report_to_profiler(ptr, size, allocated, reserved, cuda);
}
