/*
 * wrappers.c - one wrapper for every row of driver.def, and the exported symbol that is its alias.
 *
 * Programs reach the wrappers in three ways: linked directly (the exported symbol), by dlsym (resolve.c), by
 * cuGetProcAddress (proc.c).  If the driver is not loaded or lacks the function they return
 * CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND.
 */
#include "shapes.h"

#include "caller.h"
#include "record/suppliers.h"
#include "uncovered.h"

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
