/*
 * driver.c - finds the driver's functions as the runtime does: dlopen, dlsym of cuGetProcAddress_v2, and all
 * others from that, by the version that introduced them.
 */
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>

struct row {
    const char *base;
    int version;
};
static const struct row rows[RT_END] = {
#define D(base, version) {#base, version},
#include "driver.def"
#undef D
};

static void *found[2][RT_END];
static PFN_cuGetProcAddress_v12000 get_proc_address;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library)
        get_proc_address = (PFN_cuGetProcAddress_v12000)dlsym(library, "cuGetProcAddress_v2");
}

bool rt_driver_there(void)
{
    pthread_once(&once, open_driver);
    return get_proc_address != NULL;
}

/* No function has a variant for the thread's own stream in an older driver. */
enum { PER_THREAD_SINCE = 7000 };

static void *find(const struct row *row, bool per_thread)
{
    int version = per_thread && row->version < PER_THREAD_SINCE ? PER_THREAD_SINCE : row->version;
    CUdriverProcAddressQueryResult status;
    void *function = NULL;
    if (!rt_driver_there() ||
        get_proc_address(row->base, &function, version,
                         per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                    : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                         &status) != CUDA_SUCCESS ||
        !function)
        dry_missing("libcuda.so.1", row->base);
    return function;
}

void *rt_driver(enum rt_driver_function function, bool per_thread)
{
    /* Two threads that come at once store the same. */
    void *known = __atomic_load_n(&found[per_thread][function], __ATOMIC_RELAXED);
    if (!known) {
        known = find(&rows[function], per_thread);
        __atomic_store_n(&found[per_thread][function], known, __ATOMIC_RELAXED);
    }
    return known;
}
