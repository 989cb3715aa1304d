/*
 * now.h - where a recorded process stands, as its drain last said it, for `vramscope top`.  It is no part of
 * the recording.
 */
#ifndef VS_TRACE_NOW_H
#define VS_TRACE_NOW_H

#include <stdint.h>

#include "roles.h"

#define VS_NOW_DEVICES 16 /* the first ones in use */
#define VS_NOW_RANGES  24 /* the latest opened of those that are open */

#define VS_NOW_USE_UNKNOWN 1u /* libraries' pools do not say what they use: allocated is a lower bound */
#define VS_NOW_WAS_AWAY    2u /* memory of the device's has been away */

struct vs_now_device {
    int32_t ordinal;
    uint32_t flags; /* VS_NOW_* */
    uint64_t allocated, reserved, peak_allocated, peak_reserved;
    uint64_t away;                        /* of allocated: on the host, and not in reserved */
    uint64_t away_of[VS_FRAMEWORK_ROLES]; /* the blocks' own bytes, by what a framework says: enum vs_role; 0:
                                             of others */
    int64_t peak_t;                       /* of allocated */
    uint64_t process_used; /* the driver's last figures: of this process, of the whole device */
    uint64_t device_used;
    int64_t process_used_t; /* 0: there is none */
    int64_t device_used_t;
    uint64_t out_of_memory; /* how often a framework gave up */
    uint64_t driver_refusals;
};

struct vs_now_range {
    uint32_t name;   /* string id of the journal */
    uint32_t thread; /* thread id of the journal */
    uint32_t phase;  /* 0: it names none */
    uint32_t reserved;
    int64_t t_push;
};

struct vs_now {
    uint64_t published_ns; /* CLOCK_MONOTONIC */
    int64_t t;             /* of the last row; times count from the run's start, ns */
    uint64_t rows;         /* written so far: events, and what the ledger made of them */
    uint64_t steps;        /* that have ended */
    int64_t step_t;        /* when the last of them did */
    uint64_t pinned;       /* page-locked host memory of the process */
    uint32_t devices, ranges;
    uint64_t open_ranges; /* of which RANGES are in the table */
    struct vs_now_device device[VS_NOW_DEVICES];
    struct vs_now_range range[VS_NOW_RANGES]; /* the latest last */
};
_Static_assert(sizeof(struct vs_now) % sizeof(uint64_t) == 0, "it is copied by words");
_Static_assert(sizeof(struct vs_now) + sizeof(uint64_t) <= 4096, "it is a page");

#endif
