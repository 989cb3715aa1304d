// link: cuda
/*
 * prog_held.c WAY [WHAT...] - is suspended from outside and ends while its memory is away.  A thread of it
 * needs that and waits.  Its exit status is 7.
 *
 *      exit, return   main does so
 *      term           a handler of SIGTERM calls exit while main waits for its memory as well
 *      quick          _exit
 *      itself         exit; it suspends itself, and has no such thread
 *
 * Its exit handler does each WHAT in turn, and says what it got:
 *
 *      frees    a block
 *      copies   reads one
 *      takes    allocates
 *      leaves   gives its context back
 *      joins    waits for the thread
 *      first    (no work) the handler was registered before CUDA began
 *      short    (no work) others have taken the device's memory since
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "prog.h"
#include "vramscope.h"

enum { BLOCKS = 4, BYTES = 3 * MIB };

static CUdeviceptr block[BLOCKS];
static char **whats;
static pthread_t thread;

static void say(const char *what, CUresult status)
{
    printf("%s %d\n", what, (int)status);
    fflush(stdout);
}

static CUresult copy(int i)
{
    unsigned char *bytes = calloc(1, BYTES);
    CUresult status = cuMemcpyDtoH(bytes, block[i], BYTES);
    for (size_t at = 0; at < BYTES && status == CUDA_SUCCESS; at++)
        CHECK(bytes[at] == i + 1);
    free(bytes);
    return status;
}

static void at_exit(void)
{
    CUdeviceptr more;
    for (char **what = whats; *what; what++)
        if (!strcmp(*what, "frees"))
            say("frees", cuMemFree(block[0]));
        else if (!strcmp(*what, "copies"))
            say("copies", copy(1));
        else if (!strcmp(*what, "takes"))
            say("takes", cuMemAlloc(&more, MIB));
        else if (!strcmp(*what, "joins"))
            say("joins", (CUresult)pthread_join(thread, NULL));
        else if (!strcmp(*what, "leaves"))
            say("leaves", cuDevicePrimaryCtxReset(0));
}

static bool has(const char *word)
{
    for (char **what = whats; *what; what++)
        if (!strcmp(*what, word))
            return true;
    return false;
}

/* By a road that is not the arena's. */
static void take_the_rest(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    OK(cuMemCreate(&handle, left / (2 * MIB) * 2 * MIB, &prop, 0));
}

static void *work(void *context)
{
    OK(cuCtxSetCurrent(context));
    say("waits", 0);
    say("worked", copy(2));
    return NULL;
}

static void on_term(int signal)
{
    exit(7);
}

int main(int argc, char **argv)
{
    CUcontext context;
    char line[64];
    CHECK(argc >= 2);
    whats = argv + 2;
    bool first = has("first");
    if (first)
        atexit(at_exit);
    begin();
    for (int i = 0; i < BLOCKS; i++) {
        OK(cuMemAlloc(&block[i], BYTES));
        OK(cuMemsetD8(block[i], (unsigned char)(i + 1), BYTES));
    }
    if (!first)
        atexit(at_exit);
    if (!strcmp(argv[1], "term"))
        signal(SIGTERM, on_term);
    if (!strcmp(argv[1], "itself")) {
        IS(vramscope_suspend(NULL, 0), 0);
        if (has("short"))
            take_the_rest();
        exit(7);
    }
    say("ready", 0);
    CHECK(fgets(line, sizeof line, stdin)); /* it is suspended */
    OK(cuCtxGetCurrent(&context));
    if (has("short"))
        take_the_rest();
    CHECK(pthread_create(&thread, NULL, work, context) == 0);
    CHECK(fgets(line, sizeof line, stdin)); /* the thread waits */
    if (!strcmp(argv[1], "term")) {
        say("begins", 0);
        say("worked", copy(3));
    }
    if (!strcmp(argv[1], "exit"))
        exit(7);
    if (!strcmp(argv[1], "quick"))
        _exit(7);
    return 7;
}
