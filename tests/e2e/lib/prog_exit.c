// link: cuda
/* Allocates ARGV[2] times and then ends in the way that ARGV[1] names.  Destructors and atexit handlers
 * allocate too. */
#include "prog.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static bool late;
static volatile int *volatile nowhere; /* volatile: the compiler would object */

static void at_exit(void)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 7777));
}
__attribute__((destructor)) static void last(void)
{
    CUdeviceptr p;
    if (late)
        OK(cuMemAlloc(&p, 8888));
}
static void *exit_thread(void *unused)
{
    exit(5);
}

static void end(const char *how, char **argv)
{
    pthread_t thread;
    if (strcmp(how, "exit") == 0)
        exit(4);
    if (strcmp(how, "thread") == 0) {
        pthread_create(&thread, NULL, exit_thread, NULL);
        pause();
    }
    if (strcmp(how, "pthread_exit") == 0)
        pthread_exit(NULL);
    if (strcmp(how, "_exit") == 0)
        _exit(6);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(7);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "segv") == 0)
        *nowhere = 1;
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "exec") == 0)
        execl("/bin/sh", "sh", "-c", "echo executed; exit 9", (char *)NULL);
    if (strcmp(how, "reexec") == 0)
        execl(argv[0], argv[0], "return", argv[2], (char *)NULL);
}

int main(int argc, char **argv)
{
    CUdeviceptr p;
    CHECK(argc == 3);
    begin();
    for (int i = 0; i < atoi(argv[2]); i++) {
        OK(cuMemAlloc(&p, 4096));
        if (i % 2)
            OK(cuMemFree(p));
    }
    if (strcmp(argv[1], "late") == 0) {
        late = true;
        atexit(at_exit);
    }
    puts("allocated");
    fflush(stdout);
    end(argv[1], argv);
    return 0;
}
