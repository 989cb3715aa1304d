/*
 * tape_parts.h - what the files of the tape share: tape.c reads rows, tape_streams.c decides what belongs
 * together.
 */
#ifndef VS_READ_TAPE_PARTS_H
#define VS_READ_TAPE_PARTS_H

#include "tape.h"
#include "trace/ledger/spans.h"

#define STREAM_UNKNOWN UINT16_MAX

/* Gives every request whose stream is not known, or is not that of most of its segment's blocks, the one of
 * its segment, since all blocks of one are of one stream and pool; and each segment's own events likewise.
 * RESERVED: the reservations of addresses, in which expandable segments lie.  Returns false where requests
 * remain of which nothing is known: they are of stream 0 then. */
bool tape_find_streams(struct trace_tape *tape, const struct vs_spans *reserved);

/* Gives each mapped piece of an import, which says no stream of one, that of the blocks in the pieces that it
 * touches. */
void tape_find_pieces(struct trace_tape *tape);

/* Sets what TAPE says of the framework's settings. */
void tape_read_settings(struct trace *t, struct trace_tape *tape);

#endif
