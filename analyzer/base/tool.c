/* tool.c - see tool.h. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Reads FD until its end or DEADLINE; false = the deadline came first. */
static bool read_all(int fd, int64_t deadline, char *out, size_t size, size_t *length)
{
    char rest[4096];
    *length = 0;
    for (;;) {
        int64_t left = deadline - now_ms();
        struct pollfd p = {fd, POLLIN, 0};
        if (left <= 0 || poll(&p, 1, (int)left) == 0)
            return false;
        bool room = *length + 1 < size;
        ssize_t n = read(fd, room ? out + *length : rest, room ? size - 1 - *length : sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        *length += room ? (size_t)n : 0;
    }
    out[*length] = 0;
    return true;
}

pid_t tool_fork(int *fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        close(ends[0]);
        *fd = ends[1];
        return 0;
    }
    close(ends[1]);
    *fd = ends[0];
    if (pid < 0)
        close(ends[0]);
    else
        setpgid(pid, pid);
    return pid;
}

int tool_read(pid_t pid, int fd, int seconds, char *out, size_t size, size_t *length)
{
    int status;
    bool in_time = read_all(fd, now_ms() + seconds * 1000LL, out, size, length);
    close(fd);
    if (!in_time)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!in_time)
        return 124;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int tool_output(const char *const argv[], const char *const environment[], int seconds, bool errors,
                char *out, size_t size)
{
    int fd;
    size_t length;
    out[0] = 0;
    pid_t pid = tool_fork(&fd);
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(fd, 1);
        dup2(errors ? fd : null, 2);
        unsetenv("LD_PRELOAD");
        for (int i = 0; environment && environment[i]; i++)
            putenv((char *)environment[i]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    return pid < 0 ? 127 : tool_read(pid, fd, seconds, out, size, &length);
}
