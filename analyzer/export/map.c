/* map.c - an open-addressing table that doubles at half full (map.h). */
#include "map.h"

#include <stdlib.h>
#include <string.h>

static size_t scatter(uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key ^ key >> 29);
}

/* The slot that KEY has, or would get. */
static struct map_slot *slot_of(const struct map *m, int64_t key)
{
    size_t i = scatter((uint64_t)key) & (m->room - 1);
    while (m->slots[i].key && m->slots[i].key != key)
        i = (i + 1) & (m->room - 1);
    return &m->slots[i];
}

static void map_grow(struct map *m)
{
    struct map old = *m;
    m->room = old.room ? 2 * old.room : 64;
    m->slots = xrealloc(NULL, m->room * sizeof *m->slots);
    memset(m->slots, 0, m->room * sizeof *m->slots);
    for (size_t i = 0; i < old.room; i++)
        if (old.slots[i].key)
            *slot_of(m, old.slots[i].key) = old.slots[i];
    free(old.slots);
}

int64_t map_get(const struct map *m, int64_t key)
{
    if (!m->room || key <= 0)
        return -1;
    const struct map_slot *s = slot_of(m, key);
    return s->key ? s->value : -1;
}

void map_put(struct map *m, int64_t key, int64_t value)
{
    if (key <= 0)
        return;
    if (2 * (m->used + 1) > m->room)
        map_grow(m);
    struct map_slot *s = slot_of(m, key);
    m->used += s->key == 0;
    *s = (struct map_slot){key, value};
}

/* What follows in the same run moves up where it may, so that no look-up ends too early. */
void map_remove(struct map *m, int64_t key)
{
    if (map_get(m, key) < 0)
        return;
    size_t hole = (size_t)(slot_of(m, key) - m->slots), i = hole;
    m->slots[hole].key = 0;
    m->used--;
    for (;;) {
        i = (i + 1) & (m->room - 1);
        if (!m->slots[i].key)
            return;
        size_t home = scatter((uint64_t)m->slots[i].key) & (m->room - 1);
        bool may_stay = hole <= i ? hole < home && home <= i : hole < home || home <= i;
        if (may_stay)
            continue;
        m->slots[hole] = m->slots[i];
        m->slots[i].key = 0;
        hole = i;
    }
}

void map_free(struct map *m)
{
    free(m->slots);
    *m = (struct map){0};
}
