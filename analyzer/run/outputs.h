/*
 * outputs.h - after a run: the databases that it wrote, completed where a process was killed, and one
 * summary line on stderr.
 */
#ifndef VS_RUN_OUTPUTS_H
#define VS_RUN_OUTPUTS_H

#include <sys/types.h>
#include <time.h>

#include "base/base.h"

/* OUTPUT: the absolute path given to the shim; rank and pid may have been inserted before its extension.
 * Files older than SINCE belong to another run.  COMMAND: the pid of the process that was started. */
void run_finish_outputs(const char *output, time_t since, pid_t command, bool quiet);

/* The same without the summary: the paths of the databases, in the order of their names. */
char **run_outputs(const char *output, time_t since, pid_t command, size_t *n);
void run_free_outputs(char **paths, size_t n);

#endif
