/*
 * rlimits.h - the limits of this process (ulimit), read without a system call of their own.
 *
 * Under a seccomp filter prlimit64 may kill the process; /proc/self/limits is opened and read like any file,
 * which we do anyway.
 */
#ifndef VS_CORE_RLIMITS_H
#define VS_CORE_RLIMITS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct vs_limit {
    int resource;
    const char *line; /* how it begins in /proc/self/limits */
};
#define VS_LIMIT_FILE_SIZE ((struct vs_limit){RLIMIT_FSIZE, "\nMax file size "})
#define VS_LIMIT_SPACE     ((struct vs_limit){RLIMIT_AS, "\nMax address space "})
#define VS_LIMIT_FILES     ((struct vs_limit){RLIMIT_NOFILE, "\nMax open files "})

/* The soft limit; UINT64_MAX: there is none.  Without /proc it calls getrlimit after all. */
static inline uint64_t vs_limit(struct vs_limit what)
{
    char text[4096];
    struct rlimit limit;
    int fd = open("/proc/self/limits", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return getrlimit(what.resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
                                                                                        : limit.rlim_cur;
    text[n] = '\0';
    const char *line = strstr(text, what.line);
    const char *value = line ? line + strlen(what.line) : "unlimited";
    value += strspn(value, " ");
    return *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : UINT64_MAX;
}

#endif
