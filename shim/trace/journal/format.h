/*
 * format.h - how a journal lies in its file, and the handle that this process has of it.  For this folder's
 * files alone.
 *
 * The header is followed by the sections of enum vs_section, in that order, each at a multiple of 4096.  The
 * handle has copies of their offsets and capacities as they were checked, so that a file that changes later
 * makes no pointer wrong.
 */
#ifndef VS_TRACE_JOURNAL_FORMAT_H
#define VS_TRACE_JOURNAL_FORMAT_H

#include <stdatomic.h>
#include <string.h>

#include "journal.h"

#define VS_JOURNAL_MAGIC "vsjrnl\r\n" /* 8 bytes; the line end shows a file mangled as text */
/* 1: all frames were addresses; 2: no accesses; 3: no page of the present; 4: no tensors; 6: uses were
 * applied to their rows by the threads that made them; 7: phases of sure uses were not kept apart */
#define VS_JOURNAL_FORMAT 9u
#define VS_FACTS          32u
#define VS_PAGE           4096u
#define VS_STATE_DEAD     UINT64_MAX
#define VS_DOUBT_DEAD     1u /* slots were killed */
#define VS_DOUBT_DROPPED  2u /* events were dropped; the frees of dropped allocations go with them */

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum vs_section {
    VS_SEC_RING,
    VS_SEC_STRINGS,
    VS_SEC_THREADS,
    VS_SEC_CONTEXTS,
    VS_SEC_DEVICES,
    VS_SEC_MODULES,
    VS_SEC_FRAMES,
    VS_SEC_STACKS,
    VS_SEC_TENSORS,
    VS_SEC_ACCESSES,
    VS_SEC_PAGES, /* rows of one page each: enum vs_journal_page */
    VS_SECTIONS
};

/* Older journals of this format have the first alone. */
enum vs_journal_page {
    VS_PAGE_NOW,      /* journal.c */
    VS_PAGE_REQUESTS, /* requests.c */
    VS_JOURNAL_PAGES
};

struct vs_section_place {
    uint64_t offset;
    uint64_t capacity; /* rows, row 0 included; bytes / 8 for strings and tensors */
};

struct vs_fact { /* two string ids; a fact is set when both are */
    _Atomic uint32_t key, value;
};

struct vs_journal_header {
    char magic[8];
    uint32_t format;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t start_ns, start_realtime_ns;
    uint64_t owner_start; /* field 22 of /proc/PID/stat: a reused pid has another */
    int32_t owner_pid;
    uint32_t reserved;
    char boot_id[40];
    struct vs_section_place place[VS_SECTIONS];
    struct vs_fact fact[VS_FACTS];
    char database[4096];

    /* Producers' line: all that a claim reads and writes, so that it touches no other.  The consumer writes
     * here once a release.  The words from `doubt` on are zeros in older journals, and only the owner uses
     * them. */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint32_t dropping;
    _Atomic uint32_t doubt; /* VS_DOUBT_*: why claims take the careful way; bits are never cleared */
    _Atomic uint64_t limit; /* sequences below may be claimed by any event; it moves with `freed` */
    /* The consumer's line.  Every slot of a sequence below `freed` has been handed back, so sequences up to
     * freed + slots - 1 may be claimed.  Moves once a release, behind `tail`. */
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t dead;
    _Atomic uint64_t freed;
    /* rarely used; here because there is room, and older journals have zeros */
    _Atomic uint64_t lost_ranges, lost_births;
    /* Rare counters. */
    _Alignas(64) _Atomic uint64_t lost;
    _Atomic uint64_t late;
    _Atomic uint64_t table_full;
    _Atomic uint32_t next_range;
    _Atomic uint64_t untracked; /* from here to `rows`: zeros in older journals */
    _Atomic uint64_t lost_ends; /* of `lost`: how many were ends, and the first and last sequence that they
                                   are missing at */
    _Atomic uint64_t ends_first, ends_last;
    _Alignas(64) _Atomic uint64_t rows[VS_SECTIONS]; /* next row to hand out; unused for the ring */
};

/* A slot as the ring code sees it: vs_event with its state word atomic, and words to fill it with.  Sequence
 * s lives in slot s % slots, in lap s / slots.  The state is lap * slots where the slot is free for that lap,
 * one more where its event is published, or VS_STATE_DEAD: a file of zeros is an empty ring. */
struct vs_slot {
    _Atomic uint64_t state;
    _Atomic uint64_t word[sizeof(struct vs_event) / sizeof(uint64_t) - 1];
};
_Static_assert(sizeof(struct vs_slot) == sizeof(struct vs_event), "a slot is an event");

/* The tensors' table: so many units of CAPACITY may be taken by rows with shapes, the rest by others alone.
 * Once that many are taken, new shapes are missing. */
static inline uint64_t vs_journal_shape_units(uint64_t capacity)
{
    return capacity - capacity / 8;
}

struct vs_index { /* open addressing over row ids; private memory of the owner, never in the file */
    _Atomic uint32_t *id;
    uint32_t mask;
};

/* ---- what was dropped (dropped.c) ---- */

#define VS_DROPPED_KEYS 65536u

#define VS_DROPPED_DEVICES 64

struct vs_dropped_sum {         /* of what was dropped and lives, on one device */
    _Atomic uint64_t now, most; /* most: since it was told */
    _Atomic uint64_t told;      /* what the ring has an allocation of; written by who has taken `telling` */
    uint64_t high;              /* `most` where that is to be told first; for the same */
};

struct vs_dropped {
    _Atomic uint64_t *key;      /* VS_DROPPED_KEYS of them; 0: empty */
    _Atomic uint64_t *held;     /* of each: its bytes, device and the device's age */
    struct vs_dropped_sum *sum; /* VS_DROPPED_DEVICES of driver allocations, and as many of blocks */
    _Atomic uint32_t count;  /* of remembered addresses; 0 in the usual case, in which nothing else is read */
    _Atomic uint8_t changed; /* VS_DROPPED_*: the ring is to be told */
    _Atomic bool telling, framework;
};

enum { VS_DROPPED_CHANGED = 1, VS_DROPPED_MUCH = 2 };

extern const size_t vs_dropped_bytes; /* that begin() wants, zeroed */
void vs_dropped_begin(struct vs_dropped *u, void *memory);

/* Remembers the dropped allocation EVENT, if there is room and the allocation succeeded. */
void vs_dropped_add(struct vs_dropped *u, const struct vs_event *event);

/* Called before EVENT is recorded: whether it frees an allocation that was dropped.  Either way its address
 * is forgotten, because a free ends the dropped allocation and a recorded allocation replaces it. */
bool vs_dropped_take(struct vs_dropped *u, const struct vs_event *event);

/* EVENT, which ends something or begins it, is recorded next: whether the ring is to be told before. */
bool vs_dropped_matters(struct vs_dropped *u, const struct vs_event *event, bool end);

/* What the ring is to be told next, by the thread that has taken `telling`: an allocation that stands for all
 * dropped ones of a device, or its end where another size is to follow.  False: nothing.  told() when it has
 * been appended. */
bool vs_dropped_next(struct vs_journal *j, struct vs_event *event);
void vs_dropped_told(struct vs_dropped *u, const struct vs_event *event);

/* ---- the handle ---- */

struct vs_journal {
    struct vs_journal_header *header;
    struct vs_slot *slot;
    uint64_t mask;             /* ring slots - 1 */
    struct vs_dropped dropped; /* used by the owner, the only process that appends */
    /* Up to here: one cache line, which every event reads. */
    unsigned char *section[VS_SECTIONS];
    uint64_t capacity[VS_SECTIONS];
    struct vs_index index[VS_SECTIONS];
    _Atomic uint64_t vacant;  /* uses.c; used by the owner only */
    _Atomic bool losing_uses; /* likewise: uses are lost without a try until the ring has room again */
    size_t file_bytes, handle_bytes;
    bool writable;
    /* consumer: the claimed slot at the tail that is waited for */
    uint64_t stuck_seq, stuck_ns, stuck_seen_ns;
};

/* How many of SLOTS any event may fill; the rest is reserved for ends. */
static inline uint64_t vs_journal_room(uint64_t slots)
{
    return slots - slots / 8;
}

/* Bytes of one row, per section. */
size_t vs_journal_row_bytes(enum vs_section section);

static inline void *vs_journal_row(const struct vs_journal *j, enum vs_section s, size_t bytes, uint64_t id)
{
    return j->section[s] + id * bytes;
}

#endif
