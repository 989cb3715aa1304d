/*
 * nothing.h - why a run recorded nothing, as far as it can be told from outside of the command.
 */
#ifndef VS_RUN_NOTHING_H
#define VS_RUN_NOTHING_H

/* COMMAND ended with the wait STATUS, and OUTPUT is not there.  A clause, which the caller frees. */
char *run_nothing(const char *output, char *const *command, int status);

#endif
