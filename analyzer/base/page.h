/*
 * page.h - what standard output can show, and sentences that are broken at blanks, so that no line is wider.
 *
 *      width      COLUMNS, else the terminal's, else 80
 *      colours    on a terminal, unless NO_COLOR is set or TERM is dumb or unset
 *      ASCII      where LC_ALL, LC_CTYPE or LANG (the first that is set) names no UTF-8, or TERM is dumb
 *      UTF-8      elsewhere, also where none of the three is set, as in most containers
 */
#ifndef VS_BASE_PAGE_H
#define VS_BASE_PAGE_H

#include <stdbool.h>
#include <stdio.h>

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

/* ---- sentences ---- */

/* Sentences for a page: broken at blanks, so that no line is wider than a page. */
enum { PAGE_WIDTH = 80 }; /* columns of a report */

/* Prints FORMAT's text, beginning at column INDENT and with further lines at column HANG; ends with a line
 * break.  A word that is wider than the page is not broken. */
void wrap_print(FILE *out, int indent, int hang, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Until wrap_page_end standard output is as said above.  Lines wider than the page are broken at blanks, on
 * a terminal and in a pipe alike.  WHOLE: in a pipe they stay as they are, as a picture must.  With
 * COLUMNS=1000 a sentence that is to be searched for stays whole.  Where ASCII is wanted all that is printed
 * becomes ASCII; where colours are wanted, lines that say what went wrong are red, and headlines bold. */
void wrap_page_begin(bool whole);
void wrap_page_end(void);
/* Between a call with true and one with false lines stay as they are: the rows of a table. */
void wrap_rows(bool whole);

#endif
