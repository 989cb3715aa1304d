/*
 * alias.h - gives a directory whose name has blanks or colons a name without them.
 */
#ifndef VS_RUN_ALIAS_H
#define VS_RUN_ALIAS_H

#include <stdbool.h>

/* Whether PATH can be in LD_PRELOAD, a list separated by blanks and colons. */
bool alias_needless(const char *path);

/* The name of a link to DIRECTORY that can be in LD_PRELOAD; the link is never removed.  NULL: there is no
 * place for one.  The caller frees the name. */
char *alias_of(const char *directory);

#endif
