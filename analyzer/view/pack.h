/*
 * pack.h - numbers as bytes, bytes as deflated base64 in the page.
 *
 * A number is little-endian in groups of 7 bits, the upper bit of a byte says that more follow; a signed one
 * is folded first (0, -1, 1, -2, ...).  Bytes of memory are nearly always multiples of 512: n is written as
 * 2 * (n / 512), what is none as 2 * n + 1.  page/codec.js reads what is written here.
 */
#ifndef VS_VIEW_PACK_H
#define VS_VIEW_PACK_H

#include <stdio.h>

#include "base/base.h"

struct pack {
    unsigned char *bytes;
    size_t size, room;
};

void pack_byte(struct pack *p, unsigned value);
void pack_bytes(struct pack *p, const void *bytes, size_t n);
void pack_number(struct pack *p, uint64_t value);
void pack_signed(struct pack *p, int64_t value);
void pack_memory(struct pack *p, int64_t bytes); /* >= 0 */
void pack_memory_signed(struct pack *p, int64_t bytes);
/* PART with its length before it, and PART is empty again. */
void pack_section(struct pack *p, struct pack *part);
void pack_free(struct pack *p);

/* <script type="text/plain" id="ID">...</script> with P deflated; P is freed.  Returns the bytes written. */
size_t pack_write(struct pack *p, const char *id, FILE *out);

#endif
