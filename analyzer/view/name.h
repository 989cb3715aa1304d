/*
 * name.h - what a page is called that was given no name, and whether there is one of that name already which
 * was made of something else.
 *
 * A page says in its head what it was made of, as a number of the recordings' places.  So somebody who
 * records again in the same place, and looks again, gets the new page in the place of the old one.
 */
#ifndef VS_VIEW_NAME_H
#define VS_VIEW_NAME_H

#include "base/base.h"

/* "run.html" of run.db or of the folder run, "a+b.html" of several, "a+9.html" where that would be too long;
 * the caller frees it. */
char *view_name(char *const *operands, size_t n);
/* Of the recordings FILES, in any order; the caller frees it. */
char *view_made_of(char *const *files, size_t n);
/* Whether PATH is there and no page made of MADE_OF. */
bool view_is_other(const char *path, const char *made_of);

#define VIEW_MADE_OF "<meta name=\"vramscope-made-of\" content=\"%s\">\n"

#endif
