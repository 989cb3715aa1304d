/*
 * log.h - the few words that vramscope says: one line each, on stderr, or nothing.
 *
 * The host's stderr is the host's.  A line goes out only while descriptor 2 is what it was when we were
 * loaded (or a terminal), so nothing of ours ends up in a file that the host opened under that number; it
 * never blocks, never raises SIGPIPE, and after 20 lines a process says no more.  errno is kept.
 */
#ifndef VS_CORE_LOG_H
#define VS_CORE_LOG_H

#include <stdbool.h>

/* Remembers what descriptor 2 is.  Called by the constructor. */
void vs_log_init(void);

/* The calling thread has a table of descriptors of its own: its lines go to what is the process's
 * descriptor 2. */
void vs_log_from_afar(void);

/* "vramscope: ..." - what, where, what to do. */
void vs_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same where VRAMSCOPE_VERBOSE asks for it. */
void vs_log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Without the prefix and the limit: for the table of options. */
void vs_log_plain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
