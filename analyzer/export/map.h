/* map.h - from a number > 0 to an index >= 0, for what is written once and referred to later. */
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

#endif
