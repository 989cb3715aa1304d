// link: cuda
/* Threads allocate without pause while the main thread forks: the child finds the driver, the allocator and
 * us in whatever state those threads were in.  Children exit, _exit, run a program, or do a driver call that
 * the driver refuses; the parent's recording goes on. */
#define _GNU_SOURCE
#include "prog.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>
#include "vramscope.h"

static CUcontext context;
static _Atomic bool ended;
static _Atomic long pairs;

static void *allocates(void *unused)
{
    CUdeviceptr p;
    (void)unused;
    OK(cuCtxSetCurrent(context));
    while (!ended) {
        vramscope_range_push("work");
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
        vramscope_range_pop();
        atomic_fetch_add(&pairs, 1);
    }
    return NULL;
}

static void in_child(int way)
{
    vramscope_range_push("child");
    vramscope_range_pop();
    if (way == 0)
        exit(0); /* with exit handlers */
    if (way == 1)
        execl("/bin/true", "true", (char *)NULL);
    if (way == 2 && fork() == 0)
        exit(0);
    free(malloc(100));
    _exit(0);
}

int main(int argc, char **argv)
{
    pthread_t t[4];
    CUdeviceptr p;
    int status, children = argc > 1 ? atoi(argv[1]) : 60;
    begin();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&p, 4096));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, allocates, NULL) == 0);
    for (int i = 0; i < children; i++) {
        pid_t child = fork();
        if (child == 0)
            in_child(i % 4);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(status == 0);
        long before = pairs; /* and on it goes */
        while (pairs < before + 5)
            usleep(100);
    }
    ended = true;
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    OK(cuMemFree(p));
    if (getenv("COUNT_TO"))
        fprintf(fopen(getenv("COUNT_TO"), "w"), "%ld\n", pairs + 1);
    puts("done");
    return 0;
}
