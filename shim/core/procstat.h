/* procstat.h - what /proc says of a process: its state, its memory, its limits. */
#ifndef VS_CORE_PROCSTAT_H
#define VS_CORE_PROCSTAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct vs_procstat {
    char state;     /* field 3; of the main thread */
    long threads;   /* field 20; a main thread that has ended counts while others run */
    uint64_t start; /* field 22: clock ticks since boot */
};

/* Fields are counted from the end of the command name, which may contain anything. */
static inline bool vs_procstat(int32_t pid, struct vs_procstat *out)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    const char *p = strrchr(text, ')');
    unsigned long long start;
    if (!p ||
        sscanf(p + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %llu",
               &out->state, &out->threads, &start) != 3)
        return false;
    out->start = start;
    return true;
}

/* This process's resident memory in bytes; 0: /proc is not readable. */
static inline uint64_t vs_procstat_rss(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* ---- the limits of this process (ulimit) ----
 *
 * Under a seccomp filter prlimit64 may kill the process; this file is opened and read like any other. */

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
