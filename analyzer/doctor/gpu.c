/* gpu.c - checks the driver, its devices and NVML, in a child process, because a driver may crash or hang. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"
#include "trace/api.h"
#include "base/units.h"

typedef int (*init_fn)(unsigned);
typedef int (*get_int_fn)(int *);
typedef int (*get_device_fn)(int *, int);
typedef int (*get_name_fn)(char *, int, int);
typedef int (*get_bytes_fn)(size_t *, int);
typedef int (*retain_fn)(void **, int);

#define NO_GPU "install NVIDIA's driver, or try vramscope out: `vramscope run --simulated`"

static void path_of(void *handle, char *path, size_t size)
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !realpath(map->l_name, path))
        snprintf(path, size, "libcuda.so.1");
}

static void say_device(struct doctor *d, void *cuda, int ordinal, bool simulated)
{
    get_device_fn get_device = (get_device_fn)dlsym(cuda, "cuDeviceGet");
    get_name_fn get_name = (get_name_fn)dlsym(cuda, "cuDeviceGetName");
    get_bytes_fn total = (get_bytes_fn)dlsym(cuda, "cuDeviceTotalMem_v2");
    char name[128] = "?";
    size_t bytes = 0;
    int device;
    if (!get_device || get_device(&device, ordinal) != 0)
        return;
    if (get_name)
        get_name(name, sizeof name, device);
    if (total)
        total(&bytes, device);
    char *topic = xformat("device %d", ordinal);
    d->facts |= DOCTOR_DEVICE | (simulated ? DOCTOR_SIMULATED : 0);
    doctor_say(d, DOCTOR_OK, topic, NULL, "%s, %s%s", name, units_bytes((int64_t)bytes, false).s,
               simulated ? " (simulated: no GPU)" : "");
    free(topic);
}

static bool is_hooked(const char *name)
{
    for (uint64_t api = 1; api < VS_API_END; api++)
        if (vs_api_name(api) && !strcmp(vs_api_name(api), name))
            return true;
    return false;
}

/* NAME without its version: cuMemAlloc of cuMemAlloc_v2. */
static void base_of(char *out, size_t size, const char *name)
{
    const char *v = strstr(name, "_v");
    snprintf(out, size, "%.*s", (int)(v && v[2] >= '0' && v[2] <= '9' ? (size_t)(v - name) : strlen(name)),
             name);
}

static void say_newer_forms(struct doctor *d, void *cuda, const char *base)
{
    char name[128];
    for (int version = 2; version < 10; version++) {
        snprintf(name, sizeof name, "%.100s_v%d", base, version);
        if (!is_hooked(name) && dlsym(cuda, name))
            doctor_say(d, DOCTOR_WARN, "driver",
                       "look for a newer vramscope; what programs allocate by it is in the residual",
                       "has %s, which this vramscope does not know", name);
    }
}

/* The driver may have a newer variant of a function that we hook. */
static void say_newer_functions(struct doctor *d, void *cuda)
{
    char base[101];
    for (uint64_t api = 1; api < VS_API_END; api++) {
        const char *name = vs_api_name(api);
        if (!name || strstr(name, "_ptsz"))
            continue;
        base_of(base, sizeof base, name);
        if (strcmp(base, name) == 0 || !is_hooked(base)) /* each once */
            say_newer_forms(d, cuda, base);
    }
}

/* How many devices there are. */
static int say_driver(struct doctor *d, void *cuda)
{
    char path[PATH_MAX];
    init_fn init = (init_fn)dlsym(cuda, "cuInit");
    get_int_fn get_version = (get_int_fn)dlsym(cuda, "cuDriverGetVersion");
    get_int_fn get_count = (get_int_fn)dlsym(cuda, "cuDeviceGetCount");
    bool simulated = dlsym(cuda, "simcuda_device_count") != NULL;
    int version = 0, count = 0, error = init ? init(0) : -1;
    path_of(cuda, path, sizeof path);
    if (error != 0) {
        doctor_say(d, DOCTOR_WARN, "driver",
                   error == 100 ? "no GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"
                                : "check that nvidia-smi works here",
                   "%s: cuInit fails with error %d", path, error);
        return 0;
    }
    if (get_version)
        get_version(&version);
    if (get_count)
        get_count(&count);
    doctor_say(d, simulated ? DOCTOR_WARN : DOCTOR_OK, "driver",
               simulated ? "good for trying vramscope out; its figures are no GPU's" : NULL,
               "%s%s, CUDA %d.%d", simulated ? "the SIMULATED driver, " : "", path, version / 1000,
               version % 1000 / 10);
    say_newer_functions(d, cuda);
    for (int i = 0; i < count && i < 16; i++)
        say_device(d, cuda, i, simulated);
    return count;
}

struct nvml_process { /* nvmlProcessInfo_t of the _v3 call */
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};
typedef int (*nvml_init_fn)(void);
typedef int (*nvml_device_fn)(unsigned, void **);
typedef int (*nvml_processes_fn)(void *, unsigned *, struct nvml_process *);

#define NVML_TODO                                                                                            \
    "samples fall back to the whole device's figure (cuMemGetInfo); in containers: share the host's pid "    \
    "namespace"

/* Makes a context, which NVML must then show for our process. */
static void say_nvml(struct doctor *d, void *cuda)
{
    struct nvml_process list[256];
    unsigned n = 256;
    void *context, *device;
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml) {
        doctor_say(d, DOCTOR_WARN, "NVML", NVML_TODO, "%s", dlerror());
        return;
    }
    nvml_init_fn init = (nvml_init_fn)dlsym(nvml, "nvmlInit_v2");
    nvml_device_fn get_device = (nvml_device_fn)dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
    nvml_processes_fn get = (nvml_processes_fn)dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
    retain_fn retain = (retain_fn)dlsym(cuda, "cuDevicePrimaryCtxRetain");
    if (!init || !get_device || !get || init() != 0 || get_device(0, &device) != 0) {
        doctor_say(d, DOCTOR_WARN, "NVML", NVML_TODO, "it does not answer");
        return;
    }
    int error = retain ? retain(&context, 0) : -1;
    if (error != 0) {
        doctor_say(d, DOCTOR_WARN, "NVML", "free some device memory and ask again",
                   "not asked: no context on device 0 (error %d)", error);
        return;
    }
    error = get(device, &n, list);
    for (unsigned i = 0; error == 0 && i < n; i++) {
        if (list[i].pid == (unsigned)getpid()) {
            doctor_say(d, DOCTOR_OK, "NVML", NULL, "tells processes apart; a context alone uses %s",
                       list[i].bytes == ~0ull ? "?" : units_bytes((int64_t)list[i].bytes, false).s);
            return;
        }
    }
    doctor_say(d, DOCTOR_WARN, "NVML", NVML_TODO, "does not show this process (error %d, %u processes)",
               error, n);
}

static void ask(struct doctor *d)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int devices = cuda ? say_driver(d, cuda) : 0;
    if (!cuda)
        doctor_say(d, DOCTOR_WARN, "driver", NO_GPU, "%s", dlerror());
    if (devices > 0 && !d->quick)
        say_nvml(d, cuda); /* before the arena's check, which makes contexts on all devices */
    doctor_arena(d, cuda, devices);
}

void doctor_gpu(struct doctor *d)
{
    char why[256];
    if (!doctor_child(d, ask, 60, why, sizeof why))
        doctor_say(d, DOCTOR_FAIL, "driver", "check that nvidia-smi works here", "asking the driver: %s",
                   why);
}
