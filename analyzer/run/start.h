/*
 * start.h - a program as a child of ours: signals reach it, and its end is known.
 *
 *      start_command --> start_wait --> start_failed, where it could not be started
 */
#ifndef VS_RUN_START_H
#define VS_RUN_START_H

#include <sys/types.h>

struct start_child {
    int (*prepare)(void *context); /* in the child, before COMMAND: 0, or an errno; NULL: nothing */
    void *context;
    void (*run)(void *run_context, char **command); /* in the place of becoming COMMAND; does not return */
    void *run_context;
};

/* Its pid, or -1 with *ERROR.  *ERROR is not 0 either where the child could not become COMMAND. */
pid_t start_command(char **command, const struct start_child *c, int *error);
/* Waits until the child has ended and returns its status as waitpid() gives it; 0 (success) if it is
 * unknown. */
int start_wait(pid_t pid);
/* The file that COMMAND means, as execvp finds it; the caller frees it.  NULL: there is none. */
char *start_file(const char *command);
/* Says in the name of WHO why COMMAND did not start; the exit status of shells for that. */
int start_failed(const char *who, const char *command, int error);
/* Dies of the signal that killed the child; returns 128 + signal if that signal does not kill us. */
int start_end_as(int status);

#endif
