/*
 * nvml.c - the few functions of NVML that vramscope uses, declared here by their documented binary interface,
 * so that building needs neither its header nor the library.
 */
#define _GNU_SOURCE
#include "sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/contracts.h"
#include "core/lock.h"

#define PROCESSES_MAX 1024
#define NOT_AVAILABLE UINT64_MAX
#define ENTRY_MOST    32 /* bytes */
#define UNTOUCHED     0xa5
#define FIRST_PIDS    4026531836u /* the number of the pid namespace that a machine begins with */

struct process { /* nvmlProcessInfo_t of the _v3 calls */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

typedef int list_function(vs_nvml_device, unsigned *, void *);

static struct {
    int (*init)(void);
    int (*by_uuid)(const char *, vs_nvml_device *);
    list_function *compute, *graphics;
    int (*memory)(vs_nvml_device, struct vs_nvml_memory *);
} nvml;

static struct vs_lock lock = VS_LOCK(NVML); /* of the lists below, and of what was loaded */

static bool load(void)
{
    if (nvml.init)
        return true;
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!lib)
        return false;
    *(void **)&nvml.init = dlsym(lib, "nvmlInit_v2");
    *(void **)&nvml.by_uuid = dlsym(lib, "nvmlDeviceGetHandleByUUID");
    *(void **)&nvml.compute = dlsym(lib, "nvmlDeviceGetComputeRunningProcesses_v3");
    *(void **)&nvml.graphics = dlsym(lib, "nvmlDeviceGetGraphicsRunningProcesses_v3");
    *(void **)&nvml.memory = dlsym(lib, "nvmlDeviceGetMemoryInfo_v2");
    if (nvml.init && nvml.by_uuid && nvml.compute && nvml.init() == 0)
        return true;
    nvml.init = NULL;
    return false;
}

bool vs_nvml_load(void)
{
    vs_lock_take(&lock);
    bool loaded = load();
    vs_lock_give(&lock);
    return loaded;
}

vs_nvml_device vs_nvml_find(const uint8_t uuid[16])
{
    static const char *const kinds[] = {"GPU", "MIG"};
    vs_nvml_device handle;
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

/* ---- lists ---- */

static struct list {
    unsigned count;
    size_t entry; /* bytes of one */
    unsigned char bytes[PROCESSES_MAX * ENTRY_MOST];
} processes;

/* The longest entries end with eight bytes that others do not have: where the last of COUNT short ones ends
 * nothing was written. */
static size_t entry_of(const struct list *l)
{
    size_t i = l->count * sizeof(struct process);
    while (i < l->count * (size_t)ENTRY_MOST && l->bytes[i] == UNTOUCHED)
        i++;
    return i < l->count * (size_t)ENTRY_MOST ? ENTRY_MOST : sizeof(struct process);
}

/* NULL: there is none, or not all of it. */
static const struct list *list_of(list_function *list, vs_nvml_device device)
{
    struct list *l = &processes;
    l->count = PROCESSES_MAX;
    memset(l->bytes, UNTOUCHED, sizeof l->bytes);
    if (!list || list(device, &l->count, l->bytes) != 0 || l->count > PROCESSES_MAX)
        return NULL;
    l->entry = entry_of(l);
    return l;
}

static struct process process_of(const struct list *l, unsigned i)
{
    struct process p;
    memcpy(&p, l->bytes + i * l->entry, sizeof p);
    return p;
}

/* ---- whose pids they are ----
 *
 * NVML lists the processes of a device with what each uses.  Inside a container it may list the host's pids,
 * of which one may be our number and another's process, or none: then only the figure of the whole device is
 * available.  Some drivers (R535's first) write longer entries than others.
 *
 * The handle found by a MIG instance's UUID gives the instance's figures.  If only the GPU's UUID is known,
 * the list has one entry per process and instance, and their sum is the process's figure. */

static bool in_first_namespace(void)
{
    struct stat pids;
    return stat("/proc/self/ns/pid", &pids) == 0 && pids.st_ino == FIRST_PIDS;
}

static bool is_here(unsigned pid)
{
    return pid != 0 && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);
}

static bool is_foreign(void)
{
    return vs_contract_state(VS_CONTRACT_NVML) == VS_CONTRACT_BROKEN;
}

#define STRANGE_MOST 8

/* Whether pids in L are of our namespace.  A machine's own are.  Elsewhere all have to be of processes that
 * are here: among the host's pids there is another one for this process. */
static bool are_ours(const struct list *l)
{
    static unsigned strange; /* lists in a row */
    unsigned i = 0;
    if (is_foreign())
        return false;
    if (in_first_namespace()) {
        vs_contract_proven(VS_CONTRACT_NVML, "entries of %zu bytes, pids of the machine", l->entry);
        return true;
    }
    while (i < l->count && is_here(process_of(l, i).pid))
        i++;
    if (i < l->count && ++strange < STRANGE_MOST) /* a process may just have ended */
        return false;
    if (i < l->count)
        return vs_contract_broken(VS_CONTRACT_NVML, "it lists pids of another namespace");
    strange = 0;
    vs_contract_proven(VS_CONTRACT_NVML, "entries of %zu bytes, all of processes that are here", l->entry);
    return true;
}

enum listing { NO_LIST, NOT_IN_IT, WITHOUT_BYTES, WITH_BYTES };

/* Adds our process's bytes in one of the lists to *USED. */
static enum listing add_list(list_function *function, vs_nvml_device device, uint64_t *used)
{
    const struct list *list = list_of(function, device);
    unsigned pid = (unsigned)getpid();
    enum listing listing = NOT_IN_IT;
    if (!list)
        return NO_LIST;
    for (unsigned i = 0; i < list->count; i++) {
        struct process p = process_of(list, i);
        if (p.pid != pid)
            continue;
        if (listing == NOT_IN_IT && !are_ours(list))
            return is_foreign() ? NOT_IN_IT : NO_LIST; /* never in it, or not known this time */
        bool answered = p.used != NOT_AVAILABLE;
        if (answered)
            *used = (*used == VS_BYTES_UNKNOWN ? 0 : *used) + p.used;
        listing = answered || listing == WITH_BYTES ? WITH_BYTES : WITHOUT_BYTES;
    }
    return listing;
}

/* A process is in one of the two lists. */
static enum listing add_lists(vs_nvml_device device, struct vs_used *u)
{
    enum listing compute = add_list(nvml.compute, device, &u->process), graphics;
    u->answered = compute != NO_LIST;
    if (compute == WITH_BYTES)
        return compute;
    graphics = add_list(nvml.graphics, device, &u->process);
    return graphics == WITH_BYTES || graphics == WITHOUT_BYTES ? graphics : compute;
}

static struct vs_used used_of(vs_nvml_device device, bool *listed)
{
    struct vs_used u = {VS_BYTES_UNKNOWN, VS_BYTES_UNKNOWN, false};
    struct vs_nvml_memory memory = {.version = VS_NVML_MEMORY_VERSION};
    enum listing listing = add_lists(device, &u);
    if (listing == NOT_IN_IT && *listed && !is_foreign())
        u.process = 0;
    *listed = *listed || listing == WITH_BYTES;
    if (u.process == VS_BYTES_UNKNOWN && nvml.memory && nvml.memory(device, &memory) == 0)
        u.device = memory.used;
    return u;
}

struct vs_used vs_nvml_used(vs_nvml_device device, bool *listed)
{
    struct vs_used u = {VS_BYTES_UNKNOWN, VS_BYTES_UNKNOWN, false};
    if (!device)
        return u;
    vs_lock_take(&lock);
    u = used_of(device, listed);
    vs_lock_give(&lock);
    return u;
}

static bool lists_another(list_function *function, vs_nvml_device device)
{
    const struct list *list = list_of(function, device);
    for (unsigned i = 0; list && i < list->count; i++)
        if (process_of(list, i).pid != (unsigned)getpid())
            return true;
    return !list;
}

bool vs_nvml_others(vs_nvml_device device)
{
    if (!device)
        return true;
    vs_lock_take(&lock);
    bool others =
        lists_another(nvml.compute, device) || (nvml.graphics && lists_another(nvml.graphics, device));
    vs_lock_give(&lock);
    return others;
}
