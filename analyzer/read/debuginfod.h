/*
 * debuginfod.h - fetches the debug file of a stripped library from the servers that the user has named.
 *
 * Servers are contacted only if DEBUGINFOD_URLS is set, by elfutils' own client (libdebuginfod.so.1), which
 * is loaded then.  Without client or servers, names come from symbol tables and there are no source lines.
 * The client has a cache of its own and obeys the other DEBUGINFOD_ variables.
 */
#ifndef VS_READ_DEBUGINFOD_H
#define VS_READ_DEBUGINFOD_H

#include <stdint.h>

/* The debug file of BUILD_ID (hexadecimal), open for reading; -1: there is none, or it did not come before
 * DEADLINE (CLOCK_MONOTONIC, ns). */
int debuginfod_file(const char *build_id, int64_t deadline);

#endif
