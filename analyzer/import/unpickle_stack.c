/* unpickle_stack.c - the stack machine of a pickle (unpickle_stack.h). */
#include "unpickle_stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (1u << 20)

struct pickle_chunk {
    struct pickle_chunk *next;
    size_t used, size;
    max_align_t bytes[];
};

int unpickle_fail(struct pickle *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(p->why, p->why_size, format, list);
    va_end(list);
    return -1;
}

int unpickle_truncated(struct pickle *p)
{
    return unpickle_fail(p, "is truncated: its pickle goes on behind the last of %zu bytes; copy it again",
                         p->size);
}

int unpickle_malformed(struct pickle *p, const char *what)
{
    return unpickle_fail(p, "is no valid pickle: at byte %zu, %s", p->at, what);
}

/* ---- memory ---- */

static bool charge(struct pickle *p, size_t bytes)
{
    if (bytes > p->memory - p->taken) {
        unpickle_fail(p, "takes more than %zu MiB to read: record fewer events, or stacks='python'",
                      p->memory >> 20);
        return false;
    }
    p->taken += bytes;
    return true;
}

static void *take(struct pickle *p, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    struct pickle_chunk *c = p->chunks;
    if (!c || c->size - c->used < bytes) {
        size_t size = bytes > CHUNK / 4 ? bytes : CHUNK;
        if (!charge(p, size))
            return NULL;
        c = malloc(sizeof *c + size);
        if (!c) {
            unpickle_fail(p, "can't be read: out of memory");
            return NULL;
        }
        *c = (struct pickle_chunk){.next = p->chunks, .size = size};
        p->chunks = c;
    }
    void *at = (char *)c->bytes + c->used;
    c->used += bytes;
    return at;
}

bool unpickle_widen(struct pickle *p, void *array, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t next = *room ? *room * 2 : 256;
    if (!charge(p, (next - *room) * size))
        return false;
    void *grown = realloc(*(void **)array, next * size);
    if (!grown) {
        unpickle_fail(p, "can't be read: out of memory");
        return false;
    }
    *(void **)array = grown;
    *room = next;
    return true;
}

void unpickle_free(struct pickle *p)
{
    if (!p)
        return;
    for (struct pickle_chunk *c = p->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(p->stack.at);
    free(p->memo.at);
    free(p->marks);
    free(p);
}

/* ---- marks ---- */

int unpickle_mark(struct pickle *p)
{
    if (!unpickle_widen(p, &p->marks, p->mark_count, &p->mark_room, sizeof *p->marks))
        return -1;
    p->marks[p->mark_count++] = p->stack.n;
    return 0;
}

int unpickle_to_mark(struct pickle *p, struct pickle_value **items, size_t *n)
{
    if (!p->mark_count)
        return unpickle_malformed(p, "an opcode needs a mark and there is none");
    size_t height = p->marks[--p->mark_count];
    *items = p->stack.at + height;
    *n = p->stack.n - height;
    p->stack.n = height;
    return 0;
}

/* ---- containers ---- */

static struct pickle_object *new_object(struct pickle *p)
{
    struct pickle_object *o = take(p, sizeof *o);
    if (o)
        *o = (struct pickle_object){0};
    return o;
}

int unpickle_push_container(struct pickle *p, enum pickle_kind kind)
{
    struct pickle_object *o = new_object(p);
    return o ? unpickle_push(p, (struct pickle_value){.kind = kind, .object = o}) : -1;
}

static int add(struct pickle *p, struct pickle_object *o, const struct pickle_value *items, size_t n)
{
    if (n > o->room - o->n) {
        size_t room = o->n + n > o->room * 2 ? o->n + n : o->room * 2;
        struct pickle_value *wider = take(p, room * sizeof *wider);
        if (!wider)
            return -1;
        if (o->n)
            memcpy(wider, o->at, o->n * sizeof *wider);
        o->at = wider;
        o->room = room;
    }
    if (n)
        memcpy(o->at + o->n, items, n * sizeof *items);
    o->n += n;
    return 0;
}

int unpickle_append_marked(struct pickle *p, enum pickle_kind kind)
{
    struct pickle_value *items = NULL;
    size_t n = 0;
    if (unpickle_to_mark(p, &items, &n))
        return -1;
    if (!unpickle_has(p, 1) || unpickle_top(p)->kind != kind || (kind == PICKLE_DICT && n % 2))
        return unpickle_malformed(p, "items are put into what cannot hold them");
    return add(p, unpickle_top(p)->object, items, n);
}

int unpickle_append_top(struct pickle *p, enum pickle_kind kind, size_t n)
{
    if (!unpickle_has(p, n + 1) || p->stack.at[p->stack.n - n - 1].kind != kind)
        return unpickle_malformed(p, "an item is put into what cannot hold it");
    p->stack.n -= n;
    return add(p, unpickle_top(p)->object, unpickle_top(p) + 1, n);
}

/* A container made of N items on the stack, in their place. */
static int collect(struct pickle *p, enum pickle_kind kind, const struct pickle_value *items, size_t n)
{
    struct pickle_object *o = new_object(p);
    if (!o || (kind == PICKLE_DICT && n % 2) || add(p, o, items, n))
        return o && kind == PICKLE_DICT && n % 2 ? unpickle_malformed(p, "a dict has a key without a value")
                                                 : -1;
    return unpickle_push(p, (struct pickle_value){.kind = kind, .object = o});
}

int unpickle_collect_marked(struct pickle *p, enum pickle_kind kind)
{
    struct pickle_value *items = NULL;
    size_t n = 0;
    return unpickle_to_mark(p, &items, &n) ? -1 : collect(p, kind, items, n);
}

int unpickle_collect_top(struct pickle *p, size_t n)
{
    if (!unpickle_has(p, n))
        return unpickle_malformed(p, "a tuple has fewer items than its opcode says");
    p->stack.n -= n;
    return collect(p, PICKLE_LIST, p->stack.at + p->stack.n, n);
}
