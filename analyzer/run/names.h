/*
 * names.h - after a run: the file with the name that was asked for is the command's own.
 *
 * While processes run, the first that uses the GPU takes the name: nobody can know whether the command
 * itself, which may be a shell or a launcher, ever will.  Where it did after all, and a child was faster, the
 * two files change names.
 */
#ifndef VS_RUN_NAMES_H
#define VS_RUN_NAMES_H

#include <sys/types.h>

#include "base/base.h"

/* PATHS: the databases of the run, whose names are changed here too.  COMMAND: the pid of the process that
 * was started. */
void run_names_settle(char **paths, size_t n, const char *output, pid_t command);

#endif
