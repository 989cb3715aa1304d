/*
 * oracle.c - a second witness in the same process: what CUPTI says that the program asked of the driver. The
 * driver loads it by itself in cuInit (CUDA_INJECTION64_PATH). Logged are all functions that could move
 * memory (calls.inc), and the activity records MEMORY2 and MEMORY_POOL.
 *
 * ORACLE_LOG names the folder of oracle-PID.log; a line each, numbers in hexadecimal (seq: the order in
 * which calls began, from 1):
 *
 *     H version pid cupti                  T tid thread-name
 *     C seq tid function status values...  a call that is over
 *     B seq tid function values...         a call that gives back, on its way in;  R seq status: how it ended
 *     K call tid +|- context               a context was created, is about to be destroyed, in call (0: none)
 *     M call tid +|- id bytes              a module
 *     U seq tid function                   nobody knows this function
 *     A op kind address bytes pid device context stream async pool pool-size pool-used name     MEMORY2
 *     P op type address pid device keep size used                                               MEMORY_POOL
 *     E text                               something went wrong here
 *     Z lines dropped                      the end of a process that ended in good order (decimal)
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CBIDS         4096
#define VALUES        8
#define DEPTH         16
#define BUFFER        (64 * 1024)
#define ACTIVITY_SIZE (1024 * 1024)

/* ---- what calls.inc uses ---- */

struct call {
    const char *name;
    int (*put)(uint64_t *values, const void *params, int status); /* NULL: nobody knows its parameters */
    int before;
};

#define OK     (status == 0)
#define OUT(x) ((x) != NULL && OK ? U(*(x)) : 0)
#define U(x)   ((uint64_t)(x))

static uint64_t format_bytes(unsigned format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0; /* compressed and planar formats: the comparison then leaves the size out */
    }
}

static uint64_t at_least_one(uint64_t n)
{
    return n != 0 ? n : 1;
}
static uint64_t halved(uint64_t n, unsigned times)
{
    return at_least_one(n >> times);
}

/* All levels of a (mipmapped) array; the depth of a layered one counts layers and stays. */
static uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, uint64_t element, unsigned flags,
                            unsigned levels)
{
    uint64_t bytes = 0;
    for (unsigned level = 0; level < levels; level++) {
        int layers = (flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
        uint64_t deep = layers ? at_least_one(depth) : halved(depth, level);
        bytes += halved(width, level) * halved(height, level) * deep * element;
    }
    return flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING) ? 0 : bytes;
}

struct old_2d { /* CUDA 2's array descriptions: 32-bit sizes */
    unsigned Width, Height;
    CUarray_format Format;
    unsigned NumChannels;
};
struct old_3d {
    unsigned Width, Height, Depth;
    CUarray_format Format;
    unsigned NumChannels, Flags;
};

#define ELEMENT(d)  (format_bytes((d)->Format) * (d)->NumChannels)
#define ARRAY_2D(d) ((d) != NULL ? array_bytes((d)->Width, (d)->Height, 1, ELEMENT(d), 0, 1) : 0)
#define ARRAY_3D(d, levels)                                                                                  \
    ((d) != NULL ? array_bytes((d)->Width, (d)->Height, (d)->Depth, ELEMENT(d), (d)->Flags, levels) : 0)

#define LAYERS(d)                                                                                            \
    ((d) != NULL && ((d)->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) ? (d)->Depth : 1)

/* The graph that a stream is being captured into, 0 for none.  CUPTI has a callback for the nodes that an
 * application adds, and none for those that a capture makes; the driver says it without changing anything. */
static uint64_t captured(CUstream stream, bool per_thread)
{
    typedef CUresult (*query)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                              const CUgraphNode **, size_t *);
    static _Atomic(query) ask;
    query function = atomic_load(&ask);
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id;
    CUgraph graph = NULL;
    if (function == NULL) {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        function = driver != NULL ? (query)dlsym(driver, "cuStreamGetCaptureInfo_v2") : NULL;
        atomic_store(&ask, function);
    }
    if (stream == NULL && per_thread)
        stream = CU_STREAM_PER_THREAD;
    if (function == NULL || function(stream, &capture, &id, &graph, NULL, NULL) != CUDA_SUCCESS)
        return 0;
    return capture == CU_STREAM_CAPTURE_STATUS_ACTIVE ? U(graph) : 0;
}

static uint64_t node_address(const CUgraphNodeParams *p, int status)
{
    if (p == NULL)
        return 0;
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return p->free.dptr;
    return p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && OK ? p->alloc.dptr : 0;
}

static uint64_t node_size(const CUgraphNodeParams *p)
{
    return p != NULL && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? p->alloc.bytesize : 0;
}

#include "calls.inc"

/* ---- the log ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char buffer[BUFFER];
static size_t filled;
static uint64_t lines, dropped_lines, last_flush;
static int fd = -1, log_pid, at_the_end;
static char folder[3500];

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void open_log(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/oracle-%d.log", folder, (int)getpid());
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        fprintf(stderr, "oracle: cannot write %s; set ORACLE_LOG to a folder\n", path);
    log_pid = getpid();
}

static void flush_locked(void)
{
    size_t done = 0;
    if (fd < 0 || log_pid != getpid()) /* a fork child has a log of its own, and not its parent's lines */
        return;
    while (done < filled) {
        ssize_t n = write(fd, buffer + done, filled - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    dropped_lines += done < filled;
    filled = 0;
    last_flush = now_ns();
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    pthread_mutex_lock(&lock);
    if (log_pid != getpid()) {
        filled = 0;
        open_log();
    }
    if (sizeof buffer - filled < 4096)
        flush_locked();
    va_start(arguments, format);
    int n = vsnprintf(buffer + filled, sizeof buffer - filled - 1, format, arguments);
    va_end(arguments);
    if (n > 0 && (size_t)n < sizeof buffer - filled - 1) {
        filled += (size_t)n;
        buffer[filled++] = '\n';
        lines++;
    } else {
        dropped_lines++;
    }
    if (at_the_end || format[0] != 'A' || now_ns() - last_flush > 1000000000u)
        flush_locked();
    pthread_mutex_unlock(&lock);
}

static void complain(const char *what, CUptiResult result)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS)
        return;
    cuptiGetResultString(result, &text);
    say("E %s: %s", what, text != NULL ? text : "?");
    fprintf(stderr, "oracle: %s: %s\n", what, text != NULL ? text : "?");
}

/* ---- threads, and the calls that they are in ---- */

static _Atomic uint64_t last_seq;
static __thread struct {
    int tid, depth;
    uint64_t inside[DEPTH];
} self;

static int my_tid(void)
{
    int tid = (int)syscall(SYS_gettid);
    if (self.tid != tid) { /* the first time, and in a fork child */
        char name[17] = "";
        self.tid = tid;
        prctl(PR_GET_NAME, name);
        say("T %d %s", tid, name);
    }
    return tid;
}

static uint64_t enclosing(void)
{
    int depth = self.depth < DEPTH ? self.depth : DEPTH;
    return depth > 0 ? self.inside[depth - 1] : 0;
}

static uint64_t enter(void)
{
    uint64_t seq = atomic_fetch_add(&last_seq, 1) + 1;
    if (self.depth < DEPTH)
        self.inside[self.depth] = seq;
    self.depth++;
    return seq;
}

static void leave(void)
{
    self.depth -= self.depth > 0;
}

/* ---- driver calls ---- */

static void say_call(char kind, uint64_t seq, const struct call *call, const void *params, int status)
{
    uint64_t values[VALUES];
    char text[VALUES * 20] = "";
    int n = call->put(values, params, status), at = 0;
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " %lx", (unsigned long)values[i]);
    if (kind == 'C')
        say("C %lx %d %s %x%s", (unsigned long)seq, my_tid(), call->name, (unsigned)status, text);
    else
        say("B %lx %d %s%s", (unsigned long)seq, my_tid(), call->name, text);
}

static void on_driver(CUpti_CallbackId cbid, const CUpti_CallbackData *data)
{
    const struct call *call = cbid < CBIDS ? &calls[cbid] : NULL;
    if (call == NULL)
        return;
    bool known = call->put != NULL;
    if (data->callbackSite == CUPTI_API_ENTER) {
        uint64_t seq = *data->correlationData = enter();
        if (!known)
            say("U %lx %d %s", (unsigned long)seq, my_tid(), data->functionName);
        else if (call->before)
            say_call('B', seq, call, data->functionParams, 0);
        return;
    }
    int status = data->functionReturnValue != NULL ? *(const int *)data->functionReturnValue : -1;
    leave();
    if (known && call->before)
        say("R %lx %x", (unsigned long)*data->correlationData, (unsigned)status);
    else if (known)
        say_call('C', *data->correlationData, call, data->functionParams, status);
}

/* ---- resources ---- */

static void on_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data)
{
    const CUpti_ModuleResourceData *module = data->resourceDescriptor;
    switch (cbid) {
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED:
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
        say("K %lx %d %c %lx", (unsigned long)enclosing(), my_tid(),
            cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED ? '+' : '-', (unsigned long)data->context);
        break;
    case CUPTI_CBID_RESOURCE_MODULE_LOADED:
    case CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING:
        if (module != NULL)
            say("M %lx %d %c %x %lx", (unsigned long)enclosing(), my_tid(),
                cbid == CUPTI_CBID_RESOURCE_MODULE_LOADED ? '+' : '-', module->moduleId,
                (unsigned long)module->cubinSize);
        break;
    default:
        break;
    }
}

static void CUPTIAPI on_callback(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                 const void *data)
{
    (void)user;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
        on_driver(cbid, data);
    else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
        on_resource(cbid, data);
}

/* ---- activity records ---- */

static void on_memory(const CUpti_ActivityMemory4 *m)
{
    say("A %d %d %lx %lx %d %d %d %d %d %lx %lx %lx %s", (int)m->memoryOperationType, (int)m->memoryKind,
        (unsigned long)m->address, (unsigned long)m->bytes, (int)m->processId, (int)m->deviceId,
        (int)m->contextId, (int)m->streamId, (int)m->isAsync, (unsigned long)m->memoryPoolConfig.address,
        (unsigned long)m->memoryPoolConfig.pool.size, (unsigned long)m->memoryPoolConfig.utilizedSize,
        m->name != NULL ? m->name : "-");
}

static void on_pool(const CUpti_ActivityMemoryPool3 *p)
{
    say("P %d %d %lx %d %d %lx %lx %lx", (int)p->memoryPoolOperationType, (int)p->memoryPoolType,
        (unsigned long)p->address, (int)p->processId, (int)p->deviceId, (unsigned long)p->minBytesToKeep,
        (unsigned long)p->size, (unsigned long)p->utilizedSize);
}

static void CUPTIAPI want_buffer(uint8_t **memory, size_t *size, size_t *records)
{
    *memory = aligned_alloc(8, ACTIVITY_SIZE);
    *size = *memory != NULL ? ACTIVITY_SIZE : 0;
    *records = 0;
}

static void CUPTIAPI have_buffer(CUcontext context, uint32_t stream, uint8_t *memory, size_t size,
                                 size_t valid)
{
    CUpti_Activity *record = NULL;
    size_t lost = 0;
    (void)size;
    while (valid > 0 && cuptiActivityGetNextRecord(memory, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
            on_memory((const CUpti_ActivityMemory4 *)record);
        else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY_POOL)
            on_pool((const CUpti_ActivityMemoryPool3 *)record);
    }
    if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS && lost > 0)
        say("E %zu activity records dropped by CUPTI", lost);
    free(memory);
}

/* ---- start and end ---- */

static bool sounds_like_memory(const char *name)
{
    for (size_t i = 0; i < sizeof broad / sizeof *broad; i++)
        if (strstr(name, broad[i]) != NULL)
            return strncmp(name, "cuMemcpy", 8) != 0 && strncmp(name, "cuMemset", 8) != 0;
    return false;
}

/* A CUPTI that is newer than the headers may know functions that no header of ours names. */
static bool is_wanted(uint32_t cbid)
{
    const char *name = NULL;
    if (calls[cbid].name != NULL)
        return true;
    return cbid >= CBIDS_KNOWN &&
           cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, cbid, &name) == CUPTI_SUCCESS && name != NULL &&
           sounds_like_memory(name);
}

static void enable(CUpti_SubscriberHandle subscriber)
{
    static const uint32_t resources[] = {
        CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
        CUPTI_CBID_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING};
    for (uint32_t cbid = 1; cbid < CBIDS_KNOWN + 200; cbid++)
        if (is_wanted(cbid))
            complain("cuptiEnableCallback",
                     cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, cbid));
    for (size_t i = 0; i < sizeof resources / sizeof *resources; i++)
        complain("cuptiEnableCallback of resources",
                 cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, resources[i]));
    complain("cuptiActivityRegisterCallbacks", cuptiActivityRegisterCallbacks(want_buffer, have_buffer));
    complain("MEMORY2", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2));
    complain("MEMORY_POOL", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY_POOL));
    complain("cuptiActivityFlushPeriod", cuptiActivityFlushPeriod(1000));
}

/* Destructors of libraries still free memory after this: from here on every line is written at once. */
static void finish(void)
{
    cuptiActivityFlushAll(1);
    at_the_end = 1;
    say("Z %lu %lu", (unsigned long)lines, (unsigned long)dropped_lines);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}
static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    static CUpti_SubscriberHandle subscriber;
    const char *where = getenv("ORACLE_LOG");
    uint32_t version = 0;
    if (atomic_flag_test_and_set(&done))
        return 1;
    snprintf(folder, sizeof folder, "%s", where != NULL && *where != 0 ? where : ".");
    cuptiGetVersion(&version);
    say("H 1 %d %u", (int)getpid(), version);
    CUptiResult result = cuptiSubscribe(&subscriber, on_callback, NULL);
    complain("cuptiSubscribe", result);
    if (result == CUPTI_SUCCESS)
        enable(subscriber);
    pthread_atfork(before_fork, after_fork, after_fork);
    atexit(finish);
    return 1;
}
