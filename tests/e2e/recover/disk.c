/*
 * disk.c - a library to preload: a disk that is slow, and one at which a process ends.
 *
 *      SLOW_US=N    a write at a place of a file, as a database's are, takes N microseconds more
 *      KILL_AT=N    the process kills itself in front of its Nth change of a file (a write, a change of size,
 * a new name, a name removed), from 1 on; beyond the last one nothing happens
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void count(void)
{
    static long left;
    const char *at = getenv("KILL_AT");
    if (left == 0)
        left = at ? atol(at) : -1;
    if (left > 0 && --left == 0)
        kill(getpid(), SIGKILL);
}

static void before_a_write(void)
{
    const char *us = getenv("SLOW_US");
    count();
    if (us)
        usleep((useconds_t)atol(us));
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t n, off_t offset)
{
    before_a_write();
    return syscall(SYS_pwrite64, fd, from, n, offset);
}
EXPORT ssize_t pwrite64(int fd, const void *from, size_t n, off64_t offset)
{
    return pwrite(fd, from, n, offset);
}
EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count_of_parts, off_t offset)
{
    before_a_write();
    return syscall(SYS_pwritev, fd, parts, count_of_parts, (long)offset, 0l);
}
EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int count_of_parts, off64_t offset)
{
    return pwritev(fd, parts, count_of_parts, offset);
}
EXPORT int ftruncate(int fd, off_t size)
{
    count();
    return (int)syscall(SYS_ftruncate, fd, size);
}
EXPORT int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}
EXPORT int unlink(const char *path)
{
    count();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
EXPORT int openat(int at, const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    int mode = va_arg(list, int);
    va_end(list);
    if (flags & O_CREAT)
        count();
    return (int)syscall(SYS_openat, at, path, flags, mode);
}
