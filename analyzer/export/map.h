/*
 * map.h - numbers and texts to small numbers, for what is written once and referred to later.
 *
 * Both are open-addressing tables that double at half full; nothing is ever removed from them but by
 * map_remove, whose entries (an allocation's) come and go.
 */
#ifndef VS_EXPORT_MAP_H
#define VS_EXPORT_MAP_H

#include "base/base.h"

/* From a number > 0 to an index >= 0. */
struct map {
    struct map_slot {
        int64_t key, value; /* key 0: empty */
    } * slots;
    size_t room, used;
};

/* -1: not there. */
int64_t map_get(const struct map *m, int64_t key);
void map_put(struct map *m, int64_t key, int64_t value);
void map_remove(struct map *m, int64_t key);
void map_free(struct map *m);

/* Texts in the order in which they were first asked for, from 0. */
struct texts {
    const char **at; /* as given: they outlive the table */
    size_t n;
    size_t *slots; /* index + 1; 0: empty */
    size_t room;
};

/* The index of TEXT; *IS_NEW where it was not there before. */
size_t texts_index(struct texts *x, const char *text, bool *is_new);
void texts_free(struct texts *x);

#endif
