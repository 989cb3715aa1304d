/*
 * replace.h - whether a file may take the place of another one: of a recording only where that is asked for.
 */
#ifndef VS_READ_REPLACE_H
#define VS_READ_REPLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Whether PATH is a database of vramscope's, of whatever schema, whole or not. */
bool replace_is_recording(const char *path);

/* 0, or -1 with a line in WHY: PATH is a recording, and not FORCE, or its process is still running. */
int replace_check(const char *path, bool force, char *why, size_t why_size);

/* Whether a log of SQLite's with something in it lies beside PATH: what gets that name is changed by it. */
bool replace_has_log(const char *path);

/* Removes what SQLite had beside the recording that PATH is, right before another file takes its place.  0,
 * or errno: then that must not. */
int replace_begin(const char *path);

#endif
