/* capture.h - runs a piece of a test with its stderr in a buffer. */
#ifndef TESTS_UNIT_CORE_CAPTURE_H
#define TESTS_UNIT_CORE_CAPTURE_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"

static int capture_kept, capture_file;

static inline void capture_begin(void)
{
    fflush(stderr);
    capture_kept = dup(2);
    capture_file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    dup2(capture_file, 2);
    vs_log_init(NULL);
}

static inline const char *capture_end(void)
{
    static char text[65536];
    ssize_t n = pread(capture_file, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    dup2(capture_kept, 2);
    close(capture_kept);
    close(capture_file);
    vs_log_init(NULL);
    return text;
}

/* Waits until anything was said, for half a minute at most. */
static inline void capture_await(void)
{
    for (int i = 0; i < 3000 && lseek(capture_file, 0, SEEK_END) == 0; i++)
        usleep(10000);
}

static inline int lines_in(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

#endif
