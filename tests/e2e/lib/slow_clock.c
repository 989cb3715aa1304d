/*
 * slow_clock.c - preloaded beside the shim: CLOCK_MONOTONIC runs at a SLOW_CLOCK-th of its speed.
 *
 * What the shim waits for some milliseconds it so waits for longer, and a machine that stops the program
 * changes nothing.  Sleeps and futexes are as ever.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *t)
{
    static _Atomic uint64_t slower;
    const char *n;
    if (slower == 0)
        slower = (n = getenv("SLOW_CLOCK")) && atoi(n) > 0 ? (uint64_t)atoi(n) : 1;
    long status = syscall(SYS_clock_gettime, clock, t);
    if (status == 0 && clock == CLOCK_MONOTONIC) {
        uint64_t ns = ((uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec) / slower;
        *t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    }
    return (int)status;
}
