/*
 * unpickle_stack.h - the stack machine that a pickle is a program for: its memory, its stack with marks, and
 * the containers that are made of what lies on it.  For unpickle.c alone.
 *
 *      } ( "a" 1 "b" 2 u      a dict, a mark, four values; what is above the mark goes into the dict below
 *
 * Every array and value is charged against the limit that unpickle_read was given.  Functions that return int
 * give 0, or -1 with the reason said (unpickle_fail).
 */
#ifndef VS_IMPORT_UNPICKLE_STACK_H
#define VS_IMPORT_UNPICKLE_STACK_H

#include <stdbool.h>
#include <stddef.h>

#include "unpickle.h"

struct pickle_chunk; /* of the values' memory */

struct pickle_values { /* the stack, the memo */
    struct pickle_value *at;
    size_t n, room;
};

struct pickle {
    const unsigned char *bytes;
    size_t size, at;
    struct pickle_chunk *chunks;
    size_t taken, memory;
    struct pickle_values stack, memo;
    size_t *marks; /* heights of the stack */
    size_t mark_count, mark_room;
    char *why;
    size_t why_size;
};

/* Says why the file can't be read; -1. */
int unpickle_fail(struct pickle *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int unpickle_truncated(struct pickle *p);
int unpickle_malformed(struct pickle *p, const char *what);

/* Makes room for one more in an array of SIZE-byte items that realloc moves. */
bool unpickle_widen(struct pickle *p, void *array, size_t n, size_t *room, size_t size);

/* ---- the stack ---- */

static inline int unpickle_push(struct pickle *p, struct pickle_value v)
{
    if (p->stack.n >= p->stack.room && !unpickle_widen(p, &p->stack.at, p->stack.n, &p->stack.room, sizeof v))
        return -1;
    p->stack.at[p->stack.n++] = v;
    return 0;
}

/* The height that opcodes may not go below: what the innermost mark stands on. */
static inline size_t unpickle_floor(const struct pickle *p)
{
    return p->mark_count ? p->marks[p->mark_count - 1] : 0;
}

static inline bool unpickle_has(const struct pickle *p, size_t n)
{
    return p->stack.n - unpickle_floor(p) >= n;
}

static inline struct pickle_value *unpickle_top(struct pickle *p)
{
    return &p->stack.at[p->stack.n - 1];
}

int unpickle_mark(struct pickle *p);
/* The items above the innermost mark, which goes; they stay valid until the next push. */
int unpickle_to_mark(struct pickle *p, struct pickle_value **items, size_t *n);

/* ---- containers ---- */

/* An empty one. */
int unpickle_push_container(struct pickle *p, enum pickle_kind kind);
/* The items above the mark into the container below them. */
int unpickle_append_marked(struct pickle *p, enum pickle_kind kind);
/* The N topmost items into the container below them. */
int unpickle_append_top(struct pickle *p, enum pickle_kind kind, size_t n);
/* A container made of the items above the mark, in their place. */
int unpickle_collect_marked(struct pickle *p, enum pickle_kind kind);
/* A list made of the N topmost items. */
int unpickle_collect_top(struct pickle *p, size_t n);

#endif
