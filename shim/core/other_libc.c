/*
 * other_libc.c - names that glibc alone has, for programs of another C library (musl) with our library in
 * their LD_PRELOAD.
 *
 * Such a program inherits the variable from a recorded one, and its loader ends it where a name of ours is
 * not found.  So these names are weak (_r_debug, dladdr1, __register_atfork) or have a definition here, for
 * our own code, which is meant for glibc and does nothing in such a process (preload/init.c).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *object)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

#define OURS __attribute__((visibility("hidden")))

OURS int pthread_atfork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    return __register_atfork != NULL ? __register_atfork(before, parent, child, &__dso_handle) : 0;
}

OURS void *__memcpy_chk(void *to, const void *from, size_t n, size_t room);
OURS void *__memset_chk(void *to, int byte, size_t n, size_t room);
OURS int fcntl64(int fd, int command, ...);

void *__memcpy_chk(void *to, const void *from, size_t n, size_t room)
{
    if (n > room)
        abort();
    return memcpy(to, from, n);
}

void *__memset_chk(void *to, int byte, size_t n, size_t room)
{
    if (n > room)
        abort();
    return memset(to, byte, n);
}

int fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    return (int)syscall(SYS_fcntl, fd, command, argument);
}
