/* sizes.h - a list of sizes, sorted, to find what is as large (sizes.c). */
#ifndef VS_EDIT_SIZES_H
#define VS_EDIT_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sizes {
    uint64_t *at; /* bytes; owned */
    size_t n;
};

void sizes_sort(struct sizes *s);
/* Of a sorted list the index of the first that is SIZE or larger; n: there is none. */
size_t sizes_from(const struct sizes *s, uint64_t size);
bool sizes_have(const struct sizes *s, uint64_t size);

#endif
