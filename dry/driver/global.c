/*
 * global.c - variables of device code: in dry mode each name is one, with GLOBAL bytes of zeros (its real
 * size stands in the code, which is not read); they cost nothing.
 */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#define GLOBAL (1ull << 20)
#define ROOM   (32ull << 20)

struct global {
    struct global *next;
    uint64_t owner, address;
    char name[];
};
static struct global *globals;
static uint64_t next_address, room_end;

static struct global *find(uint64_t owner, const char *name)
{
    struct global *g = globals;
    while (g && (g->owner != owner || strcmp(g->name, name) != 0))
        g = g->next;
    return g;
}

static struct global *make(uint64_t owner, const char *name, int device)
{
    if (next_address == room_end) {
        next_address = sim_room_take(ROOM, ROOM, 0, 0);
        room_end = next_address ? next_address + ROOM : 0;
    }
    struct global *g = next_address ? calloc(1, sizeof *g + strlen(name) + 1) : NULL;
    if (!g || !sim_block_add(next_address, GLOBAL, SIM_GLOBAL, device)) {
        free(g);
        return NULL;
    }
    g->next = globals;
    g->owner = owner;
    g->address = next_address;
    strcpy(g->name, name);
    next_address += GLOBAL;
    globals = g;
    return g;
}

static CUresult get(CUdeviceptr *address, size_t *bytes, uint64_t owner, const struct sim_image *image,
                    const char *name)
{
    if (!sim_dry())
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!image)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    struct global *g = find(owner, name);
    if (!g)
        g = make(owner, name, sim_context_current()->device);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (address)
        *address = g->address;
    if (bytes)
        *bytes = GLOBAL;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    SIM_CALL(SIM_CONTEXT);
    return get(address, bytes, (uint64_t)module, sim_module_image((uint64_t)module), name);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    SIM_CALL(SIM_CONTEXT);
    return get(address, bytes, (uint64_t)library, sim_library_image((uint64_t)library), name);
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    SIM_CALL(SIM_CONTEXT);
    return get(address, bytes, (uint64_t)library, sim_library_image((uint64_t)library), name);
}
