/*
 * pass.c - passes the calls of a hooked function on to an interposer behind us (interposers.h): one function
 * for each row of driver.def, which the wrapper calls in the place of the driver's.
 *
 * An interposer that calls the same function again, by whatever way leads to us, means the driver's own.
 */
#include "driver.h"

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
