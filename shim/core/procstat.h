/*
 * procstat.h - what /proc/PID/stat says of a process.
 */
#ifndef VS_TRACE_PROCSTAT_H
#define VS_TRACE_PROCSTAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct vs_procstat {
    char state;     /* field 3; of the main thread */
    long threads;   /* field 20; a main thread that has ended counts while others run */
    uint64_t start; /* field 22: clock ticks since boot */
};

/* The fields are counted from behind the command name, which may hold anything. */
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

#endif
