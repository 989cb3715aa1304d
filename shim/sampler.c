/*
 * sampler.c - what the driver itself says that the process uses, beside what we counted; and the host's
 * memory.
 *
 * NVML knows it per process and device and needs no CUDA context.  It has a thread of its own: the library
 * may be shared with the host, and so must the descriptors be that it opens, while the drain thread has a
 * table of its own (drain.c).  Where NVML is not there the thread ends at once.  Where it does not list us (a
 * container's pids are not the host's) or can't say, one of the host's own threads is asked to ask the driver
 * (vs_sample_take_request).
 *
 * Only a handful of NVML's functions are used, declared here by their documented binary interface, so that no
 * NVIDIA header or library is needed to build.  A sample that says nothing new is written once more, then
 * once a second only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "recording.h"
#include "trace/procstat.h"

#define DEVICES_MAX   64
#define PROCESSES_MAX 256
#define REPEAT_NS     UINT64_C(1000000000)
#define NOT_AVAILABLE UINT64_MAX
#define LAST_MS       5000

struct nvml_process { /* nvmlProcessInfo_t of the _v3 calls */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
typedef void *nvml_device;

static struct {
    int (*init)(void);
    int (*by_uuid)(const char *, nvml_device *);
    int (*compute)(nvml_device, unsigned *, struct nvml_process *);
    int (*graphics)(nvml_device, unsigned *, struct nvml_process *);
} nvml;

static struct device {
    uint32_t row; /* journal device id looked at; 0 = unused */
    nvml_device handle;
    uint64_t last_used, last_rss, last_ns;
    bool settled; /* last_used was written twice */
} devices[DEVICES_MAX];

/* ---- the host ---- */

uint64_t vs_sampler_rss(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* ---- NVML ---- */

static bool load(void)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    *(void **)&nvml.init = dlsym(lib, "nvmlInit_v2");
    *(void **)&nvml.by_uuid = dlsym(lib, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml.compute = dlsym(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml.graphics = dlsym(lib, "nvmlDeviceGetGraphicsRunningProcesses_v3");
    return nvml.init && nvml.by_uuid && nvml.compute && nvml.init() == 0;
}

static nvml_device find(const uint8_t uuid[16])
{
    static const char *const kinds[] = {"GPU", "MIG"};
    nvml_device handle;
    char text[64];
    for (int k = 0; k < 2; k++) {
        int n = snprintf(text, sizeof text, "%s-", kinds[k]);
        for (int i = 0; i < 16; i++)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
        if (nvml.by_uuid(text, &handle) == 0)
            return handle;
    }
    return NULL;
}

/* Our bytes in one of the lists; NOT_AVAILABLE where we are not in it. */
static uint64_t in_list(int (*list)(nvml_device, unsigned *, struct nvml_process *), nvml_device device)
{
    static struct nvml_process process[PROCESSES_MAX];
    unsigned count = PROCESSES_MAX, pid = (unsigned)getpid();
    uint64_t used = NOT_AVAILABLE;
    if (!list || list(device, &count, process) != 0)
        return NOT_AVAILABLE;
    for (unsigned i = 0; i < count && i < PROCESSES_MAX; i++)
        if (process[i].pid == pid && process[i].used != NOT_AVAILABLE)
            used = (used == NOT_AVAILABLE ? 0 : used) + process[i].used;
    return used;
}

static uint64_t used_by_us(const struct device *d)
{
    if (!d->handle)
        return NOT_AVAILABLE;
    uint64_t used = in_list(nvml.compute, d->handle);
    return used != NOT_AVAILABLE ? used : in_list(nvml.graphics, d->handle);
}

/* ---- a tick ---- */

static void write_sample(struct vs_recording *r, struct vs_journal *j, int32_t ordinal, uint64_t used,
                         uint64_t rss)
{
    struct vs_event e = {
        .op = VS_OP_SAMPLE,
        .device = (int8_t)ordinal,
        .size = used,
        .arg0 = VS_SAMPLE_NVML_PROCESS,
        .arg1 = rss,
        .t_ns = vs_clock_ns(),
        .thread = vs_record_thread_id(j, atomic_load_explicit(&r->generation, memory_order_relaxed)),
    };
    vs_journal_try_append(j, &e); /* a sample is not worth a wait */
}

/* Whether the device was dealt with here. */
static bool sample_device(struct vs_recording *r, struct vs_journal *j, struct device *d, int32_t ordinal,
                          uint64_t rss)
{
    uint64_t used = used_by_us(d), now = vs_clock_ns();
    if (used == NOT_AVAILABLE)
        return false;
    /* The first sample of a new figure may have come between a driver call and its event, with our own figure
     * still the old one beside it: the same again at the next tick has both. */
    if (used == d->last_used && d->settled && now - d->last_ns < REPEAT_NS)
        return true;
    d->settled = used == d->last_used;
    d->last_used = used;
    d->last_rss = rss;
    d->last_ns = now;
    write_sample(r, j, ordinal, used, rss);
    return true;
}

/* One look at every known device; whoever NVML can't tell of is asked for through the host's threads. */
static void tick(struct vs_recording *r, struct vs_journal *j)
{
    uint64_t rss = atomic_load_explicit(&r->host_rss, memory_order_relaxed);
    const struct vs_device_row *row;
    bool all = true;
    if (!rss) /* the drain thread has not looked yet: the next tick then */
        return;
    for (uint32_t id = 1; id <= DEVICES_MAX && (row = vs_journal_get_device(j, id)); id++) {
        struct device *d = &devices[id - 1];
        if (d->row != id) {
            d->row = id;
            d->handle = find(row->uuid);
        }
        all = sample_device(r, j, d, row->ordinal, rss) && all;
    }
    if (!all)
        atomic_store_explicit(&r->sample_wanted, 1, memory_order_relaxed);
}

/* Sleeps, but wakes at the end of the recording. */
static void pause_ms(struct vs_recording *r, uint64_t ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
    syscall(SYS_futex, &r->stop, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

static bool stopped(struct vs_recording *r)
{
    return atomic_load_explicit(&r->stop, memory_order_acquire);
}

/* False where NVML can be of no use. */
static bool nvml_usable(struct vs_recording *r, struct vs_journal *j)
{
    while (!vs_journal_get_device(j, 1) && !stopped(r))
        pause_ms(r, vs_options.sample_ms);
    return !stopped(r) &&
           load(); /* a real NVML knows no device of the simulated driver, which brings its own */
}

static void sample_until_stopped(struct vs_recording *r, struct vs_journal *j)
{
    memset(devices, 0, sizeof devices); /* a fork child finds its parent's handles in them */
    if (vs_options.sample_ms && nvml_usable(r, j)) {
        atomic_store_explicit(&r->nvml, 1, memory_order_relaxed);
        for (; !stopped(r); pause_ms(r, vs_options.sample_ms))
            tick(r, j);
    }
    while (!stopped(r))
        pause_ms(r, 3600000);
}

/* The host's threads are gone.  When we return as the very last one, glibc calls exit on this thread, and the
 * host's handlers run and its output is flushed; so the drain's thread must have left before, to the last of
 * its instructions. */
static void be_the_last(void)
{
    struct vs_procstat s;
    struct timespec t = {0, 1000000};
    for (int ms = 0; ms < LAST_MS && vs_procstat(getpid(), &s) && s.threads > 2; ms++)
        nanosleep(&t, NULL);
}

void *vs_sampler_main(void *recording)
{
    struct vs_recording *r = recording;
    vs_record_enter_internal();
    prctl(PR_SET_NAME, "vramscope-nvml");
    sample_until_stopped(r, r->sampler_journal);
    if (atomic_load(&r->alone))
        be_the_last();
    vs_record_leave_internal();
    atomic_fetch_sub(&r->threads, 1);
    pthread_sigmask(SIG_SETMASK, &r->host_signals, NULL);
    return NULL;
}
