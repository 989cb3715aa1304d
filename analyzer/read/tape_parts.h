/* tape_parts.h - what the files of the tape share. */
#ifndef VS_READ_TAPE_PARTS_H
#define VS_READ_TAPE_PARTS_H

#include "events.h"
#include "tape.h"
#include "trace/ledger/addresses.h"
#include "trace/ledger/ledger.h"

#define STREAM_UNKNOWN UINT16_MAX

/* Of a row: its bytes, 0 where the file has none; the number of its stream; enum vs_managed as the whole file
 * knows it. */
static inline uint64_t tape_bytes(const struct trace_row *row)
{
    return row->size > 0 ? (uint64_t)row->size : 0;
}
static inline uint64_t tape_number(const struct trace_row *row)
{
    return (uint64_t)row->stream;
}
static inline int tape_managed(const struct trace_row *row)
{
    return row->reclassified ? VS_MANAGED : row->managed;
}

/* The number of event SEQ in its process. */
static inline uint32_t tape_number_of(int64_t seq)
{
    return (uint32_t)(seq & ((INT64_C(1) << 40) - 1));
}

struct tape_held {           /* what is no caching allocator's, as of the last row (tape_held.c) */
    struct vs_table asked;   /* by thread: the call stack of its last allocation out of a pool */
    struct vs_table library; /* living allocations of pools whose use is unknown, by number */
};
void tape_held_row(struct tape_held *h, struct trace_tape *tape, const struct trace_row *row);
void tape_held_free(struct tape_held *h);

/* All blocks of a segment are of one stream and pool.  So a request gets its segment's stream where its own
 * is not known, or is not that of most of the segment's blocks; a segment's own events likewise.  RESERVED:
 * the reservations of addresses, in which expandable segments lie.  Returns false where requests remain of
 * which nothing is known: they are of stream 0 then. */
bool tape_find_streams(struct trace_tape *tape, const struct vs_spans *reserved);

/* Gives each mapped piece of an import, which says no stream of one, that of the blocks in the pieces that it
 * touches. */
void tape_find_pieces(struct trace_tape *tape);

/* Sets what TAPE says of the framework's settings. */
void tape_read_settings(struct trace *t, struct trace_tape *tape);

#endif
