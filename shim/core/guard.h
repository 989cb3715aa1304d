/* guard.h - see guard.c. */
#ifndef VS_CORE_GUARD_H
#define VS_CORE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Lets accesses to the N bytes at AT survive a truncation of the file behind them: they find zeros, and
 * NOTIFY(CONTEXT) is called, in a signal handler.  Does nothing if the handler is not installed, or there
 * are too many such pieces. */
void vs_guard_add(void *at, size_t n, void (*notify)(void *context), void *context);
void vs_guard_remove(const void *at); /* before it is unmapped */

/* Installs the handler, if the host leaves SIGBUS to its default. */
void vs_guard_install(void);

/* Whether it is installed: then no thread of ours may block the signal. */
bool vs_guard_installed(void);

#endif
