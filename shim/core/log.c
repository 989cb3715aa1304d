/* log.c - see log.h.  The line is made on the stack and written by one write(2). */
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "own_work.h"

#define LINES_MAX 20

static dev_t stderr_device;
static ino_t stderr_inode;
static bool stderr_known;
static bool under_run;
static _Atomic int lines;

void vs_log_init(char *const environment[])
{
    struct stat st;
    int kept = errno;
    for (; environment && *environment; environment++)
        under_run = under_run || strcmp(*environment, "VRAMSCOPE_CLAIM=1") == 0;
    stderr_known = fstat(STDERR_FILENO, &st) == 0;
    if (stderr_known) {
        stderr_device = st.st_dev;
        stderr_inode = st.st_ino;
    }
    errno = kept;
}

/* Whether FD still is the original stderr (or a terminal), and can be written to without waiting. */
static bool usable(int fd)
{
    struct stat st;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    if (fstat(fd, &st) != 0)
        return false;
    bool same = stderr_known && st.st_dev == stderr_device && st.st_ino == stderr_inode;
    if (!same && !(S_ISCHR(st.st_mode) && isatty(fd)))
        return false;
    return poll(&p, 1, 0) == 1 && !(p.revents & (POLLERR | POLLNVAL));
}

/* If the reader has gone, the write raises SIGPIPE in this thread.  It is blocked (all signals are) and
 * removed again. */
static void write_quietly(int fd, const char *line, size_t length)
{
    struct timespec none = {0, 0};
    sigset_t pipe_set, pending;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    if (write(fd, line, length) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe_set, NULL, &none);
}

static __thread bool afar __attribute__((tls_model("initial-exec")));

void vs_log_from_afar(void)
{
    afar = true;
}

/* Opened anew from the other table: with O_APPEND, because the two descriptors do not share an offset. */
static void put(const char *line, size_t length, bool terminal_only)
{
    int fd = STDERR_FILENO;
    if (afar)
        fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && (!terminal_only || isatty(fd)) && usable(fd))
        write_quietly(fd, line, length);
    if (afar && fd >= 0)
        close(fd);
}

static void say(const char *prefix, bool terminal_only, const char *format, va_list args)
{
    char line[2048]; /* three long paths */
    int kept = errno;
    struct vs_signal_mask mask;
    vs_signal_mask_block(&mask);
    int n = snprintf(line, sizeof line, "%s", prefix);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    size_t length = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?'; /* one line, whatever a file is called */
    line[length++] = '\n';
    put(line, length, terminal_only);
    vs_signal_mask_restore(&mask);
    errno = kept;
}

void vs_log(const char *format, ...)
{
    va_list args;
    int line = atomic_fetch_add_explicit(&lines, 1, memory_order_relaxed);
    if (line >= LINES_MAX)
        return;
    va_start(args, format);
    say(line == LINES_MAX - 1 ? "vramscope: (and no more after this) " : "vramscope: ", false, format, args);
    va_end(args);
}

void vs_log_verbose(const char *format, ...)
{
    va_list args;
    if (!vs_options.verbose)
        return;
    va_start(args, format);
    say("vramscope: ", false, format, args);
    va_end(args);
}

void vs_log_person(const char *format, ...)
{
    va_list args;
    if (under_run && !vs_options.verbose)
        return;
    va_start(args, format);
    say("vramscope: ", !vs_options.verbose, format, args);
    va_end(args);
}

void vs_log_plain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("", false, format, args);
    va_end(args);
}
