/*
 * labels.h - what a user calls a run: names with values, "batch=4,seq=1024".
 *
 * A name is of letters, digits and ._+-, a value of anything but commas and control characters; neither is
 * empty, and no name comes twice.  Nothing here allocates, so that it may run before libc's constructors.
 */
#ifndef VS_CORE_LABELS_H
#define VS_CORE_LABELS_H

#include <stdbool.h>
#include <stddef.h>

#define VS_LABELS_MOST      32   /* labels of a run */
#define VS_LABEL_NAME_MOST  64   /* bytes */
#define VS_LABEL_VALUE_MOST 256  /* bytes */
#define VS_LABELS_BYTES     2048 /* of the whole list */

struct vs_label { /* pieces of the list */
    const char *name, *value;
    size_t name_length, value_length;
};

/* Takes the first label off *LIST.  False: the list is empty, or begins with something else, and *LIST stays.
 */
bool vs_label_next(const char **list, struct vs_label *out);
/* What is the matter with LIST, of which *AT gets the offset; NULL: nothing.  An empty list is good. */
const char *vs_labels_wrong(const char *list, size_t *at);

#endif
