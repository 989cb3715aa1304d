/*
 * facts.h - what the stand-ins tell `vramscope fit`: lines of the file that VRAMSCOPE_DRY_FACTS names.
 *
 * A line is a kind and its fields, with tabs between, appended by one write, so lines of several threads and
 * processes do not mix.  Kinds (those of the Python package with a star) and their fields:
 *
 *   missing  library, function               was called and is not simulated; the process ends with 3
 *   guess    library, what, bytes [, least, most]
 *            no table holds the figure for this version and card; other runs take least and most (dry_guess)
 *   beside   library, what, bytes            likewise, of memory that is in no figure of PyTorch's
 *   value*   where, what, assumed, n         read n times since the last such line; only a GPU computes it
 *   ended*   steps                           the process ended after so many
 *   wrote*   path                            a write that was stopped
 *   launch*  launcher, ranks                 it would start so many ranks, and becomes one; without --ranks
 *                                            it ends instead if they are several
 *   torch*   version, CUDA                   the PyTorch that was loaded
 *
 * Functions here may be called on any thread, and neither allocate nor take a lock.
 */
#ifndef DRY_FACTS_H
#define DRY_FACTS_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRY_API __attribute__((visibility("default")))

enum { DRY_STATUS_MISSING = 3 };

/* One line; FORMAT has its tabs and no newline.  What is longer than a line of 1 KiB is cut. */
__attribute__((format(printf, 1, 2), unused)) static void dry_fact(const char *format, ...)
{
    const char *path = getenv("VRAMSCOPE_DRY_FACTS");
    int fd = path && *path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (n > (int)sizeof line - 2)
        n = sizeof line - 2;
    line[n] = '\n';
    if (n > 0 && write(fd, line, (size_t)n + 1) < 0) {
        /* ignored: a full disk must not end the program in another way than its own */
    }
    close(fd);
}

/* BYTES is a guess: a figure from LEAST to MOST.  The second run takes the most, the third the least: what
 * comes of it is not judged but tried.  What this run takes. */
__attribute__((unused)) static int64_t dry_guess(const char *library, const char *what, int64_t bytes,
                                                 int64_t least, int64_t most)
{
    const char *run = getenv("VRAMSCOPE_DRY_ASSUME");
    dry_fact("guess\t%s\t%s\t%lld\t%lld\t%lld", library, what, (long long)bytes, (long long)least,
             (long long)most);
    if (run && !strcmp(run, "second"))
        return most;
    return run && !strcmp(run, "third") ? least : bytes;
}

/* The program needs FUNCTION of LIBRARY, which is not simulated: what would come now is not what a GPU does.
 */
__attribute__((noreturn, unused)) static void dry_missing(const char *library, const char *function)
{
    dry_fact("missing\t%s\t%s", library, function);
    dprintf(STDERR_FILENO,
            "vramscope: a dry run can't go on: %s of %s is not simulated; run this program on a GPU\n",
            function, library);
    _exit(DRY_STATUS_MISSING);
}

#endif
