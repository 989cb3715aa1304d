/*
 * names.h - after a run: gives the requested name to the file of the command itself.
 *
 * While processes run, the first one that uses the GPU takes the name, because the command itself may be a
 * shell or a launcher that never uses it.  If the command does use it, but a child was faster, the two files
 * exchange their names.
 */
#ifndef VS_RUN_NAMES_H
#define VS_RUN_NAMES_H

#include <sys/types.h>

#include "base/base.h"

/* PATHS: the databases of the run, which are updated to the new names.  COMMAND: the pid of the process that
 * was started. */
void run_names_exchange(char **paths, size_t n, const char *output, pid_t command);

#endif
