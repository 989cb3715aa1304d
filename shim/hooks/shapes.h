/*
 * shapes.h - what a wrapper does around the real call, one macro for each shape that driver.def names.
 *
 * A shape is the wrapper's body after the real function was found.  It sees `api`, the function's parameters
 * by their names, and CALL, the real call with its arguments; it returns what the call returned.  A new
 * function with a known shape is a row of driver.def; a new meaning is one more shape here, and usually one
 * function behind it.
 */
#ifndef VS_HOOKS_SHAPES_H
#define VS_HOOKS_SHAPES_H

#include "hook.h"

/* CALL, and where it is the outermost one AFTER, which sees `status`; errno stays as the call left it. */
#define VS_AROUND_(CALL, AFTER)                                                                              \
    if (!vs_hook_enter())                                                                                    \
        return CALL;                                                                                         \
    CUresult status = CALL;                                                                                  \
    int saved = errno;                                                                                       \
    AFTER;                                                                                                   \
    errno = saved;                                                                                           \
    vs_hook_leave();                                                                                         \
    return status;

/* The value behind an out-parameter, 0 where the call failed or the pointer is NULL. */
#define VS_OUT(p) ((p) != NULL && status == CUDA_SUCCESS ? (uint64_t) * (p) : 0)
/* What a pitched allocation takes: the pitch that the driver chose, or at least the width, by the height. */
#define VS_PITCHED(pitch, width, height)                                                                     \
    ((uint64_t)((pitch) != NULL && status == CUDA_SUCCESS ? *(pitch) : (width)) * (height))
/* Stream 0 of a _ptsz function is the thread's own default stream. */
#define VS_PTSZ(stream) ((stream) != NULL ? (stream) : CU_STREAM_PER_THREAD)

/* the driver starts: a safe moment to load the unwinder, before any event */
#define VS_SHAPE_INIT(CALL, flags)                                                                           \
    if (!vs_hook_enter())                                                                                    \
        return CALL;                                                                                         \
    vs_prepare_once();                                                                                       \
    CUresult status = CALL;                                                                                  \
    vs_hook_leave();                                                                                         \
    return status;

/* look-up of functions: not an event, and answered also where nothing is recorded; what the driver (or we,
 * proc.c) ask of it through the PLT gets the real answer */
#define VS_SHAPE_PROC(CALL, name, pfn, version, flags)                                                       \
    if (vs_hook_nested())                                                                                    \
        return CALL;                                                                                         \
    vs_hook_outermost = (uintptr_t)__builtin_frame_address(0);                                               \
    CUresult status = CALL;                                                                                  \
    vs_after_proc(name, pfn, flags, status);                                                                 \
    vs_hook_leave();                                                                                         \
    return status;

#define VS_SHAPE_ALLOC(CALL, space, out, size)                                                               \
    VS_AROUND_(CALL, vs_after_alloc(api, VS_SPACE_##space, VS_OUT(out), size, status))

/* frees and their kin are recorded before the real call: another thread may be given the address at once */
#define VS_BEFORE_(CALL, op, space, address, size, stream, AFTER)                                            \
    if ((address) == 0 || !vs_hook_enter())                                                                  \
        return CALL;                                                                                         \
    int saved = errno;                                                                                       \
    uint64_t seq = vs_before_free(api, op, space, (uint64_t)(address), size, (uint64_t)(stream));            \
    errno = saved;                                                                                           \
    CUresult status = CALL;                                                                                  \
    saved = errno;                                                                                           \
    vs_after_free(seq, space, (uint64_t)(address), status);                                                  \
    AFTER;                                                                                                   \
    errno = saved;                                                                                           \
    vs_hook_leave();                                                                                         \
    return status;

#define VS_SHAPE_FREE(CALL, space, address)                                                                  \
    VS_BEFORE_(CALL, VS_OP_FREE, VS_SPACE_##space, address, 0, 0, (void)0)
#define VS_SHAPE_UNDO(CALL, op, space, address, size)                                                        \
    VS_BEFORE_(CALL, VS_OP_##op, VS_SPACE_##space, address, size, 0, (void)0)

#define VS_SHAPE_POOL_ALLOC(CALL, out, size, pool, stream)                                                   \
    VS_AROUND_(CALL, vs_after_pool_alloc(api, VS_OUT(out), size, pool, stream, status))
#define VS_SHAPE_POOL_FREE(CALL, address, stream)                                                            \
    VS_BEFORE_(CALL, VS_OP_FREE, VS_SPACE_NONE, address, 0, stream,                                          \
               if (status == CUDA_SUCCESS) vs_after_pool_free(stream))
#define VS_SHAPE_POOL_CURRENT(CALL, device) VS_AROUND_(CALL, vs_pool_current_changed(device))
#define VS_SHAPE_POOL_TRIM(CALL, pool)      VS_AROUND_(CALL, if (status == CUDA_SUCCESS) vs_pool_trimmed(pool))
#define VS_SHAPE_POOL_DESTROY(CALL, pool)                                                                    \
    VS_AROUND_(CALL, if (status == CUDA_SUCCESS) vs_pool_destroyed(pool))

#define VS_SHAPE_PHYS_CREATE(CALL, handle, size, prop)                                                       \
    VS_AROUND_(CALL, vs_after_phys_create(api, VS_OUT(handle), size, prop, status))
#define VS_SHAPE_PHYS_RETAIN(CALL, space, handle, address)                                                   \
    VS_AROUND_(CALL, vs_after_phys_retain(api, VS_SPACE_##space, VS_OUT(handle), (uint64_t)(address), status))
#define VS_SHAPE_MAP(CALL, address, size, offset, handle)                                                    \
    VS_AROUND_(CALL, vs_after_map(address, size, offset, handle, status))
#define VS_SHAPE_VA_RESERVE(CALL, address, size)                                                             \
    VS_AROUND_(CALL, vs_after_va_reserve(api, VS_OUT(address), size, status))
#define VS_SHAPE_SET_ACCESS(CALL, address, size, count)                                                      \
    VS_AROUND_(CALL, vs_after_set_access(api, address, size, count, status))

#endif
