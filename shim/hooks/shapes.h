/*
 * shapes.h - the code of wrappers around the real call, one macro for each shape that driver.def names.
 *
 * A shape is the wrapper's body after the real function was found.  It sees `api`, `streams`, the function's
 * parameters by their names, and CALL, the real call with its arguments; it returns what the call returned.
 */
#ifndef VS_HOOKS_SHAPES_H
#define VS_HOOKS_SHAPES_H

#include <errno.h>

#include "access/kernels.h"
#include "arguments.h"
#include "events.h"
#include "given.h"
#include "graph.h"
#include "hook.h"
#include "meminfo.h"
#include "place.h"
#include "provided.h"

/* The call, repeated if the driver lacked memory and a provider has given some back. */
#define VS_CALL_(CALL)                                                                                       \
    ({                                                                                                       \
        CUresult first_ = (CALL);                                                                            \
        if (__builtin_expect(first_ == CUDA_ERROR_OUT_OF_MEMORY, 0) && vs_provided_shortage())               \
            first_ = (CALL);                                                                                 \
        first_;                                                                                              \
    })

/* CALL and, if it is the outermost one, AFTER, which sees `status`; errno stays as the call left it. */
#define VS_AROUND_(CALL, AFTER) VS_AROUND_AS_(true, CALL, AFTER)
#define VS_AROUND_AS_(MOVES, CALL, AFTER)                                                                    \
    if (!vs_hook_enter_as(MOVES))                                                                            \
        return VS_CALL_(CALL);                                                                               \
    CUresult status = VS_CALL_(CALL);                                                                        \
    int saved = errno;                                                                                       \
    AFTER;                                                                                                   \
    errno = saved;                                                                                           \
    vs_hook_leave();                                                                                         \
    return status;

/* BEFORE, CALL and AFTER, or CALL alone where ENTERED, which calls vs_hook_enter, is false. */
#define VS_BETWEEN_(CALL, ENTERED, BEFORE, AFTER)                                                            \
    if (!(ENTERED))                                                                                          \
        return VS_CALL_(CALL);                                                                               \
    int saved = errno;                                                                                       \
    BEFORE;                                                                                                  \
    errno = saved;                                                                                           \
    CUresult status = VS_CALL_(CALL);                                                                        \
    saved = errno;                                                                                           \
    AFTER;                                                                                                   \
    errno = saved;                                                                                           \
    vs_hook_leave();                                                                                         \
    return status;

/* The value of an out-parameter; 0 if the call failed or the pointer is NULL. */
#define VS_OUT(p) ((p) != NULL && status == CUDA_SUCCESS ? (uint64_t) * (p) : 0)
/* The size of a pitched allocation: the pitch that the driver chose, or at least the width, times the
 * height. */
#define VS_PITCHED(pitch, width, height)                                                                     \
    ((uint64_t)((pitch) != NULL && status == CUDA_SUCCESS ? *(pitch) : (width)) * (height))
/* The code that called the wrapper. */
#define VS_RETURN_ADDRESS __builtin_return_address(0)

/* the driver starts: a safe moment to load the unwinder, before any event */
#define VS_SHAPE_INIT(CALL, flags)                                                                           \
    if (!vs_hook_enter())                                                                                    \
        return VS_CALL_(CALL);                                                                               \
    vs_prepare_once();                                                                                       \
    CUresult status = VS_CALL_(CALL);                                                                        \
    vs_hook_leave();                                                                                         \
    return status;

/* look-up of functions: not an event, and active also if nothing is recorded; look-ups by the driver itself
 * (or by us, proc.c) through the PLT get the real result */
#define VS_SHAPE_PROC(CALL, name, pfn, version, flags)                                                       \
    if (vs_hook_nested())                                                                                    \
        return VS_CALL_(CALL);                                                                               \
    vs_hook_outermost = (uintptr_t)__builtin_frame_address(0);                                               \
    CUresult status = VS_CALL_(CALL);                                                                        \
    vs_after_proc(name, pfn, version, flags, VS_RETURN_ADDRESS, status);                                     \
    vs_hook_leave();                                                                                         \
    return status;

#define VS_SHAPE_ALLOC(CALL, space, out, size)                                                               \
    VS_AROUND_AS_(vs_space_moves(VS_SPACE_##space), CALL,                                                    \
                  vs_after_alloc(api, VS_SPACE_##space, VS_OUT(out), size, VS_RETURN_ADDRESS, status))

/* memory that a provider (provider.h) may serve in the driver's place: SERVED calls it, and sees `given` */
#define VS_SHAPE_GIVEN_ALLOC(CALL, out, size, SERVED)                                                        \
    struct vs_given given = VS_GIVEN_NOTHING;                                                                \
    VS_AROUND_(SERVED ? CUDA_SUCCESS : CALL,                                                                 \
               vs_after_given(api, VS_SPACE_DEVICE, &given, VS_OUT(out), size, VS_RETURN_ADDRESS, status))
#define VS_SHAPE_GIVEN_FREE(CALL, address)                                                                   \
    struct vs_given given = VS_GIVEN_NOTHING;                                                                \
    VS_BEFORE_(vs_provided_free(&given, address) ? given.status : CALL, VS_OP_FREE, VS_SPACE_NONE, address,  \
               0, 0, (void)0)

/* ends are recorded before the real call, because another thread may get the address at once */
#define VS_BEFORE_(CALL, op, space, address, size, stream, AFTER)                                            \
    VS_BETWEEN_(CALL, (address) != 0 && vs_hook_enter_as(vs_space_moves(space)),                             \
                uint64_t seq =                                                                               \
                    vs_before_free(api, op, space, (uint64_t)(address), size, (uint64_t)(stream)),           \
                vs_after_free(seq, space, (uint64_t)(address), status);                                      \
                AFTER)

#define VS_SHAPE_FREE(CALL, space, address)                                                                  \
    VS_BEFORE_(CALL, VS_OP_FREE, VS_SPACE_##space, address, 0, 0, (void)0)
#define VS_SHAPE_UNDO(CALL, op, space, address, size)                                                        \
    VS_BEFORE_(CALL, VS_OP_##op, VS_SPACE_##space, address, size, 0, (void)0)

#define VS_SHAPE_POOL_ALLOC(CALL, out, size, pool, stream)                                                   \
    struct vs_given given = VS_GIVEN_NOTHING;                                                                \
    VS_AROUND_(vs_provided_alloc_ordered(&given, out, size, stream, pool) ? CUDA_SUCCESS : CALL,             \
               vs_after_pool_alloc(api, &given, VS_OUT(out), size, pool, stream, status))
/* if the stream is being captured it goes into a graph, which is checked only if there are graphs with
 * memory nodes */
#define VS_SHAPE_POOL_FREE(CALL, address, stream)                                                            \
    struct vs_given given = VS_GIVEN_NOTHING;                                                                \
    VS_POOL_FREE_(vs_provided_free_ordered(&given, address, stream) ? given.status : CALL, address, stream)
#define VS_POOL_FREE_(CALL, address, stream)                                                                 \
    if (vs_graph_memory_seen() && !vs_hook_nested() && vs_graph_captured_free(address, stream)) {            \
        VS_AROUND_(CALL, vs_after_graph_node(api, (uint64_t)(uintptr_t)(stream), address, 0, status))        \
    }                                                                                                        \
    VS_BEFORE_(CALL, VS_OP_FREE, VS_SPACE_NONE, address, 0, stream,                                          \
               if (status == CUDA_SUCCESS) vs_after_pool_free(stream))
#define VS_SHAPE_POOL_CURRENT(CALL, device) VS_AROUND_(CALL, vs_pool_current_changed(device))
#define VS_SHAPE_POOL_TRIM(CALL, pool)                                                                       \
    VS_AROUND_(CALL, vs_provided_report_all(); if (status == CUDA_SUCCESS) vs_pool_trimmed(pool))
#define VS_SHAPE_POOL_DESTROY(CALL, pool)                                                                    \
    VS_AROUND_(CALL, if (status == CUDA_SUCCESS) vs_pool_destroyed(pool))

#define VS_SHAPE_PHYS_CREATE(CALL, handle, size, prop)                                                       \
    VS_AROUND_(CALL, vs_after_phys_create(api, VS_OUT(handle), size, prop, VS_RETURN_ADDRESS, status))
/* An event of no device. */
#define VS_NOWHERE_(op, space, address, size, arg0, arg1)                                                    \
    vs_event(VS_OP_##op, VS_SPACE_##space, vs_place_nowhere, (uint64_t)(address), size, arg0, arg1, status)
#define VS_SHAPE_PHYS_RETAIN(CALL, space, handle, address)                                                   \
    VS_AROUND_(CALL, VS_NOWHERE_(PHYS_RETAIN, space, VS_OUT(handle), 0, (uint64_t)(address), api))
#define VS_SHAPE_MAP(CALL, address, size, offset, handle)                                                    \
    VS_AROUND_AS_(false, CALL, VS_NOWHERE_(MAP, NONE, address, size, handle, offset))
#define VS_SHAPE_VA_RESERVE(CALL, address, size)                                                             \
    VS_AROUND_AS_(false, CALL, VS_NOWHERE_(VA_RESERVE, ADDRESS, VS_OUT(address), size, 0, api))
#define VS_SHAPE_SET_ACCESS(CALL, address, size, count)                                                      \
    VS_AROUND_AS_(false, CALL, VS_NOWHERE_(SET_ACCESS, NONE, address, size, count, api))

#define VS_SHAPE_POOL_IMPORT(CALL, pool)                                                                     \
    VS_AROUND_(CALL, if (status == CUDA_SUCCESS && (pool) != NULL) vs_pool_imported(*(pool)))

/* ---- arrays, imports, multicast ---- */

#define VS_ARRAY_2D(a)                                                                                       \
    ((a) != NULL ? vs_array_bytes(                                                                           \
                       &(struct vs_array){(a)->Width, (a)->Height, 0, (a)->NumChannels, 0, (a)->Format}, 1)  \
                 : 0)
#define VS_ARRAY_3D(a, levels)                                                                               \
    ((a) != NULL ? vs_array_bytes(&(struct vs_array){(a)->Width, (a)->Height, (a)->Depth, (a)->NumChannels,  \
                                                     (a)->Flags, (a)->Format},                               \
                                  levels)                                                                    \
                 : 0)

/* several frees in one call */
#define VS_MANY_(CALL, BEFORE, AFTER) VS_BETWEEN_(CALL, vs_hook_enter(), struct vs_many undone; BEFORE, AFTER)

#define VS_SHAPE_MAP_ARRAYS(CALL, list, count)                                                               \
    VS_MANY_(CALL, vs_before_map_arrays(list, count, &undone),                                               \
             vs_after_map_arrays(list, count, &undone, status))
#define VS_SHAPE_IMPORT(CALL, out) VS_AROUND_(CALL, vs_after_import(api, VS_OUT(out), status))
#define VS_SHAPE_GRAPHICS_MAP(CALL, count, resources)                                                        \
    VS_AROUND_(CALL, vs_after_graphics_map(api, count, resources, status))
#define VS_SHAPE_GRAPHICS_UNMAP(CALL, count, resources)                                                      \
    VS_MANY_(CALL, vs_before_graphics_unmap(api, count, resources, &undone),                                 \
             vs_after_graphics_unmap(api, count, resources, &undone, status))

#define VS_SHAPE_MULTICAST_CREATE(CALL, object, size)                                                        \
    VS_AROUND_(CALL, vs_after_multicast_create(api, object, size, status))
/* MEMORY: a handle, or an address where memory is mapped: the ledger distinguishes them */
#define VS_SHAPE_MULTICAST_BIND(CALL, object, device, offset, memory, size)                                  \
    VS_AROUND_(CALL, VS_NOWHERE_(BIND, MULTICAST, object, size, memory, vs_multicast_key(device, offset)))
#define VS_SHAPE_MULTICAST_UNBIND(CALL, object, device, offset, size)                                        \
    VS_BETWEEN_(CALL, vs_hook_enter(),                                                                       \
                uint64_t seq = vs_event(VS_OP_UNBIND, VS_SPACE_MULTICAST, vs_place_nowhere, object, size, 0, \
                                        vs_multicast_key(device, offset), CUDA_SUCCESS),                     \
                vs_after_free(seq, VS_SPACE_MULTICAST, object, status))

/* A logical endpoint's number as an object's, which no handle and no address is. */
#define VS_ENDPOINT(id)      (UINT64_C(1) << 62 | (id))
#define VS_ENDPOINT_MADE(id) (status == CUDA_SUCCESS ? VS_ENDPOINT(id) : 0)

/* not recorded; a provider may replace the function */
#define VS_SHAPE_PASS(CALL, unused) return VS_CALL_(CALL);

/* ---- addresses for the access ledger: not recorded, and without VRAMSCOPE_ACCESS a load and a jump ---- */

/* SEE runs if the call succeeded, and sees `api` and the function's parameters. */
#define VS_SHAPE_GIVEN(CALL, SEE)                                                                            \
    if (!vs_access_on())                                                                                     \
        return VS_CALL_(CALL);                                                                               \
    VS_AROUND_AS_(false, CALL, if (status == CUDA_SUCCESS) SEE)
/* a capture begins (1) or ends (-1) */
#define VS_SHAPE_CAPTURE(CALL, begun)                                                                        \
    CUresult status = VS_CALL_(CALL);                                                                        \
    if (status == CUDA_SUCCESS || (begun) < 0)                                                               \
        vs_given_capture(begun);                                                                             \
    return status;
/* work that is not recorded, on memory that no other shape tells of: only the arena's gate
 * (arena/away/gate_calls.c) looks at TOUCHED, what it touches */
#define VS_SHAPE_WORK(CALL, TOUCHED) return VS_CALL_(CALL);
/* likewise: a texture is made, over linear memory where OF_MEMORY is true: kernels reach that by the texture
 */
#define VS_SHAPE_TEXTURE(CALL, OF_MEMORY) return VS_CALL_(CALL);

/* ---- contexts, limits, modules ---- */

/* A call that may take more device memory than its arguments say: `cost` is that memory (meminfo.h),
 * measured on DEVICE, evaluated after BEFORE, if MEASURED is true. */
#define VS_COSTLY_(CALL, BEFORE, MEASURED, AFTER)                                                            \
    VS_BETWEEN_(CALL, vs_hook_enter(), BEFORE;                                                               \
                struct vs_cost measured = MEASURED, uint64_t cost = vs_cost_end(&measured); AFTER)

#define VS_SHAPE_CONTEXT_CREATE(CALL, out, device)                                                           \
    VS_COSTLY_(CALL, (void)0, vs_cost_begin_on(device),                                                      \
               vs_after_context_create(api, (CUcontext)(uintptr_t)VS_OUT(out), device, cost, status))
#define VS_SHAPE_CONTEXT_DESTROY(CALL, context)                                                              \
    VS_BETWEEN_(CALL, (context) != NULL && vs_hook_enter(),                                                  \
                uint64_t seq = vs_before_context_destroy(api, context),                                      \
                vs_after_context_destroy(seq, context, status))

/* retains and releases: nearly all only count references, and are not recorded */
#define VS_SHAPE_PRIMARY(CALL, device, ends)                                                                 \
    VS_COSTLY_(CALL, struct vs_primary primary = vs_primary_look(device, ends),                              \
               vs_cost_begin_on(primary.active ? VS_DEVICE_UNKNOWN : (device)), vs_provided_report_all();    \
               vs_after_primary(api, &primary, cost, status))
#define VS_SHAPE_PRIMARY_RESET(CALL, device)                                                                 \
    VS_COSTLY_(CALL, struct vs_primary primary = vs_primary_look(device, true);                              \
               vs_before_primary_reset(api, &primary), vs_cost_none, (void)cost; vs_provided_report_all();   \
               vs_after_primary_reset(&primary, status))
#define VS_SHAPE_GREEN_CREATE(CALL, out, device)                                                             \
    VS_COSTLY_(                                                                                              \
        CALL, struct vs_primary primary = vs_primary_look(device, false), vs_cost_begin_on(device),          \
        vs_after_green_create(api, (struct CUgreenCtx_st *)(uintptr_t)VS_OUT(out), &primary, cost, status))
#define VS_SHAPE_GREEN_DESTROY(CALL, context)                                                                \
    VS_COSTLY_(CALL, struct vs_primary primary = vs_primary_look(vs_green_device(context), true);            \
               uint64_t seq = vs_before_free(api, VS_OP_CONTEXT_DESTROY, VS_SPACE_NONE,                      \
                                             (uint64_t)(uintptr_t)(context), 0, VS_CONTEXT_GREEN),           \
               vs_cost_none, vs_after_free(seq, VS_SPACE_NONE, (uint64_t)(uintptr_t)(context), status);      \
               if (status == CUDA_SUCCESS) vs_after_green_destroy(context);                                  \
               vs_after_primary(api, &primary, cost, status))
#define VS_SHAPE_LIMIT(CALL, limit, value)                                                                   \
    VS_COSTLY_(CALL, (void)0, vs_cost_begin(), vs_after_limit(api, limit, value, cost, status))
#define VS_SHAPE_MODULE_LOAD(CALL, out, image)                                                               \
    VS_COSTLY_(CALL, (void)0, vs_cost_begin(),                                                               \
               vs_after_module_load(api, (uint64_t)(uintptr_t)VS_OUT(out), image, cost, status))

/* ---- graphs: one load and a jump until a graph has memory nodes ---- */

#define VS_SHAPE_GRAPH_ALLOC_NODE(CALL, graph, address, size)                                                \
    VS_AROUND_(CALL, vs_after_graph_node(api, (uint64_t)(uintptr_t)(graph),                                  \
                                         status == CUDA_SUCCESS ? (address) : 0, size, status))
#define VS_SHAPE_GRAPH_FREE_NODE(CALL, graph, address)                                                       \
    VS_AROUND_(CALL, vs_after_graph_node(api, (uint64_t)(uintptr_t)(graph), address, 0, status))
#define VS_SHAPE_GRAPH_NODE(CALL, graph, params)                                                             \
    VS_AROUND_(CALL, vs_after_graph_add_node(api, graph, params, status))
#define VS_GRAPH_AROUND_(CALL, BEFORE, AFTER)                                                                \
    VS_BETWEEN_(CALL, (vs_graph_memory_seen() || vs_access_on()) && vs_hook_enter(), BEFORE, AFTER)
/* rare and slow, so its cost is measured each time, whatever the graph contains */
#define VS_SHAPE_GRAPH_INSTANTIATE(CALL, exec, graph, flags)                                                 \
    VS_COSTLY_(CALL, (void)0, vs_cost_begin(),                                                               \
               vs_after_instantiate(&measured, api, graph, VS_OUT(exec), cost);                              \
               if (vs_graph_memory_seen())                                                                   \
                   vs_after_graph_instantiate((CUgraphExec)(uintptr_t)VS_OUT(exec), graph, flags, status);   \
               if (vs_access_on() && status == CUDA_SUCCESS)                                                 \
                   vs_given_graph_made((CUgraphExec)(uintptr_t)VS_OUT(exec), graph))
#define VS_SHAPE_GRAPH_UPDATE(CALL, exec, graph)                                                             \
    VS_GRAPH_AROUND_(CALL, (void)0, vs_after_graph_update(exec, graph, status);                              \
                     if (vs_access_on() && status == CUDA_SUCCESS) vs_given_graph_made(exec, graph))
#define VS_SHAPE_GRAPH_LAUNCH(CALL, exec, stream)                                                            \
    VS_GRAPH_AROUND_(CALL, struct vs_graph_launch launch = vs_before_graph_launch(api, exec, stream),        \
                     vs_after_graph_launch(&launch, status);                                                 \
                     if (vs_access_on() && status == CUDA_SUCCESS) vs_given_graph(exec, stream))
#define VS_SHAPE_GRAPH_UPLOAD(CALL, exec) VS_GRAPH_AROUND_(CALL, (void)0, vs_after_graph_upload(exec))
#define VS_SHAPE_GRAPH_EXEC_DESTROY(CALL, exec)                                                              \
    VS_GRAPH_AROUND_(CALL, uint64_t devices = vs_graph_devices(exec),                                        \
                     vs_after_graph_destroy(exec, devices, status);                                          \
                     if (status == CUDA_SUCCESS) vs_given_graph_gone(exec))
#define VS_SHAPE_GRAPH_TRIM(CALL, device)                                                                    \
    VS_GRAPH_AROUND_(CALL, (void)0, if (status == CUDA_SUCCESS) vs_graph_sample(device))

/* a call that allocates nothing and may take device memory: the first of its kind (FIRST, of once.h) is
 * measured.  OBJECT is evaluated after it.  A call that failed for lack of memory is measured again next
 * time; any other failure would repeat itself */
#define VS_SHAPE_COST(CALL, kind, object, FIRST) VS_COST_(CALL, kind, object, FIRST, (void)0)
#define VS_COST_(CALL, kind, object, FIRST, AFTER)                                                           \
    vs_first first = FIRST;                                                                                  \
    VS_BETWEEN_(                                                                                             \
        CALL, first != NULL && vs_hook_enter(), struct vs_cost cost = vs_cost_begin_once(first),             \
        if (status == CUDA_SUCCESS) {                                                                        \
            vs_after_overhead(&cost, api, VS_OVERHEAD_##kind, (uint64_t)(uintptr_t)(object));                \
            AFTER;                                                                                           \
        } else if (status == CUDA_ERROR_OUT_OF_MEMORY) vs_once_again(first))
/* PARAMS and EXTRA: as the call was given them */
#define VS_SHAPE_LAUNCH(CALL, kernel, STREAM, GRID, PARAMS, EXTRA)                                           \
    vs_first launched = vs_once_launch(kernel);                                                              \
    if (vs_access_on() && launched == NULL) {                                                                \
        VS_AROUND_AS_(false, CALL,                                                                           \
                      if (status == CUDA_SUCCESS) vs_given_launch(kernel, STREAM, GRID, PARAMS, EXTRA))      \
    }                                                                                                        \
    VS_COST_(CALL, CODE, kernel, launched,                                                                   \
             if (vs_access_on()) vs_given_launch(kernel, STREAM, GRID, PARAMS, EXTRA))
/* ... and the module of the function that it returns */
#define VS_SHAPE_MODULE_FUNCTION(CALL, f, module, name)                                                      \
    VS_COST_(CALL, CODE, module, vs_once_module(api, module, name),                                          \
             vs_once_belongs((const void *)(uintptr_t)VS_OUT(f), (uintptr_t)(module)))
#define VS_SHAPE_KERNEL_FUNCTION(CALL, f, kernel)                                                            \
    VS_COST_(CALL, CODE, kernel, vs_once_kernel(api, kernel),                                                \
             vs_once_belongs((const void *)(uintptr_t)VS_OUT(f), vs_once_owner(kernel)))
/* not recorded or measured; notes the module of the kernel */
#define VS_SHAPE_LIBRARY_KERNEL(CALL, kernel, library)                                                       \
    VS_AROUND_AS_(false, CALL,                                                                               \
                  if (status == CUDA_SUCCESS && (kernel) != NULL)                                            \
                      vs_once_belongs(*(kernel), (uintptr_t)(library)))
#define VS_SHAPE_MODULE_UNLOAD(CALL, module)                                                                 \
    VS_BEFORE_(                                                                                              \
        CALL, VS_OP_MODULE_UNLOAD, VS_SPACE_NONE, module, 0, 0, if (status == CUDA_SUCCESS) {                \
            vs_once_forget(module);                                                                          \
            vs_kernels_doubt();                                                                              \
        })

/* A stream: the driver reuses the memory of ended ones, so only one that raises the number of living streams
 * to a new maximum is measured. */
#define VS_SHAPE_STREAM_CREATE(CALL, out)                                                                    \
    vs_first first = vs_once_number(api, vs_once_streams_next());                                            \
    VS_BETWEEN_(CALL, vs_hook_enter(), struct vs_cost cost = vs_cost_begin_once(first),                      \
                if (status == CUDA_SUCCESS) vs_after_stream_create(&cost, api, VS_OUT(out)))
#define VS_SHAPE_STREAM_DESTROY(CALL, unused)                                                                \
    VS_AROUND_AS_(false, CALL, if (status == CUDA_SUCCESS) vs_after_stream_destroy())

#endif
