/*
 * start.c - starts a child, forwards signals and waits (start.h). The terminal sends Ctrl-C to the whole
 * foreground group, the program included: such a signal (SI_KERNEL) is not forwarded a second time.
 */
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/shown.h"

static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH};
enum { FORWARDED = sizeof forwarded / sizeof *forwarded };

static volatile pid_t child; /* 0 until it is known */

static void forward(int sig, siginfo_t *info, void *context)
{
    int saved = errno;
    if (child > 0 && info->si_code != SI_KERNEL)
        kill(child, sig);
    if (sig == SIGTSTP) /* stop as well, so that the shell gets its prompt back */
        kill(getpid(), SIGSTOP);
    errno = saved;
}

static struct {
    bool taken;
    struct sigaction before[FORWARDED];
    sigset_t mask;
} signals;

static void take_signals(void)
{
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigset_t block;
    sigemptyset(&action.sa_mask);
    sigemptyset(&block);
    for (int i = 0; i < FORWARDED; i++)
        sigaddset(&block, forwarded[i]);
    sigprocmask(SIG_BLOCK, &block, &signals.mask); /* until the child's pid is known */
    for (int i = 0; !signals.taken && i < FORWARDED; i++) {
        sigaction(forwarded[i], NULL, &signals.before[i]);
        /* signals that nohup and & ignore stay ignored, here and in the child */
        if (signals.before[i].sa_handler != SIG_IGN)
            sigaction(forwarded[i], &action, NULL);
    }
    signals.taken = true;
}

static _Noreturn void become(char **command, const struct start_child *c, int report)
{
    int error = c->prepare ? c->prepare(c->context) : 0;
    for (int i = 0; i < FORWARDED; i++)
        sigaction(forwarded[i], &signals.before[i], NULL);
    sigprocmask(SIG_SETMASK, &signals.mask, NULL);
    if (!error && c->run) {
        close(report);
        c->run(c->run_context, command);
    }
    if (!error) {
        execvp(command[0], command);
        error = errno;
    }
    if (write(report, &error, sizeof error) < 0) {
        /* ignored: the exit status reports the failure too */
    }
    _exit(error == ENOENT ? 127 : 126);
}

/* The pipe closes at a successful exec and carries errno otherwise. */
pid_t start_command(char **command, const struct start_child *c, int *error)
{
    int report[2];
    *error = 0;
    take_signals();
    pid_t pid = pipe2(report, O_CLOEXEC) ? -1 : fork();
    if (pid == 0)
        become(command, c, report[1]);
    if (pid < 0) {
        *error = errno;
        return -1;
    }
    child = pid;
    sigprocmask(SIG_SETMASK, &signals.mask, NULL);
    close(report[1]);
    ssize_t n;
    do
        n = read(report[0], error, sizeof *error);
    while (n < 0 && errno == EINTR);
    close(report[0]);
    if (n != sizeof *error)
        *error = 0;
    return pid;
}

int start_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0;
    child = 0; /* the pid may be reused from now on */
    return status;
}

char *start_file(const char *command)
{
    const char *path = getenv("PATH");
    if (strchr(command, '/') || !path)
        return xstrdup(command);
    for (const char *p = path, *end; p; p = *end ? end + 1 : NULL) {
        end = strchrnul(p, ':');
        char *file = xformat("%.*s/%s", end > p ? (int)(end - p) : 1, end > p ? p : ".", command);
        if (access(file, X_OK) == 0)
            return file;
        free(file);
    }
    return NULL;
}

/* Debian has no `python` but in a virtual environment. */
static const char *python(void)
{
    char *found = start_file("python");
    free(found);
    return found ? "python" : "python3";
}

/* What to type instead of COMMAND; the caller frees it. */
static char *how_to_start(const char *who, const char *command, int error)
{
    size_t n = strlen(command);
    struct stat st;
    const char *word = shown_word(command);
    bool there = stat(command, &st) == 0, path = strchr(command, '/') != NULL;
    if (there && S_ISDIR(st.st_mode))
        return xstrdup("it is a directory: name a program in it");
    if (there && n > 3 && !strcmp(command + n - 3, ".py"))
        return xformat("a Python program is started as vramscope %s -- %s %s", who, python(), word);
    if (there && !path)
        return xformat("of this directory it is vramscope %s -- ./%s", who, word);
    if (there && error == ENOENT)
        return xstrdup("its first line (#!) or its loader names a program that is not there");
    if (there && error == EACCES)
        return xformat("chmod +x %s", word);
    return xstrdup(path ? "is the name right?" : "is the name right, and its directory in PATH?");
}

int start_failed(const char *who, const char *command, int error)
{
    char *how = how_to_start(who, command, error);
    if (error == ENOENT && !strchr(command, '/'))
        complain("%s: %s: command not found: %s", who, command, how);
    else
        complain("%s: %s can't be started: %s: %s", who, command, strerror(error), how);
    free(how);
    return error == ENOENT ? 127 : 126;
}

int start_end_as(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    int sig = WTERMSIG(status);
    sigset_t one;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); /* only the child should leave a core file */
    fflush(NULL);
    signal(sig, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, sig);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(sig);
    return 128 + sig;
}
