/* dropped.h - see dropped.c. */
#ifndef VS_TRACE_JOURNAL_DROPPED_H
#define VS_TRACE_JOURNAL_DROPPED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "trace/event.h"

#define VS_DROPPED_KEYS 65536u

#define VS_DROPPED_DEVICES 64

struct vs_journal;

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

#endif
