/*
 * child.c - child processes for checks that may crash or hang, and for other programs: see doctor.h.
 *
 * A child's findings come back through a pipe, one a record: verdict, topic, to-do, text, each ended by a
 * NUL.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

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

/* Waits for PID: its exit status, 128 + signal, or 124 if it was killed at the deadline. */
static int end_of(pid_t pid, bool in_time)
{
    int status;
    if (!in_time)
        kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!in_time)
        return 124;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t fork_with_pipe(int *fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    fflush(stdout);
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

int doctor_command(const char *const argv[], const char *const environment[], int seconds, char *out,
                   size_t size)
{
    int fd;
    size_t length;
    out[0] = 0;
    pid_t pid = fork_with_pipe(&fd);
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY);
        dup2(null, 0);
        dup2(fd, 1);
        dup2(fd, 2);
        unsetenv("LD_PRELOAD");
        for (int i = 0; environment && environment[i]; i++)
            putenv((char *)environment[i]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid < 0)
        return 127;
    bool in_time = read_all(fd, now_ms() + seconds * 1000LL, out, size, &length);
    close(fd);
    return end_of(pid, in_time);
}

static void send_findings(int fd, const struct doctor *d)
{
    FILE *out = fdopen(fd, "w");
    if (out)
        fprintf(out, "%u%c", d->facts, 0);
    for (size_t i = 0; out && i < d->count; i++) {
        const struct finding *f = &d->findings[i];
        fprintf(out, "%d%c%s%c%s%c%s%c", (int)f->verdict, 0, f->topic, 0, f->todo ? f->todo : "", 0, f->found,
                0);
    }
    if (out)
        fclose(out);
}

static void take_findings(struct doctor *d, const char *text, size_t length)
{
    const char *end = text + length, *field[4];
    d->facts |= length ? (unsigned)atoi(text) : 0;
    text += strlen(text) + 1;
    while (text < end) {
        for (int i = 0; i < 4; i++) {
            if (text >= end)
                return;
            field[i] = text;
            text += strlen(text) + 1;
        }
        doctor_say(d, (enum verdict)atoi(field[0]), field[1], field[2], "%s", field[3]);
    }
}

bool doctor_child(struct doctor *d, void (*function)(struct doctor *), int seconds, char *why,
                  size_t why_size)
{
    static char text[65536];
    int fd;
    size_t length;
    pid_t pid = fork_with_pipe(&fd);
    if (pid == 0) {
        struct doctor mine = {.output = d->output, .quick = d->quick};
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1); /* hides messages of drivers */
        dup2(null, 2);
        function(&mine);
        send_findings(fd, &mine);
        _exit(0);
    }
    if (pid < 0) {
        snprintf(why, why_size, "no child process: %s", strerror(errno));
        return false;
    }
    bool in_time = read_all(fd, now_ms() + seconds * 1000LL, text, sizeof text, &length);
    close(fd);
    int status = end_of(pid, in_time);
    if (status == 0)
        take_findings(d, text, length);
    else if (status == 124)
        snprintf(why, why_size, "no answer within %d s", seconds);
    else
        snprintf(why, why_size, status > 128 ? "crashed (signal %d)" : "ended with status %d",
                 status > 128 ? status - 128 : status);
    return status == 0;
}
