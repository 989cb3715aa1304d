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
#include "flight.h"
#include "provided.h"
#include "record/record.h"

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

/* Whether what happens in SPACE moves the driver's figure of a device. */
static inline bool vs_space_moves(enum vs_space space)
{
    return space != VS_SPACE_PINNED && space != VS_SPACE_REGISTERED && space != VS_SPACE_IMPORTED &&
           space != VS_SPACE_ADDRESS;
}

/* The call at FRAME is the outermost one of this thread. */
static inline void vs_hook_begin(uintptr_t frame, bool moves)
{
    if (moves)
        vs_flight_begin();
    vs_hook_outermost = frame;
    /* relaxed: a flag alone, read by who wants to know whether it may ask the driver at all */
    if (!atomic_load_explicit(&vs_hook_called, memory_order_relaxed))
        atomic_store_explicit(&vs_hook_called, true, memory_order_relaxed);
}

/* True: record this call, and vs_hook_leave() afterwards.  False: nested, or nothing is recorded.  MOVES: it
 * may take memory of a device or give some back. */
static inline __attribute__((always_inline)) bool vs_hook_enter_as(bool moves)
{
    if (vs_hook_nested() || !vs_record_enabled())
        return false;
    vs_hook_begin((uintptr_t)__builtin_frame_address(0), moves);
    return true;
}

static inline __attribute__((always_inline)) bool vs_hook_enter(void)
{
    return vs_hook_enter_as(true);
}

static inline void vs_hook_leave(void)
{
    vs_hook_outermost = 0;
    vs_flight_end();
}

/* ---- where memory lies (place.c) ---- */

struct vs_place {
    int8_t device;
    uint8_t context;
};

/* VS_DEVICE_UNKNOWN and 0. */
extern const struct vs_place vs_place_nowhere;
/* The current context and its device; nowhere where the thread has none. */
struct vs_place vs_place_current(void);
/* The stream's context and its device (ADDRESS: memory just allocated there, 0 = none); the legacy and
 * per-thread streams are the current context's. */
struct vs_place vs_place_stream(CUstream stream, CUdeviceptr address);
/* CONTEXT was created on DEVICE just now. */
struct vs_place vs_place_created(CUcontext context, int device);
/* What is known of CONTEXT without asking anybody. */
struct vs_place vs_place_known(CUcontext context);
/* CONTEXT is gone: its handle may come again for another one. */
void vs_place_forget(CUcontext context);
/* Writes the device's row at its first event. */
void vs_place_announce(int device);
/* Whether it had one. */
bool vs_place_announced(int device);
/* Opens the recording if this call is the one that starts it: ids of contexts need the journal. */
void vs_place_prepare(CUresult status);

/* The number of CONTEXT on DEVICE in events (context_ids.c), from here on its own until it is forgotten. */
uint8_t vs_context_id(struct vs_journal *j, CUcontext context, int device);
uint8_t vs_context_id_of(CUcontext context); /* 0: it has none */
void vs_context_id_forget(CUcontext context);
void vs_context_ids_begin(void); /* another journal: nothing has a number */

/* ---- whose code asks (asker.c) ---- */

/* The library that the code at CALLER belongs to, the address that a call returns to.  No lock, no memory;
 * keeps errno. */
enum vs_asker vs_asker_of(const void *caller);
/* Takes the loader's lock for a moment, so that no later call has to. */
void vs_asker_prepare(void);

/* ---- events ---- */

/* after the real call (alloc.c) */
void vs_after_alloc(enum vs_api api, enum vs_space space, uint64_t address, uint64_t size, const void *caller,
                    CUresult status);
/* the same where a provider may have served: what G says of the block goes before SPACE */
void vs_after_given(enum vs_api api, enum vs_space space, const struct vs_given *g, uint64_t address,
                    uint64_t size, const void *caller, CUresult status);
/* before the real call; returns the event's sequence.  SPACE as far as the function tells it. */
uint64_t vs_before_free(enum vs_api api, enum vs_op op, enum vs_space space, uint64_t address, uint64_t size,
                        uint64_t stream);
/* after it: gives the bytes back where it failed, takes the sample that was asked for where it did not */
void vs_after_free(uint64_t seq, enum vs_space space, uint64_t address, CUresult status);
/* What the current context's device has free, by the driver. */
bool vs_ask_free(uint64_t *bytes);
/* The drain's request for the device's used bytes, served on a thread that has a context. */
void vs_sample_if_asked(void);
/* the same after an allocation; where that was refused for lack of memory the driver is asked in any case:
 * how much it had free belongs to the out-of-memory */
void vs_sample_after(CUresult status);

/* Of a list of handles, each freed (or unbound, ...) by one call: the first VS_MANY are recorded before it.
 */
#define VS_MANY 64
struct vs_many {
    unsigned count;
    uint64_t seq[VS_MANY], address[VS_MANY];
};

/* stream-ordered memory (pool.c), by a provider where G says so; POOL NULL: the stream's device's current one
 */
void vs_after_pool_alloc(enum vs_api api, const struct vs_given *g, uint64_t address, uint64_t size,
                         CUmemoryPool pool, CUstream stream, CUresult status);
void vs_after_pool_free(CUstream stream);
void vs_pool_trimmed(CUmemoryPool pool);
void vs_pool_destroyed(CUmemoryPool pool);
void vs_pool_current_changed(int device); /* -1: of any device */
void vs_pool_imported(CUmemoryPool pool);
void vs_pools_reset(int device); /* its primary context is gone, and perhaps the memory of its pools */
void vs_pools_ask(int device);   /* what the device's current pool holds now, if it was seen before */
/* Whether STREAM is being captured: VS_CAPTURE_UNKNOWN where the driver won't say. */
enum vs_capture { VS_CAPTURE_NO, VS_CAPTURE_YES, VS_CAPTURE_UNKNOWN };
enum vs_capture vs_capturing(CUstream stream);

/* virtual memory management (vmm.c) */
void vs_after_phys_create(enum vs_api api, uint64_t handle, uint64_t size, const CUmemAllocationProp *prop,
                          const void *caller, CUresult status);
void vs_after_phys_retain(enum vs_api api, enum vs_space space, uint64_t handle, uint64_t address,
                          CUresult status);
void vs_after_map(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle, CUresult status);
void vs_after_va_reserve(enum vs_api api, uint64_t address, uint64_t size, CUresult status);
void vs_after_set_access(enum vs_api api, uint64_t address, uint64_t size, uint64_t count, CUresult status);

/* multicast objects (vmm.c) */
void vs_after_multicast_create(enum vs_api api, uint64_t handle, const CUmulticastObjectProp *prop,
                               CUresult status);
void vs_after_multicast_bind(uint64_t object, uint64_t offset, int device, uint64_t memory, uint64_t size,
                             CUresult status);
uint64_t vs_multicast_key(int device, uint64_t offset);
int vs_device_of_handle(CUmemGenericAllocationHandle handle);
int vs_device_of_address(CUdeviceptr address);
uint64_t vs_before_multicast_unbind(uint64_t object, int device, uint64_t offset, uint64_t size);

/* arrays (array.c): the bytes that a descriptor asks for */
struct vs_array {
    size_t width, height, depth;
    unsigned channels, flags;
    CUarray_format format;
};
uint64_t vs_array_bytes(const struct vs_array *array, unsigned levels);
void vs_before_map_arrays(const CUarrayMapInfo *list, unsigned count, struct vs_many *undone);
void vs_after_map_arrays(const CUarrayMapInfo *list, unsigned count, const struct vs_many *undone,
                         CUresult status);

/* imports (import.c) */
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

/* graphs with memory nodes (graph.c).  The flag is set by the first such node that the process makes; before
 * it every wrapper of a graph function is a load and a jump. */
extern _Atomic bool vs_graph_memory;
static inline bool vs_graph_memory_seen(void)
{
    /* relaxed: who launches a graph with memory nodes has them from the thread that made them, by the host's
     * own synchronisation */
    return __builtin_expect(atomic_load_explicit(&vs_graph_memory, memory_order_relaxed), 0);
}
struct vs_graph_exec;
struct vs_launch {
    enum vs_api api;
    struct vs_graph_exec *exec; /* NULL: nothing of ours */
    CUstream stream;
};
void vs_after_graph_node(enum vs_api api, uint64_t where, uint64_t address, uint64_t size, CUresult status);
void vs_after_graph_add_node(enum vs_api api, CUgraph graph, const CUgraphNodeParams *params,
                             CUresult status);
void vs_after_graph_instantiate(CUgraphExec exec, CUgraph graph, uint64_t flags, CUresult status);
void vs_after_graph_update(CUgraphExec exec, CUgraph graph, CUresult status);
struct vs_launch vs_before_graph_launch(enum vs_api api, CUgraphExec exec, CUstream stream);
void vs_after_graph_launch(const struct vs_launch *launch, CUresult status);
void vs_after_graph_upload(CUgraphExec exec);
uint64_t vs_graph_devices(CUgraphExec exec);
void vs_after_graph_destroy(CUgraphExec exec, uint64_t devices, CUresult status);
void vs_graph_sample(int device);
void vs_graph_reset(int device); /* its next figure is told, be it the same */
void vs_graph_freed(uint64_t address);
bool vs_graph_captured_free(CUdeviceptr address, CUstream stream);

/* ---- look-ups ---- */

/* cuGetProcAddress answered *PFN for NAME: puts our wrapper there where we have one (proc.c). */
void vs_after_proc(const char *name, void **pfn, int version, cuuint64_t flags, CUresult status);

/* Gives references that only our exports satisfied back what they would have been (unbind.c).  Safe before
 * the C library is initialised. */
void vs_unbind_strangers(void);

/* Looks through the objects that were loaded since the last call: references that went past our exports to
 * the driver get our wrappers, weak ones that found only us become what they would have been (adopt.c).
 * Cheap where none came.  Takes the loader's lock: from look-ups, which do so themselves. */
void vs_adopt_new_objects(void);
void vs_adopt_begin(void);
bool vs_adopt_ready(void);

/* Whether the driver that was learnt is in the scope of a library that loaded the one CALLER lies in. */
bool vs_loaders_find_driver(const void *caller);

/* ---- roads that go past us: told in the database, each once (uncovered.c) ---- */

void vs_uncovered(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* FOUND, where it lies in a CUDA driver other than the one that was learnt. */
void vs_uncovered_driver(const void *found);
/* Hands a new journal what was told before. */
void vs_uncovered_tell(void);

#endif
