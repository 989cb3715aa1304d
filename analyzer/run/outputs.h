/*
 * outputs.h - after a run: the databases that it wrote, completed where a process was killed, and one
 * summary line on stderr.
 */
#ifndef VS_RUN_OUTPUTS_H
#define VS_RUN_OUTPUTS_H

#include <sys/types.h>
#include <time.h>

#include "base/base.h"

struct run_end { /* of the command that was started */
    char *const *command;
    pid_t pid;
    int status; /* as wait gives it */
};

/* OUTPUT: the absolute path given to the shim; rank and pid may have been inserted before its extension.
 * Files older than SINCE belong to another run. */
void run_finish_outputs(const char *output, time_t since, const struct run_end *end, bool quiet);

/* The same without the summary; COMMAND: the pid of the process that was started.  The paths of the
 * databases, in the order of their names. */
char **run_outputs(const char *output, time_t since, pid_t command, size_t *n);
void run_free_outputs(char **paths, size_t n);

#endif
