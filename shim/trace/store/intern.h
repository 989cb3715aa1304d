/*
 * intern.h - rows that are told apart by what they hold: a number for each content, found again by it.
 *
 * A key is any bytes; it is copied, compared as a whole, and kept until the end.  Not thread-safe.
 */
#ifndef VS_TRACE_STORE_INTERN_H
#define VS_TRACE_STORE_INTERN_H

#include <stddef.h>
#include <stdint.h>

struct vs_intern {
    struct vs_intern_entry *entries;
    uint32_t *slots; /* of entries, from 1; 0 empty; as many as a power of two */
    char *bytes;     /* of all keys */
    size_t count, slot_count, used, entry_room, byte_room;
};

/* The id of KEY where it is there, else 0. */
int64_t vs_intern_find(const struct vs_intern *n, const void *key, size_t size);
/* Gives KEY, which is not there, the id ID, above 0.  0, or -ENOMEM. */
int vs_intern_add(struct vs_intern *n, const void *key, size_t size, int64_t id);
/* Where all keys have SIZE bytes, and ids count from 1: KEY's id, which is added where it is not there (0: no
 * memory); and the key of an id, NULL: there is none. */
uint32_t vs_intern_number(struct vs_intern *n, const void *key, size_t size);
const void *vs_intern_key(const struct vs_intern *n, int64_t id, size_t size);
void vs_intern_free(struct vs_intern *n);

#endif
