/* child.c - runs a program and ends all of it (child.h). */
#include "child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "read/guard.h"

#define GRACE_NS INT64_C(10000000000)
#define LOOK_NS  20000000 /* between two looks whether all have ended */

struct child {
    char *const *command;
    const char *log, *output;
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int make(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static _Noreturn void become(const struct child *c, const sigset_t *mask, int report)
{
    setpgid(0, 0);
    int err = make(c->log), out = c->output ? make(c->output) : err,
        in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (out >= 0 && err >= 0 && in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2) {
        sigprocmask(SIG_SETMASK, mask, NULL);
        guard_memory_end(); /* what a damaged recording may take of us is no limit of the program's */
        execv(c->command[0], c->command);
    }
    int error = errno;
    if (write(report, &error, sizeof error) < 0) {
        /* ignored: the exit status says that it failed */
    }
    _exit(127);
}

/* Its pid, or -1 with *ERROR. */
static pid_t start(const struct child *c, const sigset_t *mask, int *error)
{
    int report[2];
    *error = 0;
    pid_t pid = pipe2(report, O_CLOEXEC) ? -1 : fork();
    if (pid == 0)
        become(c, mask, report[1]);
    if (pid < 0) {
        *error = errno;
        return -1;
    }
    setpgid(pid, pid); /* whoever is first */
    close(report[1]);
    if (read(report[0], error, sizeof *error) != sizeof *error)
        *error = 0;
    close(report[0]);
    return pid;
}

/* Takes what has ended; whether PID was among it. */
static bool reap(pid_t pid, int *status)
{
    bool ended = false;
    int one;
    pid_t p;
    while ((p = waitpid(-1, &one, WNOHANG)) > 0)
        if (p == pid) {
            *status = one;
            ended = true;
        }
    return ended;
}

static bool is_child(const char *pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n < 0 ? 0 : n] = 0;
    const char *behind = strrchr(text, ')'); /* a name may have anything in it */
    char state;
    int parent;
    return behind && sscanf(behind + 1, " %c %d", &state, &parent) == 2 && parent == (int)getpid();
}

/* Sends SIGNAL to the group and to all children of ours; how many children there are. */
static int tell_all(pid_t group, int signal)
{
    int n = 0;
    kill(-group, signal);
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && is_child(e->d_name)) {
            kill((pid_t)atoi(e->d_name), signal);
            n++;
        }
    if (proc)
        closedir(proc);
    return n;
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, LOOK_NS}, NULL);
}

/* Ends PID's group and all that became ours, each signal GRACE ns before the next; false: something stays. */
static bool end_all(pid_t pid, int64_t grace, bool *ended, int *status)
{
    static const int signals[] = {SIGTERM, SIGKILL};
    for (size_t i = 0; i < 2; i++) {
        int64_t until = now() + grace;
        tell_all(pid, signals[i]);
        do {
            *ended = reap(pid, status) || *ended;
            int left = tell_all(pid, i ? SIGKILL : 0); /* what is handed to us meanwhile is killed too */
            if (!left && kill(-pid, 0))
                return true;
            nap();
        } while (now() < until);
    }
    return false;
}

static int64_t wait_until(pid_t pid, int64_t until, const sigset_t *waited, struct child_end *end)
{
    for (;;) {
        if (reap(pid, &end->status))
            return 0;
        int64_t left = until ? until - now() : INT64_C(3600000000000);
        if (left <= 0) {
            end->timed_out = true;
            return 1;
        }
        struct timespec time = {left / 1000000000, left % 1000000000};
        int signal = sigtimedwait(waited, NULL, &time);
        if (signal > 0 && signal != SIGCHLD) {
            end->interrupted = true;
            return 1;
        }
    }
}

int child_run(char *const *command, const char *log, const char *output, int64_t limit, struct child_end *end)
{
    sigset_t waited, mask;
    int error;
    *end = (struct child_end){0};
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    sigaddset(&waited, SIGINT);
    sigaddset(&waited, SIGTERM);
    sigaddset(&waited, SIGHUP);
    sigprocmask(SIG_BLOCK, &waited, &mask);
    int64_t begin = now();
    pid_t pid = start(&(struct child){command, log, output}, &mask, &error);
    if (pid > 0 && !error) {
        bool ended = wait_until(pid, limit ? begin + limit : 0, &waited, end) == 0;
        end->ns = now() - begin;
        end->left = ended && (tell_all(pid, 0) > 0 || !kill(-pid, 0));
        int64_t grace = limit && limit < GRACE_NS ? limit : GRACE_NS;
        if (!ended || end->left)
            end->stuck = !end_all(pid, grace, &ended, &end->status);
    } else if (pid > 0) {
        waitpid(pid, &end->status, 0);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return error;
}
