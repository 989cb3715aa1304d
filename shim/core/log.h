/*
 * log.h - messages on stderr, one line each.
 *
 * stderr belongs to the host: a line is written only while descriptor 2 is the file that it was when we were
 * loaded (or a terminal), so that none ends up in a file which the host opened under that number.  Writing
 * never blocks and never raises SIGPIPE, and after 20 lines a process writes no more.  Keeps errno.
 */
#ifndef VS_CORE_LOG_H
#define VS_CORE_LOG_H

#include <stdbool.h>

/* Remembers which file descriptor 2 is, and whether ENVIRONMENT is that of a process under `vramscope run`.
 * Called by the constructor, before libc has its own environment. */
void vs_log_init(char *const environment[]);

/* For a thread with a descriptor table of its own: its lines go to the process's descriptor 2. */
void vs_log_from_afar(void);

/* "vramscope: ..." - what, where, what to do. */
void vs_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Likewise, but only with VRAMSCOPE_VERBOSE. */
void vs_log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For a person at the terminal: printed with VRAMSCOPE_VERBOSE, and where stderr is a terminal, but not under
 * `vramscope run`, which prints such things itself. */
void vs_log_person(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Without the prefix and the limit: for the table of options. */
void vs_log_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
