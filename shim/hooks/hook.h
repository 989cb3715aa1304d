/*
 * hook.h - what the files of hooks/ share: enter and leave, events, places, look-ups.
 *
 * A wrapper (wrappers.c) is: find the real function, vs_hook_enter(), call, record, vs_hook_leave().  The
 * recording functions below are called between the two and keep errno as the real call left it.
 */
#ifndef VS_HOOKS_HOOK_H
#define VS_HOOKS_HOOK_H

#include <errno.h>

#include "driver.h"
#include "record.h"

/* Code that may run before a sanitizer's runtime is up: sanitizers look symbols up while they start. */
#define VS_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))

/* ---- enter, leave (wrappers.c) ---- */

/* The frame of the outermost hooked call of this thread, 0 outside. */
extern __thread uintptr_t vs_hook_outermost;
extern _Atomic bool vs_hook_called;

/* Inside another hooked call: some drivers reach one exported function from another through the PLT, and only
 * the outermost is an event.  A frame that does not lie below the outermost one's is no call of it: that one
 * was left by a longjmp.  Always inline: the frame must be the wrapper's. */
static inline __attribute__((always_inline)) bool vs_hook_nested(void)
{
    return vs_hook_outermost != 0 && (uintptr_t)__builtin_frame_address(0) < vs_hook_outermost;
}

/* True: record this call, and vs_hook_leave() afterwards.  False: nested, or nothing is recorded. */
static inline __attribute__((always_inline)) bool vs_hook_enter(void)
{
    if (vs_hook_nested() || !vs_record_enabled())
        return false;
    vs_hook_outermost = (uintptr_t)__builtin_frame_address(0);
    /* relaxed: a flag alone, read by who wants to know whether it may ask the driver at all */
    if (!atomic_load_explicit(&vs_hook_called, memory_order_relaxed))
        atomic_store_explicit(&vs_hook_called, true, memory_order_relaxed);
    return true;
}

static inline void vs_hook_leave(void)
{
    vs_hook_outermost = 0;
}

/* ---- where memory lies (place.c) ---- */

struct vs_place {
    int8_t device;
    uint8_t context;
};

/* The current context and its device; VS_DEVICE_UNKNOWN and 0 where the thread has none. */
struct vs_place vs_place_current(void);
/* The stream's context and its device (ADDRESS: memory just allocated there, 0 = none); the legacy and
 * per-thread streams are the current context's. */
struct vs_place vs_place_stream(CUstream stream, CUdeviceptr address);
/* Writes the device's row at its first event. */
void vs_place_announce(int device);
/* Opens the recording if this call is the one that starts it: ids of contexts need the journal. */
void vs_place_prepare(CUresult status);

/* ---- events ---- */

/* after the real call (alloc.c) */
void vs_after_alloc(enum vs_api api, enum vs_space space, uint64_t address, uint64_t size, CUresult status);
/* before the real call; returns the event's sequence.  SPACE as far as the function tells it. */
uint64_t vs_before_free(enum vs_api api, enum vs_op op, enum vs_space space, uint64_t address, uint64_t size,
                        uint64_t stream);
/* after it: gives the bytes back where it failed, takes the sample that was asked for where it did not */
void vs_after_free(uint64_t seq, enum vs_space space, uint64_t address, CUresult status);
/* The drain's request for the device's used bytes, served on a thread that has a context. */
void vs_sample_if_asked(void);

/* stream-ordered memory (pool.c); POOL NULL: the stream's device's current one */
void vs_after_pool_alloc(enum vs_api api, uint64_t address, uint64_t size, CUmemoryPool pool, CUstream stream,
                         CUresult status);
void vs_after_pool_free(CUstream stream);
void vs_pool_trimmed(CUmemoryPool pool);
void vs_pool_destroyed(CUmemoryPool pool);
void vs_pool_current_changed(int device); /* -1: of any device */

/* virtual memory management (vmm.c) */
void vs_after_phys_create(enum vs_api api, uint64_t handle, uint64_t size, const CUmemAllocationProp *prop,
                          CUresult status);
void vs_after_phys_retain(enum vs_api api, enum vs_space space, uint64_t handle, uint64_t address,
                          CUresult status);
void vs_after_map(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle, CUresult status);
void vs_after_va_reserve(enum vs_api api, uint64_t address, uint64_t size, CUresult status);
void vs_after_set_access(enum vs_api api, uint64_t address, uint64_t size, uint64_t count, CUresult status);

/* ---- look-ups ---- */

/* cuGetProcAddress answered *PFN for NAME: puts our wrapper there where we have one (proc.c). */
void vs_after_proc(const char *name, void **pfn, cuuint64_t flags, CUresult status);

/* The real dlsym, called from here: for handles, or for RTLD_DEFAULT / RTLD_NEXT as seen from this library
 * (resolve.c). */
void *vs_dlsym_real(void *handle, const char *name);

/* ---- the loader's objects (scope.c) ---- */

struct vs_object {
    uintptr_t start, end; /* mapped range */
    int order;            /* place in the loader's list, which is the order of the global scope */
    char name[4096];
};

/* The loaded object with a soname libcuda.so*. */
bool vs_find_driver(struct vs_object *out);
/* The object that ADDRESS lies in. */
bool vs_find_object(const void *address, struct vs_object *out);

int vs_count_objects(void);

/* Gives references that only our exports satisfied back what they would have been (unbind.c).  Safe before
 * the C library is initialised. */
void vs_unbind_strangers(void);

#endif
