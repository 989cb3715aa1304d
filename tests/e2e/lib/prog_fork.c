// link: cuda
/* Children of a recording process (ARGV[1] = fork, vfork, clone, threads) that touch the driver or do not. */
#define _GNU_SOURCE
#include "prog.h"
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int wait_for(pid_t pid)
{
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

/* What a child of an initialized process gets, and a driver call that the shim must not write into its
 * parent's file. */
static void child(void)
{
    CUdeviceptr p;
    IS(cuMemAlloc(&p, 1111), CUDA_ERROR_NOT_INITIALIZED);
    IS(cuMemFree(4096), CUDA_ERROR_NOT_INITIALIZED);
}

/* A child forked before the driver was touched is a CUDA program of its own. */
static void own_program(void)
{
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, 2222));
    OK(cuMemFree(p));
    OK(cuMemAlloc(&p, 3333));
}

static void parent(const char *how)
{
    CUdeviceptr a, b;
    begin();
    OK(cuMemAlloc(&a, 4096));
    pid_t pid;
    if (strcmp(how, "vfork") == 0) {
        pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
    } else if (strcmp(how, "clone") == 0) { /* no atfork handler runs */
        pid = (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
        if (pid == 0) {
            child();
            syscall(SYS_exit_group, 0);
        }
    } else if (strcmp(how, "_Fork") == 0) { /* likewise */
        pid = _Fork();
        if (pid == 0) {
            child();
            _exit(0);
        }
    } else {
        pid = fork();
        if (pid == 0) {
            child();
            exit(0); /* with destructors */
        }
    }
    printf("child %d\n", wait_for(pid));
    OK(cuMemAlloc(&b, 8192));
    OK(cuMemFree(a));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (strcmp(argv[1], "early") == 0) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            own_program();
            exit(0);
        }
        printf("child %d\n", wait_for(pid));
        own_program();
    } else {
        parent(argv[1]);
    }
    return 0;
}
