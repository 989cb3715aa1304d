/*
 * page.h - what standard output can show: how wide it is, in which characters, with colours or without.
 *
 *      width      COLUMNS, else the terminal's, else 80
 *      colours    on a terminal, unless NO_COLOR is set or TERM is dumb or unset
 *      ASCII      where LC_ALL, LC_CTYPE or LANG (the first that is set) names no UTF-8, or TERM is dumb
 *      UTF-8      elsewhere, also where none of the three is set, as in most containers
 */
#ifndef VS_BASE_PAGE_H
#define VS_BASE_PAGE_H

#include "base.h"

#define PAGE_COLUMNS 80      /* where nobody says */
#define PAGE_ENDLESS 1000000 /* columns that nothing needs */

size_t page_width(void);
/* Likewise for what is cut, or left out, where it is wider: no end in a pipe or file whose COLUMNS nobody
 * said, as nobody reads columns there. */
size_t page_room(void);
bool page_color(void);
bool page_ascii(void);

/* TEXT in ASCII: lines, arrows and blocks as the nearest character, names' other characters as "\u4e2d"; the
 * caller frees it. */
char *page_in_ascii(const char *text);

#endif
