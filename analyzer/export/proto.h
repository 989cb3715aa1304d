/*
 * proto.h - writes Protocol Buffers: the encoding of Perfetto's and pprof's files
 * (protobuf.dev/programming-guides/encoding).
 *
 * A message is a run of fields; a field is its number and wire type as a varint, and then a varint, or a
 * length and so many bytes.  That is all there is to writing one, so no generated code is needed, and no
 * library at run time.  A message in a message is begun and ended; its length is put before it then.
 */
#ifndef VS_EXPORT_PROTO_H
#define VS_EXPORT_PROTO_H

#include "base/base.h"

struct proto {
    unsigned char *at;
    size_t n, room;
};

void proto_number(struct proto *p, int field, uint64_t value);
/* int64 and int32 fields, whose negative values take ten bytes. */
void proto_signed(struct proto *p, int field, int64_t value);
void proto_bytes(struct proto *p, int field, const void *bytes, size_t n);
void proto_text(struct proto *p, int field, const char *text);
/* Returns what proto_end wants. */
size_t proto_begin(struct proto *p, int field);
void proto_end(struct proto *p, size_t begun);
/* Numbers without tags, for packed repeated fields between begin and end. */
void proto_packed(struct proto *p, uint64_t value);
void proto_free(struct proto *p);

#endif
