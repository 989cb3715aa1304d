/*
 * debuginfod.h - the debug file of a stripped library, from the servers that the user has named.
 *
 * Only where DEBUGINFOD_URLS is set is anybody asked, by elfutils' own client (libdebuginfod.so.1), which is
 * opened then: without it, or without servers, there are names from symbol tables and no source lines.  The
 * client keeps what it gets in its cache and obeys the other DEBUGINFOD_ variables.
 */
#ifndef VS_READ_DEBUGINFOD_H
#define VS_READ_DEBUGINFOD_H

#include <stdint.h>

/* The debug file of BUILD_ID (hexadecimal), open for reading; -1 where there is none, or none came before
 * DEADLINE (CLOCK_MONOTONIC, ns). */
int debuginfod_file(const char *build_id, int64_t deadline);

#endif
