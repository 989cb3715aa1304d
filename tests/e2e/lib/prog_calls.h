/*
 * prog_calls.h - calls by the exact exported symbol, which say what each gave: for programs that go on
 * whatever it was.
 */
#ifndef TESTS_E2E_LIB_PROG_CALLS_H
#define TESTS_E2E_LIB_PROG_CALLS_H

#include "prog.h"

#include <dlfcn.h>

/* The exact symbol: the header's macros rename some, so it is made a string at once. */
#define CALL(symbol, types, ...) CALL_(#symbol, types, __VA_ARGS__)
#define CALL_(name, types, ...)  said(name, ((CUresult(*) types)find(name))(__VA_ARGS__))
/* Once more where it failed: what could not be let go is let go then. */
#define TWICE(symbol, types, ...)                                                                            \
    do {                                                                                                     \
        if (CALL_(#symbol, types, __VA_ARGS__) != CUDA_SUCCESS)                                              \
            CALL_(#symbol, types, __VA_ARGS__);                                                              \
    } while (0)

static inline void *find(const char *symbol)
{
    void *f = dlsym(RTLD_DEFAULT, symbol);
    CHECK(f != NULL);
    return f;
}

static inline CUresult said(const char *symbol, CUresult result)
{
    printf("%s %d\n", symbol, result);
    return result;
}

#endif
