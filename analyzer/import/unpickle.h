/*
 * unpickle.h - reads a pickle that holds nothing but data: numbers, texts, lists, tuples and dicts.
 *
 * Python's own reader may call any function that a pickle names.  This one knows the opcodes of protocols 2
 * to 5 that make data and refuses every other, so nothing in the file is ever looked up or called.
 *
 * What a hostile file can do is bounded: there is no recursion, and all that opcodes make is held against a
 * limit.  A memo entry is a reference, so sharing multiplies nothing here, but a caller that walks the values
 * must bound its own walk: a list may hold itself.
 *
 * Not thread-safe.  Texts point into the caller's bytes and do not end with a zero.
 */
#ifndef VS_IMPORT_UNPICKLE_H
#define VS_IMPORT_UNPICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_kind {
    PICKLE_NONE, /* also integers beyond 64 bits, which no field of a snapshot has */
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_LARGE, /* an integer from 2^63 on: an address, whose bits are in `number` */
    PICKLE_FLOAT,
    PICKLE_TEXT, /* str and bytes */
    PICKLE_LIST, /* list, tuple and set */
    PICKLE_DICT
};

struct pickle_object;

struct pickle_value {
    enum pickle_kind kind;
    uint32_t length; /* bytes of a text */
    union {
        int64_t number; /* of BOOL, INT and LARGE */
        double real;
        const char *text;
        struct pickle_object *object; /* of LIST and DICT */
    };
};

struct pickle_object {
    struct pickle_value *at; /* a dict's keys and values in turn */
    size_t n, room;          /* values */
    uint32_t tag;            /* the caller's own: 0 at first */
};

struct pickle; /* owns the values */

/* Reads BYTES, which must live as long as the values.  MEMORY: the most that the values may take.  0 with the
 * pickle in *OUT and its value in *ROOT, or -1 with one line in WHY that names no file. */
int unpickle_read(struct pickle **out, const void *bytes, size_t size, size_t memory,
                  struct pickle_value *root, char *why, size_t why_size);
void unpickle_free(struct pickle *p);

/* Keys of a dict that are looked at, many more than a dict of a snapshot has.  A file may have a dict of a
 * million keys in a million places, and must not cost their product. */
#define PICKLE_KEYS 64

/* The value of KEY in a dict; NULL where there is none, or VALUE is NULL or no dict. */
const struct pickle_value *unpickle_get(const struct pickle_value *value, const char *key);
/* How many items a list has; 0 where VALUE is NULL or no list. */
size_t unpickle_items(const struct pickle_value *value);
static inline const struct pickle_value *unpickle_item(const struct pickle_value *list, size_t i)
{
    return &list->object->at[i];
}
bool unpickle_is(const struct pickle_value *text, const char *word);
/* The integer in VALUE, OTHERWISE where it is none. */
int64_t unpickle_int(const struct pickle_value *value, int64_t otherwise);
/* The address in VALUE, of which a pickler of C++ makes a negative integer from 2^63 on; OTHERWISE. */
uint64_t unpickle_address(const struct pickle_value *value, uint64_t otherwise);

#endif
