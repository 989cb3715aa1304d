// link: cuda
/*
 * prog_tight WHERE [first] - allocates where there is little room, or much: on the smallest stacks, on a
 * small alternate stack in a signal handler, in hundreds of threads, on a huge stack.  first: the recording
 * starts there.
 */
#define _GNU_SOURCE
#include "prog.h"
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUcontext context;
static size_t stack_bytes = 16384;
static int repeat = 1;

static void pair(void)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemFree(p));
}

static void *allocates(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < repeat; i++)
        pair();
    return NULL;
}

/* COUNT threads with stacks of STACK_BYTES, ATONCE of them at a time. */
static void threads(int count, int at_once)
{
    pthread_attr_t attr;
    pthread_t t[512];
    size_t least = (size_t)sysconf(_SC_THREAD_STACK_MIN);
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, stack_bytes < least ? least : stack_bytes) == 0);
    for (int done = 0; done < count; done += at_once) {
        for (int i = 0; i < at_once; i++)
            CHECK(pthread_create(&t[i], &attr, allocates, NULL) == 0);
        for (int i = 0; i < at_once; i++)
            CHECK(pthread_join(t[i], NULL) == 0);
    }
}

static void tiny(void)
{
    repeat = 100;
    threads(8, 4);
}

static void many(void)
{
    stack_bytes = 262144;
    repeat = 20;
    threads(512, 512);
}

static void ids(void)
{
    stack_bytes = 65536;
    threads(9216, 64);
}

static void in_handler(int number)
{
    char here;
    stack_t now;
    (void)number;
    CHECK(sigaltstack(NULL, &now) == 0);
    CHECK(&here > (char *)now.ss_sp && &here < (char *)now.ss_sp + now.ss_size);
    allocates(NULL);
}

/* The alternate stack lies between pages that nobody may touch. */
static void altstack(void)
{
    char *room = mmap(NULL, 3 * 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    CHECK(mprotect(room + 16384, 16384, PROT_READ | PROT_WRITE) == 0);
    stack_t small = {.ss_sp = room + 16384, .ss_size = 16384};
    CHECK(sigaltstack(&small, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = in_handler, .sa_flags = SA_ONSTACK}, NULL) ==
          0);
    repeat = 50;
    for (int i = 0; i < 4; i++)
        raise(SIGUSR1);
}

static __attribute__((noinline)) void deep(int kilobytes)
{
    volatile char frame[1024];
    frame[0] = 1;
    if (kilobytes > 0)
        deep(kilobytes - 1);
    else
        pair();
    frame[1] = frame[0];
}

static void *all_of_it(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    deep(90 * 1024);
    return NULL;
}

static void huge(void)
{
    pthread_attr_t attr;
    pthread_t t;
    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, 100 * MIB) == 0);
    CHECK(pthread_create(&t, &attr, all_of_it, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"tiny", tiny}, {"altstack", altstack}, {"many", many}, {"ids", ids}, {"huge", huge}};
    CHECK(argc > 1);
    begin();
    OK(cuCtxGetCurrent(&context));
    if (argc < 3)
        pair();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[1]) == 0) {
            ways[i].run();
            puts("done");
            return 0;
        }
    return 2;
}
