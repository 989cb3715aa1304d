/*
 * events.h - records hooked calls, by families of functions.
 *
 * The shapes (shapes.h) call these between vs_hook_enter() and vs_hook_leave(): those with `before` in their
 * name before the real call, those with `after` after it.  They may change errno, which the shapes restore.
 * Any thread, no lock, no allocation.
 */
#ifndef VS_HOOKS_EVENTS_H
#define VS_HOOKS_EVENTS_H

#include <errno.h>

#include "driver.h"
#include "place.h"
#include "provider/provider.h"
#include "trace/event.h"

/* after the real call (alloc.c) */
void vs_after_alloc(enum vs_api api, enum vs_space space, uint64_t address, uint64_t size, const void *caller,
                    CUresult status);
/* likewise if a provider may have served: G's description of the block takes precedence over SPACE */
void vs_after_given(enum vs_api api, enum vs_space space, const struct vs_given *g, uint64_t address,
                    uint64_t size, const void *caller, CUresult status);
/* before the real call; returns the event's sequence.  SPACE as far as the function determines it. */
uint64_t vs_before_free(enum vs_api api, enum vs_op op, enum vs_space space, uint64_t address, uint64_t size,
                        uint64_t stream);
/* after it: if it failed, takes the free back; otherwise takes a sample if one was requested */
void vs_after_free(uint64_t seq, enum vs_space space, uint64_t address, CUresult status);
/* Of a list of handles, each freed (or unbound, ...) by one call: the first VS_MANY are recorded
 * before it. */
#define VS_MANY 64
struct vs_many {
    unsigned count;
    uint64_t seq[VS_MANY], address[VS_MANY];
};

/* stream-ordered memory (pool.c), by a provider where G says so; POOL NULL: the stream's device's
 * current one */
void vs_after_pool_alloc(enum vs_api api, const struct vs_given *g, uint64_t address, uint64_t size,
                         CUmemoryPool pool, CUstream stream, CUresult status);
void vs_after_pool_free(CUstream stream);
void vs_pool_trimmed(CUmemoryPool pool);
void vs_pool_destroyed(CUmemoryPool pool);
void vs_pool_current_changed(int device); /* -1: of any device */
void vs_pool_imported(CUmemoryPool pool);
void vs_pools_reset(int device); /* its primary context has ended, and perhaps the memory of its pools */
void vs_pools_query(int device); /* samples the device's current pool, if it is known */

/* virtual memory management (vmm.c) */
void vs_after_phys_create(enum vs_api api, uint64_t handle, uint64_t size, const CUmemAllocationProp *prop,
                          const void *caller, CUresult status);

/* multicast objects and logical endpoints (vmm.c) */
void vs_after_multicast_create(enum vs_api api, uint64_t object, uint64_t size, CUresult status);
uint64_t vs_multicast_key(int device, uint64_t offset);
/* Whether memory at LOCATION is a device's, and which device's. */
bool vs_on_device(const CUmemLocation *location, int *device);
int vs_device_of_handle(CUmemGenericAllocationHandle handle);
int vs_device_of_address(CUdeviceptr address);

/* arrays (array.c): the bytes that a descriptor requests */
struct vs_array {
    size_t width, height, depth;
    unsigned channels, flags;
    CUarray_format format;
};
uint64_t vs_array_bytes(const struct vs_array *array, unsigned levels);
void vs_before_map_arrays(const CUarrayMapInfo *list, unsigned count, struct vs_many *undone);
void vs_after_map_arrays(const CUarrayMapInfo *list, unsigned count, const struct vs_many *undone,
                         CUresult status);

/* imports (alloc.c) */
void vs_after_import(enum vs_api api, CUdeviceptr address, CUresult status);
void vs_after_graphics_map(enum vs_api api, unsigned count, CUgraphicsResource *resources, CUresult status);
void vs_before_graphics_unmap(enum vs_api api, unsigned count, CUgraphicsResource *resources,
                              struct vs_many *undone);
void vs_after_graphics_unmap(enum vs_api api, unsigned count, CUgraphicsResource *resources,
                             const struct vs_many *undone, CUresult status);

/* contexts, limits, modules (context.c) */
struct vs_primary { /* a device's primary context before a call that may end it */
    CUdevice device;
    bool active;
    CUcontext context;
    uint64_t seq; /* of the event that ends it */
};
void vs_after_context_create(enum vs_api api, CUcontext context, CUdevice device, uint64_t bytes,
                             CUresult status);
uint64_t vs_before_context_destroy(enum vs_api api, CUcontext context);
void vs_after_context_destroy(uint64_t seq, CUcontext context, CUresult status);
struct vs_primary vs_primary_look(CUdevice device, bool ends);
void vs_after_primary(enum vs_api api, const struct vs_primary *before, uint64_t bytes, CUresult status);
void vs_before_primary_reset(enum vs_api api, struct vs_primary *primary);
void vs_after_primary_reset(const struct vs_primary *primary, CUresult status);
void vs_after_green_create(enum vs_api api, struct CUgreenCtx_st *context, const struct vs_primary *before,
                           uint64_t bytes, CUresult status);
int vs_green_device(struct CUgreenCtx_st *context);
void vs_after_green_destroy(struct CUgreenCtx_st *context);
void vs_after_limit(enum vs_api api, CUlimit limit, uint64_t value, uint64_t bytes, CUresult status);
void vs_after_module_load(enum vs_api api, uint64_t module, const void *image, uint64_t bytes,
                          CUresult status);

/* cuGetProcAddress returned *PFN for NAME: replaces it by our wrapper, if there is one (proc.c). */
void vs_after_proc(const char *name, void **pfn, int version, cuuint64_t flags, const void *caller,
                   CUresult status);

#endif
