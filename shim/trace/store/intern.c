/* intern.c - numbers for contents, found again by them: open addressing, at most half full. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024

struct vs_intern_entry {
    size_t at, size; /* in bytes */
    uint64_t hash;
    int64_t id;
};

static uint64_t hash_of(const unsigned char *key, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ size, word;
    for (; size >= sizeof word; key += sizeof word, size -= sizeof word) {
        memcpy(&word, key, sizeof word);
        h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    for (size_t i = 0; i < size; i++)
        h = (h ^ key[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

/* The slot of KEY, or the empty one where it belongs. */
static size_t slot_of(const struct vs_intern *n, const void *key, size_t size, uint64_t hash)
{
    size_t i = hash & (n->slot_count - 1);
    for (; n->slots[i]; i = (i + 1) & (n->slot_count - 1)) {
        const struct vs_intern_entry *e = &n->entries[n->slots[i] - 1];
        if (e->hash == hash && e->size == size && memcmp(n->bytes + e->at, key, size) == 0)
            break;
    }
    return i;
}

int64_t vs_intern_find(const struct vs_intern *n, const void *key, size_t size)
{
    size_t i = n->slot_count ? slot_of(n, key, size, hash_of(key, size)) : 0;
    return n->slot_count && n->slots[i] ? n->entries[n->slots[i] - 1].id : 0;
}

static int grow_slots(struct vs_intern *n)
{
    size_t count = n->slot_count ? n->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots || n->count >= UINT32_MAX / 4) {
        free(slots);
        return -ENOMEM;
    }
    free(n->slots);
    n->slots = slots;
    n->slot_count = count;
    for (size_t k = 0; k < n->count; k++) {
        size_t i = n->entries[k].hash & (count - 1);
        while (slots[i])
            i = (i + 1) & (count - 1);
        slots[i] = (uint32_t)k + 1;
    }
    return 0;
}

/* Room for NEEDED elements of SIZE bytes at *ARRAY, which has *ROOM. */
static int grow(void **array, size_t *room, size_t needed, size_t size)
{
    if (needed <= *room)
        return 0;
    size_t more = needed + needed / 2 + 64;
    void *larger = realloc(*array, more * size);
    if (!larger)
        return -ENOMEM;
    *array = larger;
    *room = more;
    return 0;
}

int vs_intern_add(struct vs_intern *n, const void *key, size_t size, int64_t id)
{
    void *entries = n->entries, *bytes = n->bytes;
    int rc = n->count * 2 >= n->slot_count ? grow_slots(n) : 0;
    if (rc == 0)
        rc = grow(&entries, &n->entry_room, n->count + 1, sizeof *n->entries);
    n->entries = entries;
    if (rc == 0)
        rc = grow(&bytes, &n->byte_room, n->used + size, 1);
    n->bytes = bytes;
    if (rc)
        return rc;
    uint64_t hash = hash_of(key, size);
    memcpy(n->bytes + n->used, key, size);
    n->entries[n->count] = (struct vs_intern_entry){n->used, size, hash, id};
    n->used += size;
    n->slots[slot_of(n, key, size, hash)] = (uint32_t)++n->count;
    return 0;
}

uint32_t vs_intern_number(struct vs_intern *n, const void *key, size_t size)
{
    int64_t id = vs_intern_find(n, key, size);
    if (id == 0 && vs_intern_add(n, key, size, (int64_t)n->count + 1) == 0)
        id = (int64_t)n->count;
    return (uint32_t)id;
}

const void *vs_intern_key(const struct vs_intern *n, int64_t id, size_t size)
{
    return id > 0 && (uint64_t)id <= n->count ? n->bytes + (size_t)(id - 1) * size : NULL;
}

void vs_intern_free(struct vs_intern *n)
{
    free(n->entries);
    free(n->slots);
    free(n->bytes);
    *n = (struct vs_intern){0};
}
