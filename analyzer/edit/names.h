/* names.h - texts by number, in the order in which they were first met (names.c). */
#ifndef VS_EDIT_NAMES_H
#define VS_EDIT_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define NAMES_MOST 65535 /* it is no text's number */

struct names {
    const char **text; /* not ended, and not owned */
    size_t *length;
    size_t n;
    uint16_t *slots; /* a number and one more, where its text's hash leads; 0: none */
};

/* The number of the first LENGTH bytes of TEXT, which has to last as long; NAMES_MOST: there are too many. */
uint16_t names_number(struct names *names, const char *text, size_t length);
void names_free(struct names *names);

#endif
