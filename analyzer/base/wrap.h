/*
 * wrap.h - sentences for a page: broken at blanks, so that no line is wider than a page.
 */
#ifndef VS_BASE_WRAP_H
#define VS_BASE_WRAP_H

#include <stdbool.h>
#include <stdio.h>

enum { PAGE_WIDTH = 80 }; /* columns of a report */

/* Prints FORMAT's text, beginning at column INDENT and with further lines at column HANG; ends with a line
 * break.  A word that is wider than the page is not broken. */
void wrap_print(FILE *out, int indent, int hang, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Until wrap_page_end standard output is as page.h says.  Lines wider than the page are broken at blanks, on
 * a terminal and in a pipe alike.  WHOLE: in a pipe they stay as they are, as a picture must.  With
 * COLUMNS=1000 a sentence that is to be searched for stays whole.  Where ASCII is wanted all that is printed
 * becomes ASCII; where colours are wanted, lines that say what went wrong are red, and headlines bold. */
void wrap_page_begin(bool whole);
void wrap_page_end(void);
/* Between a call with true and one with false lines stay as they are: the rows of a table. */
void wrap_rows(bool whole);

#endif
