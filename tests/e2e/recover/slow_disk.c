/*
 * A library to preload: every write at a place of a file, as a database's are, takes $SLOW_US microseconds
 * more.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static void wait_for_disk(void)
{
    const char *us = getenv("SLOW_US");
    if (us)
        usleep((useconds_t)atol(us));
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t n, off_t offset)
{
    wait_for_disk();
    return syscall(SYS_pwrite64, fd, from, n, offset);
}
EXPORT ssize_t pwrite64(int fd, const void *from, size_t n, off64_t offset)
{
    return pwrite(fd, from, n, offset);
}
EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count_of_parts, off_t offset)
{
    wait_for_disk();
    return syscall(SYS_pwritev, fd, parts, count_of_parts, (long)offset, 0l);
}
EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int count_of_parts, off64_t offset)
{
    return pwritev(fd, parts, count_of_parts, offset);
}
