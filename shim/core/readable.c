/*
 * readable.c - see readable.h.
 */
#define _GNU_SOURCE
#include "readable.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel copies the new mask in before it looks at `how`: an impossible `how` gives EINVAL where the
 * memory can be read and EFAULT where it can't, and changes nothing.  8 aligned bytes never cross a page. */
bool vs_readable(uintptr_t address)
{
    long rc = syscall(SYS_rt_sigprocmask, ~0L, address & ~(uintptr_t)7, NULL, 8L);
    return !(rc == -1 && errno == EFAULT);
}

/* So few bytes lie on two pages at most, of which one has the first of them and the other the last. */
bool vs_readable_bytes(uintptr_t address, size_t n)
{
    return n > 0 && n <= 4096 && address <= UINTPTR_MAX - n && vs_readable(address) &&
           vs_readable(address + n - 1);
}

size_t vs_copy_text(char *to, size_t room, uintptr_t address)
{
    size_t n = 0;
    for (; n + 1 < room; n++) {
        if ((n == 0 || (address + n) % 4096 == 0) && !vs_readable(address + n))
            break;
        if (!(to[n] = *(const char *)(address + n)))
            return n;
    }
    to[n] = '\0';
    return n;
}
