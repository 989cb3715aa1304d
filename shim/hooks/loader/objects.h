/*
 * objects.h - the loader's list of objects: which one is the driver, which one an address lies in, and who
 * comes before whom.
 *
 * The functions that walk the list take the loader's lock; none of them allocates.
 */
#ifndef VS_HOOKS_LOADER_OBJECTS_H
#define VS_HOOKS_LOADER_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

struct vs_loaded {
    uintptr_t start, end; /* mapped range */
    int order;            /* place in the loader's list, which is the order of the global scope */
    bool is_driver;
    char name[4096];
};

/* The loaded object with a soname libcuda.so*. */
bool vs_loaded_driver(struct vs_loaded *out);
/* The object that ADDRESS lies in. */
bool vs_loaded_at(const void *address, struct vs_loaded *out);
/* How many objects are loaded. */
int vs_loaded_count(void);

/* Whether ADDRESS lies in this library.  Takes no lock. */
bool vs_loaded_is_us(const void *address);

#endif
