/*
 * environment.h - the variables that bring the library into a process: `vramscope run` sets them for a
 * command, `vramscope wrap` puts them back for a worker whose launcher took them away.
 */
#ifndef VS_RUN_ENVIRONMENT_H
#define VS_RUN_ENVIRONMENT_H

#include <stdbool.h>

struct environment {
    const char *library;
    bool nvtx, injection, python; /* which of them beside LD_PRELOAD */
};

/* Whether Python programs need the hook at all: it finds phases and installs the arena.  Where phases are not
 * wanted, a variable tells the hook so. */
bool environment_wants_python(bool no_auto_phases);

/* 0, or 2 with the reason said in the name of COMMAND. */
int environment_preload(const char *command, const struct environment *e);

/* Puts VALUE in front of the list NAME, where it is not there already. */
void environment_prepend(const char *name, const char *value);

#endif
