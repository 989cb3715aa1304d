/*
 * simcuda_kit.h - what the tests of the simulated driver share.
 *
 * Each test runs in a child of its own, forked before the driver was touched, because the driver reads its
 * environment once and because some tests end in a signal.
 */
#ifndef TESTS_UNIT_SIMCUDA_SIMCUDA_KIT_H
#define TESTS_UNIT_SIMCUDA_SIMCUDA_KIT_H

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"

#define MIB (1ull << 20)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)
#define IS(call, wanted)                                                                                     \
    do {                                                                                                     \
        CUresult got_ = (call);                                                                              \
        if (got_ != (wanted)) {                                                                              \
            fprintf(stderr, "%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, got_, #wanted);        \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)
#define OK(call) IS(call, CUDA_SUCCESS)

static inline int child_status(void (*body)(void), const char *name, const char *value)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SIMCUDA_BANNER", "0", 1);
        if (name)
            setenv(name, value, 1);
        alarm(20);
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static inline CUcontext begin(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return context;
}

static inline size_t used(void)
{
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    return total - left;
}

/* SIM_TEST(name[, "NAME", "value"]): a test whose body, which follows, runs in a child, under NAME=value. */
#define SIM_TEST(...) SIM_TEST_(__VA_ARGS__, NULL, NULL, NULL)
#define SIM_TEST_(name, variable, value, ...)                                                                \
    static void name##_body(void);                                                                           \
    TEST(name)                                                                                               \
    {                                                                                                        \
        assert_int_equal(child_status(name##_body, variable, value), 0);                                     \
    }                                                                                                        \
    static void name##_body(void)

#endif
