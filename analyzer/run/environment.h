/*
 * environment.h - the variables that bring the library into a process: `vramscope run` sets them for a
 * command, `vramscope wrap` restores them for a worker whose launcher removed them.
 */
#ifndef VS_RUN_ENVIRONMENT_H
#define VS_RUN_ENVIRONMENT_H

#include <stdbool.h>

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
