/*
 * alias.h - a name without blanks and colons for a directory that has some.
 */
#ifndef VS_RUN_ALIAS_H
#define VS_RUN_ALIAS_H

#include <stdbool.h>

/* Whether LD_PRELOAD can carry PATH: it is a list, parted by blanks and colons. */
bool alias_needless(const char *path);

/* A link to DIRECTORY whose own name can be carried; it stays.  NULL: there is no place for one.  The caller
 * frees it. */
char *alias_of(const char *directory);

#endif
