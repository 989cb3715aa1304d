/*
 * proto.h - writes Protocol Buffers, the encoding of Perfetto's and pprof's files
 * (protobuf.dev/programming-guides/encoding), without generated code or a library.  A message in a message is
 * begun and ended; its length is put before it then.
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
void proto_text(struct proto *p, int field, const char *text);
/* Returns what proto_end wants. */
size_t proto_begin(struct proto *p, int field);
void proto_end(struct proto *p, size_t begun);
/* Numbers without tags, for packed repeated fields between begin and end. */
void proto_packed(struct proto *p, uint64_t value);
void proto_free(struct proto *p);

#endif
