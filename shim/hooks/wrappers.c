/*
 * wrappers.c - one wrapper for every row of driver.def, the exported symbol that is its alias, and what
 * passes its call on to an interposer.
 *
 * Programs reach the wrappers linked directly (the exported symbol), by dlsym (symbols/resolve.c) and by
 * cuGetProcAddress (proc.c).  Where the driver is not loaded or lacks the function they return
 * CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND.
 */
#include "shapes.h"

#include "place.h"
#include "record/record.h"

static void vs_prepare_once(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    int saved = errno;
    /* relaxed: a second thread need not wait for the first; it just gets no stacks yet */
    if (!atomic_flag_test_and_set_explicit(&done, memory_order_relaxed)) {
        vs_caller_prepare();
        vs_uncovered_references();
        vs_record_get_ready();
    }
    errno = saved;
}

#define VS_UNPAREN(...)           __VA_ARGS__
#define VS_EXPAND(shape, ...)     shape(__VA_ARGS__)
#define VS_BODY(shape, call, ...) VS_EXPAND(shape, call, __VA_ARGS__)

/* never inline: the outermost call is known by its frame (hook.h) */
#define VS_API(number, symbol, base, version, stream_kind, shape, shape_args, n, signature)                  \
    __attribute__((noinline)) CUresult vs_hook_##symbol(VS_PARAMS_##n signature)                             \
    {                                                                                                        \
        const enum vs_api api = VS_API_##symbol;                                                             \
        const enum vs_stream_kind streams __attribute__((unused)) = VS_STREAM_##stream_kind;                 \
        CUresult (*real)(VS_PARAMS_##n signature) = vs_real_of(api);                                         \
        if (__builtin_expect(real == NULL, 0))                                                               \
            return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;                                                \
        VS_BODY(VS_SHAPE_##shape, real(VS_ARGS_##n signature), VS_UNPAREN shape_args)                        \
    }                                                                                                        \
    CUresult symbol(VS_PARAMS_##n signature)                                                                 \
        __attribute__((alias("vs_hook_" #symbol), visibility("default"), nothrow));
#include "trace/driver.def"
#undef VS_API

/* ---- calls that go on to an interposer behind us, instead of the driver ---- */

/* An interposer that calls the same function again, by whatever way leads to us, means the driver's own. */
#define PASSING_MOST 3

/* The calls of this thread that an interposer has, and the frame of the outermost: where that does not lie
 * above the present one, it was left by a longjmp.  Small, since it lies in the memory that the loader has
 * for libraries that are loaded later. */
static __thread struct {
    uintptr_t frame;
    uint16_t api[PASSING_MOST], n;
} passing;
_Static_assert(VS_API_END < UINT16_MAX, "an api fits");

static __attribute__((noinline)) void *enter(enum vs_api api, unsigned *mark)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    if (passing.frame <= frame)
        passing.n = 0;
    *mark = passing.n;
    bool again = passing.n == PASSING_MOST;
    for (unsigned i = 0; i < passing.n; i++)
        again = again || passing.api[i] == api;
    if (again)
        return vs_driver_learn() ? vs_driver_own(api) : NULL;
    if (passing.n == 0)
        passing.frame = frame;
    passing.api[passing.n++] = (uint16_t)api;
    return vs_interposed(api);
}

static void leave(unsigned mark)
{
    passing.n = (uint16_t)mark;
}

#define VS_API(number, symbol, base, version, stream_kind, shape, shape_args, n, signature)                  \
    CUresult vs_pass_##symbol(VS_PARAMS_##n signature)                                                       \
    {                                                                                                        \
        unsigned mark;                                                                                       \
        CUresult (*next)(VS_PARAMS_##n signature) = enter(VS_API_##symbol, &mark);                           \
        CUresult status =                                                                                    \
            next != NULL ? next(VS_ARGS_##n signature) : CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;          \
        leave(mark);                                                                                         \
        return status;                                                                                       \
    }
#include "trace/driver.def"
#undef VS_API
