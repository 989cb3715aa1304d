/*
 * start.h - a program as a child of ours: signals reach it, and its end is known; and its environment.
 *
 *      start_command --> start_wait --> start_failed, where it could not be started
 */
#ifndef VS_RUN_START_H
#define VS_RUN_START_H

#include <stdbool.h>
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

/* ---- the variables that bring the library into a process (environment.c) ----
 *
 * `vramscope run` sets them for a command, `vramscope wrap` restores them for a worker whose launcher removed
 * them. */

struct environment {
    const char *library;
    bool nvtx, injection, python; /* which of them beside LD_PRELOAD */
    const char *behind;           /* other libraries, preloaded behind it: "A:B"; NULL: none */
};

/* Whether Python programs need the hook, which finds phases and installs the arena.  If phases are not
 * wanted, sets a variable that tells the hook so. */
bool environment_wants_python(bool no_auto_phases);

/* 0, or 2 after printing the reason in the name of COMMAND. */
int environment_preload(const char *command, const struct environment *e);

/* Prepends VALUE to the list NAME, unless it is there already. */
void environment_prepend(const char *name, const char *value);

#endif
