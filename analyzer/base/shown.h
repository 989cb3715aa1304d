/*
 * shown.h - names as data: what a program, a path or a phase is called reaches a terminal, a picture or JSON
 * without ever acting on it.
 *
 * Names come from the recorded program and from whoever named its files.  A line break in one would forge a
 * line of the report, an escape sequence would move the cursor, a bidirectional override would turn the rest
 * of the line around.  All text that the analyzer did not write itself goes through here; JSON has its own
 * escapes for the same characters.
 */
#ifndef VS_BASE_SHOWN_H
#define VS_BASE_SHOWN_H

#include "base.h"

/*
 * TEXT as a person may read it: "\n", "\t", "\x1b" for control characters, "\xff" for bytes that are no
 * UTF-8, "\u202e" for line separators, bidirectional controls and characters without a shape.  TEXT itself
 * where nothing needs that, else a copy that lives until the program ends.  What was shown once stays as it
 * is.  NULL is NULL.
 */
const char *shown(const char *text);

/* The same, at most MOST characters of it with "..." at the end; the caller frees it. */
char *shown_cut(const char *text, size_t most);

/* The length of the character at S (NUL-terminated) in bytes; *CODE its code point, -1 where the byte is no
 * UTF-8. */
int shown_next(const unsigned char *s, int32_t *code);
/* Whether CODE would act on what shows it, or could not be seen. */
bool shown_acts(int32_t code);

#endif
