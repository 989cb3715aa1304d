/*
 * procstat.h - reads /proc/PID/stat and /proc/self/statm.
 */
#ifndef VS_CORE_PROCSTAT_H
#define VS_CORE_PROCSTAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

#endif
