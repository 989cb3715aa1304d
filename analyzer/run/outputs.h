/*
 * outputs.h - the databases of a run: which file it writes; after it those that it wrote, completed where a
 * process was killed, with one summary line on stderr.
 */
#ifndef VS_RUN_OUTPUTS_H
#define VS_RUN_OUTPUTS_H

#include <sys/types.h>
#include <time.h>

#include "base/base.h"

/* ---- which file a run writes, and whether it can (output.c) ---- */

struct output {
    char *path;  /* absolute; the caller frees it */
    bool shared; /* by an outer `vramscope run`, or as the beginning of several names: nobody replaces it */
};

/* OPTION: -o's value, or NULL. */
struct output output_of(const char *option);
/* Makes its directory, and with FORCE removes a recording that is there.  0, or 2 with the reason said in the
 * name of COMMAND. */
int output_check(const struct output *o, bool force, const char *command);
/* Why no file PATH can be made; NULL: it can be, or is there. */
const char *output_cannot_be_made(const char *path);

/* ---- after a run ---- */

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

/* Why a run recorded nothing, as far as it can be told from outside (nothing.c): COMMAND ended with the wait
 * STATUS, and OUTPUT is not there.  A clause, which the caller frees. */
char *run_nothing(const char *output, char *const *command, int status);

#endif
