/* list.h - a growable array: VS_LIST(type, name) declares it, vs_list_push appends or counts a failure. */
#ifndef VS_CORE_LIST_H
#define VS_CORE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VS_LIST(type, name)                                                                                  \
    struct {                                                                                                 \
        type *at;                                                                                            \
        size_t n, size;                                                                                      \
    } name

/* Makes room for one more element; false: no memory. */
static inline bool vs_list_room(void **at, size_t n, size_t *size, size_t item)
{
    if (n < *size)
        return true;
    size_t next = *size ? *size * 2 : 64;
    void *grown = realloc(*at, next * item);
    if (!grown)
        return false;
    *at = grown;
    *size = next;
    return true;
}

#define vs_list_push(list, failed, ...)                                                                      \
    do {                                                                                                     \
        if (vs_list_room((void **)&(list)->at, (list)->n, &(list)->size, sizeof *(list)->at))                \
            (list)->at[(list)->n++] = (__VA_ARGS__);                                                         \
        else                                                                                                 \
            (failed)++;                                                                                      \
    } while (0)

#endif
