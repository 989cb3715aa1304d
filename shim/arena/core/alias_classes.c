/*
 * alias_classes.c - the alias mappings by number of chunks.
 *
 * A request of n chunks takes the shortest open alias mapping of at least n, of equally long ones the oldest,
 * whichever queue used it last.  Alias mappings of one size are a class, in order of creation, with a bit for
 * each that is open; `by_count` has the classes in order of size.
 */
#include "internal.h"

#include <string.h>

static uint32_t lower_bound(const struct vs_arena *a, uint32_t count)
{
    uint32_t low = 0, high = a->classes;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (a->class[a->by_count[middle]].count < count)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void vs_class_flip(struct vs_arena *a, struct alias *v)
{
    struct alias_class *c = &a->class[v->class];
    v->open = !v->open;
    c->bits[v->index >> 6] ^= 1ull << (v->index & 63);
    c->members += v->open ? 1 : -1u;
}

/* ---- what is watched ----
 *
 * Whether a chunk of an alias mapping is in use is looked at when an open one is found.  If so, the alias
 * mapping is closed and watches that chunk; it is opened again, on trust, when the chunk is idle.  A chunk
 * may be in hundreds of alias mappings, and few of them watch it. */

static void watch(struct vs_arena *a, uint32_t alias, uint32_t chunk)
{
    struct alias *v = &a->alias[alias];
    v->watched = chunk;
    v->before = NIL;
    v->behind = a->watch[chunk] - 1; /* NIL where there is none */
    if (v->behind != NIL)
        a->alias[v->behind].before = alias;
    a->watch[chunk] = alias + 1;
}

static void watch_no_more(struct vs_arena *a, struct alias *v)
{
    if (v->watched == NIL)
        return;
    if (v->before == NIL)
        a->watch[v->watched] = v->behind + 1;
    else
        a->alias[v->before].behind = v->behind;
    if (v->behind != NIL)
        a->alias[v->behind].before = v->before;
    v->watched = NIL;
}

void vs_class_move(struct vs_arena *a, uint32_t chunk, uint32_t other)
{
    a->watch[other] = a->watch[chunk];
    a->watch[chunk] = 0;
    for (uint32_t alias = a->watch[other] - 1; alias != NIL; alias = a->alias[alias].behind)
        a->alias[alias].watched = other;
}

void vs_class_idle(struct vs_arena *a, uint32_t chunk)
{
    for (uint32_t next, alias = a->watch[chunk] - 1; alias != NIL; alias = next) {
        struct alias *v = &a->alias[alias];
        next = v->behind;
        v->watched = NIL;
        vs_class_flip(a, v);
    }
    a->watch[chunk] = 0;
}

/* ---- which serves ---- */

/* The first chunk of it that is in use; NIL: none. */
static uint32_t used_chunk(const struct vs_arena *a, const struct alias *v)
{
    for (const struct run *r = v->run; r < v->run + v->runs; r++) {
        const uint8_t *found = memchr(a->used + r->first, 1, r->count);
        if (found)
            return (uint32_t)(found - a->used);
    }
    return NIL;
}

/* The oldest one from number FROM of the class on that has no chunk in use. */
static uint32_t next_idle(struct vs_arena *a, const struct alias_class *c, uint32_t from)
{
    uint64_t mask = ~0ull << (from & 63);
    for (uint32_t w = from >> 6; c->members && w < c->words; w++, mask = ~0ull)
        while (c->bits[w] & mask) {
            uint32_t alias = c->aliases[w * 64 + (uint32_t)__builtin_ctzll(c->bits[w] & mask)];
            uint32_t chunk = used_chunk(a, &a->alias[alias]);
            if (chunk == NIL)
                return alias;
            vs_class_flip(a, &a->alias[alias]);
            watch(a, alias, chunk);
        }
    return NIL;
}

uint32_t vs_alias_find(struct vs_arena *a, uint32_t count, uint32_t after)
{
    uint32_t from = after == NIL ? 0 : a->alias[after].index + 1;
    for (uint32_t i = lower_bound(a, after == NIL ? count : a->alias[after].count); i < a->classes;
         i++, from = 0) {
        uint32_t alias = next_idle(a, &a->class[a->by_count[i]], from);
        if (alias != NIL)
            return alias;
    }
    return NIL;
}

/* Closes the gaps that removed alias mappings left, once they are half of it. */
static void close_gaps(struct vs_arena *a, struct alias_class *c)
{
    uint32_t kept = 0;
    memset(c->bits, 0, c->words * sizeof *c->bits);
    for (uint32_t i = 0; i < c->used; i++) {
        if (c->aliases[i] == NIL)
            continue;
        struct alias *v = &a->alias[c->aliases[i]];
        v->index = kept;
        c->aliases[kept] = c->aliases[i];
        if (v->open)
            c->bits[kept >> 6] |= 1ull << (kept & 63);
        kept++;
    }
    c->used = kept;
}

static int make_room(struct vs_arena *a, struct alias_class *c)
{
    uint32_t living = 0;
    if (c->used < c->capacity)
        return 0;
    for (uint32_t i = 0; i < c->used; i++)
        living += c->aliases[i] != NIL;
    if (c->used && living <= c->used / 2) {
        close_gaps(a, c);
        return 0;
    }
    uint32_t room = c->capacity;
    if (room / 64 >= c->words &&
        vs_meta_fit(&a->meta, (void **)&c->bits, &c->words, sizeof *c->bits, c->words + 1) != 0)
        return -1;
    if (vs_meta_fit(&a->meta, (void **)&c->aliases, &room, sizeof *c->aliases, c->used + 1) != 0)
        return -1;
    c->capacity = room < c->words * 64 ? room : c->words * 64;
    return 0;
}

int vs_class_join(struct vs_arena *a, uint32_t count, uint32_t *class)
{
    uint32_t at = lower_bound(a, count);
    if (at < a->classes && a->class[a->by_count[at]].count == count) {
        *class = a->by_count[at];
        return make_room(a, &a->class[*class]);
    }
    if (vs_meta_fit(&a->meta, (void **)&a->by_count, &a->by_count_room, sizeof *a->by_count,
                    a->classes + 1) != 0 ||
        vs_meta_fit(&a->meta, (void **)&a->class, &a->class_room, sizeof *a->class, a->classes + 1) != 0)
        return -1;
    memmove(a->by_count + at + 1, a->by_count + at, (a->classes - at) * sizeof *a->by_count);
    a->by_count[at] = *class = a->classes++;
    a->class[*class] = (struct alias_class){.count = count};
    return make_room(a, &a->class[*class]);
}

void vs_class_add(struct vs_arena *a, uint32_t class, uint32_t alias)
{
    struct alias_class *c = &a->class[class];
    a->alias[alias].class = class;
    a->alias[alias].index = c->used;
    a->alias[alias].watched = NIL;
    c->aliases[c->used++] = alias;
}

void vs_class_remove(struct vs_arena *a, uint32_t alias)
{
    struct alias *v = &a->alias[alias];
    struct alias_class *c = &a->class[v->class];
    if (v->open)
        vs_class_flip(a, v);
    watch_no_more(a, v);
    c->aliases[v->index] = NIL;
    while (c->used && c->aliases[c->used - 1] == NIL)
        c->used--;
}
