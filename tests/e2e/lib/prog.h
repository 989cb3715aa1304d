/*
 * prog.h - for the programs of these tests: a step that fails says where and ends with status 3.
 *
 * Programs print no address, pid or time: run_shimmed compares two runs byte by byte.
 */
#ifndef TESTS_E2E_LIB_PROG_H
#define TESTS_E2E_LIB_PROG_H

#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)
#define IS(call, wanted)                                                                                     \
    do {                                                                                                     \
        int got_ = (int)(call);                                                                              \
        if (got_ != (int)(wanted)) {                                                                         \
            fprintf(stderr, "%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, got_, #wanted);        \
            exit(3);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) IS(call, CUDA_SUCCESS)

/* Whether the test has seen what the recording is to have by now: it makes the file $GO.N (lib.bash, `seen`).
 */
static inline bool may_go(int n)
{
    char path[4096];
    const char *go = getenv("GO");
    snprintf(path, sizeof path, "%s.%d", go ? go : "", n);
    return !go || access(path, F_OK) == 0;
}
static inline void go(int n)
{
    while (!may_go(n))
        usleep(5000);
}

struct part {
    const char *name;
    void (*play)(void);
};

/* The part that the first argument names.  Exit status: 2 where there is none. */
static inline int play_part(int argc, char **argv, const struct part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (argc > 1 && strcmp(argv[1], parts[i].name) == 0) {
            parts[i].play();
            puts("done");
            return 0;
        }
    return 2;
}

#ifndef PROG_NO_BEGIN
static inline void begin(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
}
#endif

#endif
