/*
 * asker.c - whose code asks the driver for memory: one look at the address that the call returns to.
 *
 * A caching allocator that calls the driver itself, as PyTorch's does for expandable segments, is known by
 * the library that this address lies in.  No stack is unwound, so it is known with call stacks off as well.
 * What reaches the driver through CUDA's runtime returns into the runtime and stays unknown; the ledger then
 * decides by what the framework reports next (trace/ledger_pending.c).
 *
 * glibc's _dl_find_object answers without a lock, in about 20 ns, and is async-signal-safe.  There is no
 * table of ours to keep up to date: code that waits for the call to return cannot be unloaded meanwhile.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef int find_object_fn(void *, struct dl_find_object *);

/* The name of a library's file up to the first '.', or to the hash that auditwheel puts behind a '-'. */
static const struct {
    const char *name;
    enum vs_asker asker;
} libraries[] = {
    {"libc10_cuda", VS_ASKER_CARVER},
};

static bool is_named(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t n = strlen(name);
    return strncmp(base, name, n) == 0 && (base[n] == '.' || base[n] == '-');
}

/* glibc's function, NULL before 2.35.  Looked up once: threads that come together find the same. */
static find_object_fn *find_object(void)
{
    static _Atomic(find_object_fn *) found;
    static _Atomic bool looked;
    /* acquire: who sees `looked` sees `found` */
    if (__builtin_expect(!atomic_load_explicit(&looked, memory_order_acquire), 0)) {
        find_object_fn *function = (find_object_fn *)vs_dlsym_real(RTLD_DEFAULT, "_dl_find_object");
        if (function == NULL)
            dlerror(); /* the host must not find what we failed to find */
        atomic_store_explicit(&found, function, memory_order_relaxed);
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    return atomic_load_explicit(&found, memory_order_relaxed);
}

void vs_asker_prepare(void)
{
    find_object();
}

enum vs_asker vs_asker_of(const void *caller)
{
    struct dl_find_object object;
    int saved = errno;
    find_object_fn *find = caller != NULL ? find_object() : NULL;
    enum vs_asker asker = VS_ASKER_UNKNOWN;
    /* minus one: a call may be the last instruction of its object */
    if (find != NULL && find((char *)(uintptr_t)caller - 1, &object) == 0 && object.dlfo_link_map != NULL)
        for (size_t i = 0; i < sizeof libraries / sizeof *libraries && asker == VS_ASKER_UNKNOWN; i++)
            if (is_named(object.dlfo_link_map->l_name, libraries[i].name))
                asker = libraries[i].asker;
    errno = saved;
    return asker;
}
