/*
 * child.h - a program that is given a time: what it was when that is over, and nothing of it left.
 *
 *      start in a group of its own --> wait --> SIGTERM to all --> wait 10 s, or its time if less --> SIGKILL
 * to all
 *
 * "All" is the group and every process that became ours since: one whose parent ends is handed to us, even if
 * it has made a session of its own, as the workers of ranks' launchers do.
 */
#ifndef VS_SWEEP_CHILD_H
#define VS_SWEEP_CHILD_H

#include "base/base.h"

struct child_end {
    int status;       /* as waitpid gives it; of one that had to be ended, that of its end */
    int64_t ns;       /* that it ran */
    bool timed_out;   /* it was ended because its time was over */
    bool interrupted; /* we were asked to end, and ended it */
    bool left;        /* it ended, and had left processes behind, which were ended */
    bool stuck;       /* something of it could not be ended */
};

/* Runs COMMAND, its output and errors into the file LOG (OUTPUT, where it is not NULL: its output there), for
 * LIMIT ns at most (0: no end).  0, or an errno. */
int child_run(char *const *command, const char *log, const char *output, int64_t limit,
              struct child_end *end);

#endif
