// link: cuda
/* A process that uses the driver, starts a worker that does too, in the way of ARGV[1] (vfork, posix_spawn,
 * system, daemon), and goes on; exec: becomes the worker.  ARGV[1] = worker: allocates ARGV[2] bytes. */
#define _GNU_SOURCE
#include "prog.h"
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void worker(const char *bytes)
{
    CUdeviceptr p;
    begin();
    OK(cuMemAlloc(&p, strtoull(bytes, NULL, 10)));
    OK(cuMemFree(p));
    puts("worked");
}

static int wait_for(pid_t pid)
{
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    return status;
}

static int start_vfork(char **worker_argv)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execv(worker_argv[0], worker_argv);
        _exit(127);
    }
    return wait_for(pid);
}

static int start_spawn(char **worker_argv)
{
    pid_t pid;
    CHECK(posix_spawn(&pid, worker_argv[0], NULL, NULL, worker_argv, environ) == 0);
    return wait_for(pid);
}

static int start_system(char **worker_argv)
{
    char command[4096];
    snprintf(command, sizeof command, "'%s' worker %s", worker_argv[0], worker_argv[2]);
    return system(command);
}

/* The grandchild is nobody's child: it leaves a word in a pipe when it is done. */
static int start_daemon(char **worker_argv)
{
    int done[2];
    char word = 0;
    CHECK(pipe(done) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (fork() == 0) {
            int status = start_spawn(worker_argv);
            CHECK(write(done[1], status == 0 ? "y" : "n", 1) == 1);
        }
        _exit(0);
    }
    int status = wait_for(pid);
    CHECK(read(done[0], &word, 1) == 1);
    return word == 'y' ? status : 1;
}

int main(int argc, char **argv)
{
    CUdeviceptr a, b;
    char word[] = "worker", bytes[] = "1111", *worker_argv[] = {argv[0], word, bytes, NULL};
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "worker") == 0) {
        worker(argv[2]);
        return 0;
    }
    begin();
    OK(cuMemAlloc(&a, 4096));
    fflush(stdout);
    if (strcmp(how, "exec") == 0) {
        execv(argv[0], worker_argv);
        return 3;
    }
    int status = strcmp(how, "vfork") == 0         ? start_vfork(worker_argv)
                 : strcmp(how, "posix_spawn") == 0 ? start_spawn(worker_argv)
                 : strcmp(how, "system") == 0      ? start_system(worker_argv)
                 : strcmp(how, "daemon") == 0      ? start_daemon(worker_argv)
                                                   : 3;
    printf("worker: %d\n", status);
    OK(cuMemAlloc(&b, 8192));
    OK(cuMemFree(a));
    return status != 0;
}
