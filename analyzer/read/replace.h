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

/* Removes what SQLite had beside the recording that PATH was: a log of it would be taken for the new file's.
 */
void replace_end(const char *path);

#endif
