/*
 * asked.h - what PyTorch asked its allocator for (table `tensor`).
 *
 * A block is up to 1 MiB larger than its request.  Replays under other rules need the request, edits the
 * bytes of an element.
 */
#ifndef VS_READ_ASKED_H
#define VS_READ_ASKED_H

#include "trace.h"

/* One more than PyTorch's numbers (table element_type). */
enum {
    ELEMENT_UNKNOWN,
    ELEMENT_UINT8,
    ELEMENT_FLOAT16 = 6,
    ELEMENT_FLOAT32,
    ELEMENT_FLOAT64,
    ELEMENT_BOOL = 12,
    ELEMENT_BFLOAT16 = 16
};

struct asked {
    int64_t id;
    uint64_t bytes;    /* 0: unknown */
    uint64_t shape;    /* a number of it, the same for the same shape; 0: unknown */
    uint64_t outer;    /* its first extent; 0: it has none, or it is unknown */
    uint64_t inner[2]; /* its last two extents, the last one first; 0: it has none, or they are unknown */
    const char *made_for, *element_type, *extents; /* as in struct trace_tensor */
    uint8_t type;                                  /* ELEMENT_... */
    uint8_t rank;                                  /* of its shape; 0: a scalar's, or unknown */
    bool raw;                                      /* bytes that no tensor was made of */
    bool sized;                                    /* the block's size is the request */
};

struct asked_table {
    struct asked *at; /* [0] is what is not known; the others in the order of their ids */
    size_t n;
};

/* 0, or -1 with t->why. */
int asked_read(struct trace *t, struct asked_table *out);
struct asked_table asked_copy(const struct asked_table *a); /* for asked_free, too */
void asked_free(struct asked_table *a);

/* An index into at. */
uint32_t asked_find(const struct asked_table *a, int64_t id);
/* Bytes asked for of a block of SIZE that was made for A; 0: unknown. */
static inline uint64_t asked_bytes(const struct asked *a, uint64_t size)
{
    return a->sized ? size : a->bytes <= size ? a->bytes : 0;
}

#endif
