/*
 * nvtx_init.c - becoming a program's NVTX tool, without taking it from another.
 *
 * NVTX is header-only: every shared object that uses it has a copy of its own.  At its first NVTX call the
 * copy loads the library that NVTX_INJECTION64_PATH names and passes a function that gives its tables.  So
 * we are called, and fill tables, once per shared object.
 *
 * If the user had set a tool there already, `vramscope run` keeps its path in VRAMSCOPE_NVTX_CHAIN.  That
 * tool fills tables of ours instead of the program's, and our functions call its functions.  Entries that we
 * do not need, and whose arguments have no handle of ours, get the other tool's function directly.  NVTX's
 * extensions (payload schemas, counters) are not passed on: their arguments have handles that only we know
 * (nvtx_payload.c has what we need of them).
 *
 * Not seen: the old libnvToolsExt.so (NVTX 1 and 2, torch before 2.4), which has no injection of this kind.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "nvtx.h"
#include "core/contracts.h"
#include "core/log.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT int InitializeInjectionNvtx2(nvtx_get_export_table *get);

typedef int initialize_fn(nvtx_get_export_table *get);

nvtx_function *nvtx_chain_core[CORE_SLOTS], *nvtx_chain_core2[CORE2_SLOTS], *nvtx_chain_sync[SYNC_SLOTS];
static nvtx_function *chain_cuda[CUDA_SLOTS], *chain_opencl[OPENCL_SLOTS], *chain_cudart[CUDART_SLOTS];

/* One row a module: our functions, the other tool's, and the table of addresses that the other tool
 * is given. */
#define MODULES(X)                                                                                           \
    X(NVTX_CORE, CORE_SLOTS, nvtx_ours_core, nvtx_chain_core)                                                \
    X(NVTX_CUDA, CUDA_SLOTS, NULL, chain_cuda)                                                               \
    X(NVTX_OPENCL, OPENCL_SLOTS, NULL, chain_opencl)                                                         \
    X(NVTX_CUDART, CUDART_SLOTS, NULL, chain_cudart)                                                         \
    X(NVTX_CORE2, CORE2_SLOTS, nvtx_ours_core2, nvtx_chain_core2)                                            \
    X(NVTX_SYNC, SYNC_SLOTS, nvtx_ours_sync, nvtx_chain_sync)

enum { MOST_SLOTS = 32 };
static const struct {
    unsigned slots;
    nvtx_function *const *ours;
    nvtx_function **chain;
} modules[NVTX_MODULES] = {
#define X(module, slots, ours, chain) [module] = {slots, ours, chain},
    MODULES(X)
#undef X
};

/* ---- the other tool ---- */

static nvtx_get_export_table *program; /* of the shared object that initialises now */

static int chain_table(int module, nvtx_function ****table, unsigned *slots)
{
    static nvtx_function **rows[NVTX_MODULES][MOST_SLOTS + 1];

    if (module <= 0 || module >= NVTX_MODULES)
        return 0;
    for (unsigned i = 0; i < modules[module].slots; i++)
        rows[module][i] = i ? &modules[module].chain[i] : NULL;
    if (slots)
        *slots = modules[module].slots;
    if (table)
        *table = rows[module];
    return 1;
}

static const void *chain_export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = {sizeof(callbacks), chain_table};

    return id == NVTX_TABLE_CALLBACKS ? &callbacks : program(id);
}

static initialize_fn *load_chain(void)
{
    const char *path = secure_getenv("VRAMSCOPE_NVTX_CHAIN");
    void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
    initialize_fn *f = library ? (initialize_fn *)dlsym(library, "InitializeInjectionNvtx2") : NULL;

    if (f == InitializeInjectionNvtx2)
        return NULL;
    if (!f && path && *path)
        vs_log("NVTX tool %s (VRAMSCOPE_NVTX_CHAIN): %s; going on without it", path,
               library ? "has no InitializeInjectionNvtx2" : "cannot be loaded");
    return f;
}

/* Initialises the other tool once per shared object, as NVTX would without us; its result is ignored. */
static void initialize_chain(nvtx_get_export_table *get)
{
    static int known; /* atomic: 1 looked, 2 found */
    static initialize_fn *chain;

    if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE)) {
        initialize_fn *found = load_chain(); /* threads that come here at the same time find the same */

        __atomic_store_n(&chain, found, __ATOMIC_RELAXED);
        __atomic_store_n(&known, 1, __ATOMIC_RELEASE);
    }
    initialize_fn *f = __atomic_load_n(&chain, __ATOMIC_RELAXED);

    program = get;
    if (f)
        f(chain_export_table);
}

/* ---- the program's tables ---- */

static void fill(const struct nvtx_callbacks *callbacks, int module)
{
    nvtx_function ***table = NULL;
    unsigned slots = 0;

    if (!callbacks->get_table(module, &table, &slots) || !table)
        return;
    for (unsigned i = 1; i < slots && i < modules[module].slots; i++) {
        nvtx_function *f = modules[module].ours ? modules[module].ours[i] : NULL;

        if (!f)
            f = modules[module].chain[i];
        if (f && table[i])
            *table[i] = f;
    }
}

int InitializeInjectionNvtx2(nvtx_get_export_table *get)
{
    const struct nvtx_callbacks *callbacks = get ? get(NVTX_TABLE_CALLBACKS) : NULL;

    if (!callbacks || callbacks->struct_size < sizeof(*callbacks) || !callbacks->get_table)
        return vs_contract_broken(VS_CONTRACT_NVTX_TABLES, "a program's NVTX has no tables of version 3");
    initialize_chain(get);
    for (int module = NVTX_CORE; module < NVTX_MODULES; module++)
        fill(callbacks, module);
    vs_contract_proven(VS_CONTRACT_NVTX_TABLES, "a program's tables are of version 3");
    return 1;
}
