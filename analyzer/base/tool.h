/*
 * tool.h - child processes whose output is taken, for a time: those that last longer are killed.
 */
#ifndef VS_BASE_TOOL_H
#define VS_BASE_TOOL_H

#include <sys/types.h>

#include "base.h"

/* fork(), in a group of its own, with a pipe: *FD is its end. */
pid_t tool_fork(int *fd);
/* What the child PID writes into FD, its first SIZE - 1 bytes, within SECONDS; closes FD.  Its exit status,
 * 128 + signal, or 124: it took longer, and was killed. */
int tool_read(pid_t pid, int fd, int seconds, char *out, size_t size, size_t *length);
/* Runs ARGV (ARGV[0] is looked up in PATH) with ENVIRONMENT ("NAME=value", NULL last; NULL: none) added and
 * without LD_PRELOAD otherwise; stdout, and with ERRORS stderr, go to OUT.  As above, and 127: no such
 * program. */
int tool_output(const char *const argv[], const char *const environment[], int seconds, bool errors,
                char *out, size_t size);

#endif
