/*
 * base.h - memory that can't fail, one-line errors, arrays that grow or are sorted, texts by number.  The
 * analyzer is no library in a host process, so it may exit when memory runs out.
 */
#ifndef VS_BASE_BASE_H
#define VS_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define UNKNOWN INT64_MIN /* an unknown number: shown as "unknown", null in JSON */

/* "vramscope: MESSAGE\n" on stderr.  Says what, where and what to do.  Returns 2, the exit status of bad
 * input. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

void *xrealloc(void *p, size_t size);
FILE *xmemstream(char **text, size_t *size); /* open_memstream */
char *xstrdup(const char *text);
char *xformat(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Puts what FORMAT makes behind *TEXT, which is on the heap. */
void xappend(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes room for one more element of SIZE bytes in ITEMS, which has N; the capacity doubles at powers of
 * two.
 */
void *grow(void *items, size_t n, size_t size);
#define PUSH(array, n) (array = grow(array, n, sizeof *(array)), &(array)[(n)++])

/* Of ITEMS, N of SIZE bytes in the order of the int64_t that each begins with, the one that begins with
 * NUMBER; NULL. */
void *find_number(int64_t number, const void *items, size_t n, size_t size);
#define FIND(number, array, n) ((__typeof__(&*(array)))find_number(number, array, n, sizeof *(array)))

/* Of ITEMS, N of SIZE bytes in the order of an int64_t that each has at OFFSET, the index of the first whose
 * number is LEAST or more; N: there is none. */
size_t first_from(int64_t least, const void *items, size_t n, size_t size, size_t offset);
#define FROM(least, array, n, field)                                                                         \
    first_from(least, array, n, sizeof *(array), offsetof(__typeof__(*(array)), field))

/* Texts in the order in which they were first asked for, from 0. */
struct texts {
    char **at; /* copies */
    size_t n, room;
    uint32_t *slots; /* index + 1; 0: empty */
};

/* The index of TEXT; *IS_NEW where it was not there before. */
uint32_t texts_index(struct texts *x, const char *text, bool *is_new);
/* Likewise of the first LENGTH bytes of TEXT. */
uint32_t texts_index_part(struct texts *x, const char *text, size_t length, bool *is_new);
void texts_free(struct texts *x);

#endif
