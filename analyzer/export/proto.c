/* proto.c - writes Protocol Buffers (proto.h). */
#include "proto.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, LONGEST = 10 /* bytes of a varint */ };

static unsigned char *make_room(struct proto *p, size_t n)
{
    if (p->n + n > p->room) {
        while (p->n + n > p->room)
            p->room = p->room ? 2 * p->room : 256;
        p->at = xrealloc(p->at, p->room);
    }
    return p->at + p->n;
}

static size_t encode(unsigned char out[LONGEST], uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (unsigned char)(value | 0x80);
    out[n++] = (unsigned char)value;
    return n;
}

void proto_packed(struct proto *p, uint64_t value)
{
    p->n += encode(make_room(p, LONGEST), value);
}

static void put_tag(struct proto *p, int field, int wire)
{
    proto_packed(p, (uint64_t)field << 3 | (uint64_t)wire);
}

void proto_number(struct proto *p, int field, uint64_t value)
{
    put_tag(p, field, WIRE_VARINT);
    proto_packed(p, value);
}

void proto_signed(struct proto *p, int field, int64_t value)
{
    proto_number(p, field, (uint64_t)value);
}

void proto_text(struct proto *p, int field, const char *text)
{
    size_t n = strlen(text);
    put_tag(p, field, WIRE_LENGTH);
    proto_packed(p, n);
    memcpy(make_room(p, n), text, n);
    p->n += n;
}

/* One byte is kept for the length, which is enough for most messages; the others are moved. */
size_t proto_begin(struct proto *p, int field)
{
    put_tag(p, field, WIRE_LENGTH);
    *make_room(p, 1) = 0;
    return ++p->n;
}

void proto_end(struct proto *p, size_t begun)
{
    unsigned char length[LONGEST];
    size_t size = p->n - begun, n = encode(length, size);
    make_room(p, LONGEST);
    memmove(p->at + begun - 1 + n, p->at + begun, size);
    memcpy(p->at + begun - 1, length, n);
    p->n += n - 1;
}

void proto_free(struct proto *p)
{
    free(p->at);
    *p = (struct proto){0};
}
