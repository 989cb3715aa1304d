/*
 * caller.c - finds the library that asks the driver for memory, by the call's return address.
 *
 * No stack is unwound, so this works with call stacks off.  A call through CUDA's shared runtime returns into
 * the runtime, and its caller stays unknown; the ledger then decides by the framework's next report
 * (trace/ledger/pending.c).  XLA's BFC allocator calls the driver itself, CuPy and RMM have CUDA's runtime in
 * their files.
 */
#define _GNU_SOURCE
#include "place.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/contracts.h"
#include "core/walk.h"
#include "hooks/loader/loader.h"

typedef int find_object_fn(void *, struct dl_find_object *);

/* `name`: of a library's file up to the first '.', or to the hash that auditwheel puts behind a '-'.
 * `directory`: part of its path, if the name alone is ambiguous.  docs/coverage.md has this list. */
static const struct library {
    const char *name, *directory;
    enum vs_caller kind;
    bool xla;
    const char *pool; /* as _pools.py calls it; NULL: it asks no such library */
} libraries[] = {
    {"libc10_cuda", "", VS_CALLER_CARVER, false, NULL},
    {"xla_cuda_plugin", "", VS_CALLER_POOL, true, "JAX"},
    {"xla_extension", "", VS_CALLER_POOL, true, "JAX"}, /* before its plugin */
    {"runtime", "/cupy_backends/", VS_CALLER_POOL, false, "CuPy"},
    {"librmm", "", VS_CALLER_POOL, false, NULL},
};

/* This runs at each allocation, and nearly every caller is none of these libraries, so the names are
 * compared here and not by strncmp: most differ within the first characters. */
static bool is_file_of(const char *path, const char *base, const struct library *library)
{
    const char *name = library->name;
    while (*name != '\0' && *base == *name)
        base++, name++;
    return *name == '\0' && (*base == '.' || *base == '-') && strstr(path, library->directory) != NULL;
}

/* XLA can be set to allocate each array from the driver by itself: then it has no pool. */
static enum vs_caller unless_each(enum vs_caller kind)
{
    static _Atomic int each; /* 0: not read yet; the environment is read at the first request */
    int known = atomic_load_explicit(&each, memory_order_relaxed);
    if (known == 0) {
        const char *allocator = getenv("XLA_PYTHON_CLIENT_ALLOCATOR");
        known = allocator != NULL && strcasecmp(allocator, "platform") == 0 ? 1 : 2;
        atomic_store_explicit(&each, known, memory_order_relaxed);
    }
    return known == 1 ? VS_CALLER_UNKNOWN : kind;
}

/* NULL: none of them. */
static const struct library *library_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (is_file_of(path, base, &libraries[i]))
            return &libraries[i];
    return NULL;
}

static enum vs_caller kind_of(const char *path)
{
    const struct library *l = library_of(path);
    return l == NULL ? VS_CALLER_UNKNOWN : l->xla ? unless_each(l->kind) : l->kind;
}

static int is_of_pool(struct dl_phdr_info *info, size_t size, void *pool)
{
    const struct library *l = library_of(info->dlpi_name);
    return l != NULL && l->pool != NULL && strcmp(l->pool, pool) == 0;
}

void vs_caller_pool(const char *pool)
{
    if (vs_walk_objects(is_of_pool, (void *)(uintptr_t)pool) != 0)
        vs_contract_proven(VS_CONTRACT_LIBRARY_POOLS, "%s is loaded from a file of a known name", pool);
    else if (vs_walk_may())
        vs_contract_broken(VS_CONTRACT_LIBRARY_POOLS, "%s is loaded from no file of a known name", pool);
}

/* glibc's _dl_find_object answers without a lock, in about 20 ns, and is async-signal-safe.  Code that waits
 * for the call to return cannot be unloaded meanwhile.
 *
 * NULL before 2.35.  Looked up once: threads that come together find the same. */
static find_object_fn *find_object(void)
{
    static _Atomic(find_object_fn *) found;
    static _Atomic bool looked;
    /* acquire: a thread that sees `looked` sees `found` */
    if (__builtin_expect(!atomic_load_explicit(&looked, memory_order_acquire), 0)) {
        find_object_fn *function = (find_object_fn *)vs_dlsym_real(RTLD_DEFAULT, "_dl_find_object");
        if (function == NULL)
            dlerror(); /* the host must not see the error of our search */
        atomic_store_explicit(&found, function, memory_order_relaxed);
        atomic_store_explicit(&looked, true, memory_order_release);
    }
    return atomic_load_explicit(&found, memory_order_relaxed);
}

void vs_caller_prepare(void)
{
    find_object();
}

enum vs_caller vs_caller_of(const void *caller)
{
    struct dl_find_object object;
    int saved = errno;
    find_object_fn *find = caller != NULL ? find_object() : NULL;
    enum vs_caller kind = VS_CALLER_UNKNOWN;
    /* minus one: a call may be the last instruction of its object */
    if (find != NULL && find((char *)(uintptr_t)caller - 1, &object) == 0 && object.dlfo_link_map != NULL)
        kind = kind_of(object.dlfo_link_map->l_name);
    errno = saved;
    return kind;
}
