/*
 * driver.c - the addresses of the driver's real functions.
 *
 * They are looked up all at once, in the object that the host loaded under a soname libcuda.so*, when one is
 * first needed: by a look-up by name (resolve.c) or a call of a directly linked wrapper.  This is idempotent
 * and takes no lock of ours: a lock held across dlopen, which takes the loader's, could meet a thread that
 * holds the loader's and waits for ours.
 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>

#include "hooks/loader/next.h"
#include "hooks/loader/objects.h"

_Atomic(void *) vs_real_table[VS_API_END];
_Atomic(void *) vs_call_table[VS_CALL_END];

/* Functions of a provider that replace the driver's, and the driver's functions that they replace.  The
 * first are written before the look-up, the second together with the table. */
static void *override[VS_API_END];
static _Atomic(void *) under[VS_API_END];

/* The driver that was found: its mapped range, and a handle that keeps it loaded as long as we point into
 * it.  `driver_start` is stored last and with release, so a thread that sees it non-zero (acquire) sees the
 * rest.
 */
static _Atomic uintptr_t driver_start, driver_end;
static _Atomic(void *) driver_handle;

/* The driver's function NAME; NULL if the handle's scope gave another object's. */
static void *own_symbol(void *handle, const struct vs_loaded *driver, const char *name)
{
    uintptr_t p = (uintptr_t)vs_dlsym_real(handle, name);
    return p >= driver->start && p < driver->end ? (void *)p : NULL;
}

static void learn_from(void *handle, const struct vs_loaded *driver)
{
    static const struct {
        enum vs_api api;
        const char *symbol;
    } hooked[] = {
#define VS_API(number, name, base, since, kind, shape, shape_args, n, signature) {VS_API_##name, #name},
#include "trace/driver.def"
#undef VS_API
    };
    static const char *const calls[] = {
#define X(symbol, n, signature) #symbol,
        VS_CALLS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++) {
        enum vs_api api = hooked[i].api;
        void *own = own_symbol(handle, driver, hooked[i].symbol);
        atomic_store_explicit(&under[api], own, memory_order_relaxed);
        /* release: with `under`, for functions that are called through it */
        atomic_store_explicit(&vs_real_table[api], own != NULL && override[api] != NULL ? override[api] : own,
                              memory_order_release);
    }
    for (size_t i = 0; i < VS_CALL_END; i++)
        atomic_store_explicit(&vs_call_table[i], own_symbol(handle, driver, calls[i]), memory_order_relaxed);
    /* clears the error that a name missing in an older driver has left for the host's dlerror() */
    dlerror();
}

void vs_override(enum vs_api api, void *function)
{
    override[api] = function;
}

void *vs_real_under(enum vs_api api)
{
    return atomic_load_explicit(&under[api], memory_order_relaxed);
}

bool vs_driver_learn(void)
{
    /* acquire: pairs with the release below, so the tables are there */
    if (atomic_load_explicit(&driver_start, memory_order_acquire) != 0)
        return true;
    struct vs_loaded driver;
    if (!vs_loaded_driver(&driver))
        return false;
    void *handle = dlopen(driver.name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        dlerror();
        return false;
    }
    learn_from(handle, &driver);
    atomic_store_explicit(&driver_handle, handle, memory_order_relaxed);
    atomic_store_explicit(&driver_end, driver.end, memory_order_relaxed);
    atomic_store_explicit(&driver_start, driver.start, memory_order_release);
    return true;
}

bool vs_driver_owns(const void *address)
{
    uintptr_t p = (uintptr_t)address;
    uintptr_t start = atomic_load_explicit(&driver_start, memory_order_acquire);
    return start != 0 && p >= start && p < atomic_load_explicit(&driver_end, memory_order_relaxed);
}

void *vs_real_slow(enum vs_api api)
{
    int saved = errno;
    bool known = vs_driver_learn();
    errno = saved;
    return known ? atomic_load_explicit(&vs_real_table[api], memory_order_relaxed) : NULL;
}

void *vs_cuda_real(const char *name)
{
    if (!vs_driver_learn())
        return NULL;
    void *p = vs_dlsym_real(atomic_load_explicit(&driver_handle, memory_order_relaxed), name);
    if (p == NULL)
        dlerror();
    return p != NULL && vs_driver_owns(p) ? p : NULL;
}
