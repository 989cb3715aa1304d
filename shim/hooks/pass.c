/*
 * pass.c - passes the calls of a hooked function on to an interposer behind us (interposers.h): one function
 * for each row of driver.def, which the wrapper calls in the place of the driver's.
 *
 * An interposer that calls the same function again, by whatever way leads to us, means the driver's own.
 */
#include "driver.h"

#define PASSING_MOST 8

/* The calls of this thread that an interposer has, the outermost first.  One whose frame does not lie above
 * the present one's was left by a longjmp. */
static __thread struct {
    unsigned n;
    struct {
        enum vs_api api;
        uintptr_t frame;
    } calls[PASSING_MOST];
} passing;

static __attribute__((noinline)) void *enter(enum vs_api api, unsigned *mark)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (passing.n > 0 && passing.calls[passing.n - 1].frame <= frame)
        passing.n--;
    *mark = passing.n;
    bool again = passing.n == PASSING_MOST;
    for (unsigned i = 0; i < passing.n; i++)
        again = again || passing.calls[i].api == api;
    if (again)
        return vs_driver_learn() ? vs_driver_own(api) : NULL;
    passing.calls[passing.n].api = api;
    passing.calls[passing.n++].frame = frame;
    return vs_interposed(api);
}

static void leave(unsigned mark)
{
    passing.n = mark;
}

#define VS_API(number, symbol, base, version, stream_kind, shape, shape_args, n, signature)                  \
    CUresult vs_pass_##symbol VS_PARAMS_##n signature                                                        \
    {                                                                                                        \
        unsigned mark;                                                                                       \
        CUresult(*next) VS_PARAMS_##n signature = enter(VS_API_##symbol, &mark);                             \
        CUresult status =                                                                                    \
            next != NULL ? next VS_ARGS_##n signature : CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;           \
        leave(mark);                                                                                         \
        return status;                                                                                       \
    }
#include "trace/driver.def"
#undef VS_API
