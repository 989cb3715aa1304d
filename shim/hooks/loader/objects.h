/*
 * objects.h - the loader's list of objects: which one is the driver, which one an address lies in, who comes
 * before whom, and which ones the loader has done with.
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

/* The loaded object with a soname libcuda.so*, once it is bound. */
bool vs_loaded_driver(struct vs_loaded *out);
/* The object that ADDRESS lies in. */
bool vs_loaded_at(const void *address, struct vs_loaded *out);
/* How many objects are loaded. */
int vs_loaded_count(void);

/* Whether the loader has bound the object that ADDRESS lies in: an object is on its list long before that,
 * and the thread that loads it may run code of others meanwhile (a resolver of an indirect function, a malloc
 * that the program brings), which may look names up.  True where nobody can say (before glibc 2.35). */
bool vs_loaded_is_bound(const void *address);

/* Whether ADDRESS lies in this library.  Takes no lock. */
bool vs_loaded_is_us(const void *address);

#endif
