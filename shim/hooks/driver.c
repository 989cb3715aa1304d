/*
 * driver.c - the addresses of the driver's real functions, in the libcuda.so* that the host loaded.
 *
 * All are looked up when the first is needed.  That takes no lock of ours: one that is held across dlopen,
 * which takes the loader's, could meet a thread that holds the loader's and waits for ours.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>

#include "hooks/loader/loader.h"

_Atomic(void *) vs_real_table[VS_API_END];
_Atomic(void *) vs_call_table[VS_CALL_END];

/* Functions of a provider that replace the driver's, written before the look-up; the driver's own, written
 * together with the table; and those of interposers, which come between the two. */
static void *override[VS_API_END];
/* Those that stand below them, of the limit on a device's memory (limit/). */
static void *beneath[VS_API_END];
static _Atomic(void *) own_table[VS_API_END], interposed[VS_API_END], pass[VS_API_END];

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

static void learn_row(enum vs_api api, void *own)
{
    /* in one order with vs_interpose, each of which reads what the other writes: one of them sees both */
    atomic_store(&own_table[api], own);
    /* release: with what is called through it */
    atomic_store_explicit(&vs_real_table[api],
                          own != NULL && override[api] != NULL ? override[api] : vs_real_under(api),
                          memory_order_release);
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
    for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++)
        learn_row(hooked[i].api, own_symbol(handle, driver, hooked[i].symbol));
    for (size_t i = 0; i < VS_CALL_END; i++)
        atomic_store_explicit(&vs_call_table[i], own_symbol(handle, driver, calls[i]), memory_order_relaxed);
    /* clears the error that a name missing in an older driver has left for the host's dlerror() */
    dlerror();
}

void vs_override(enum vs_api api, void *function)
{
    override[api] = function;
}

void vs_put_beneath(enum vs_api api, void *function)
{
    beneath[api] = function;
}

void *vs_real_under(enum vs_api api)
{
    return beneath[api] != NULL && vs_driver_own(api) != NULL ? beneath[api] : vs_real_beneath(api);
}

void *vs_real_beneath(enum vs_api api)
{
    void *own = vs_driver_own(api);
    return vs_interposed(api) == NULL ? own : atomic_load(&pass[api]);
}

void *vs_driver_own(enum vs_api api)
{
    return atomic_load(&own_table[api]);
}

void vs_driver_own_is(enum vs_api api, void *function)
{
    void *none = NULL;
    atomic_compare_exchange_strong_explicit(&own_table[api], &none, function, memory_order_relaxed,
                                            memory_order_relaxed);
    none = NULL;
    atomic_compare_exchange_strong_explicit(&vs_real_table[api], &none,
                                            override[api] != NULL ? override[api] : function,
                                            memory_order_relaxed, memory_order_relaxed);
}

void *vs_interposed(enum vs_api api)
{
    return atomic_load(&interposed[api]);
}

void vs_interpose(const struct vs_row *row, void *function)
{
    void *none = NULL;
    atomic_store(&pass[row->api], row->pass);
    if (!atomic_compare_exchange_strong(&interposed[row->api], &none, function))
        return;
    void *own = vs_driver_own(row->api); /* NULL: the driver is learnt later, with this in its place */
    /* what a provider has put there stays: it asks for what is under it at each call */
    if (own != NULL)
        atomic_compare_exchange_strong(&vs_real_table[row->api], &own, row->pass);
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
    if (known)
        return atomic_load_explicit(&vs_real_table[api], memory_order_relaxed);
    return vs_interposed(api) != NULL ? atomic_load(&pass[api]) : NULL; /* which loads the driver itself */
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
