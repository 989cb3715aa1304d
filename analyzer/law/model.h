/*
 * model.h - what several recordings of a program say of its blocks at any size: the requests and frees of the
 * largest recording, with a law for each block.
 */
#ifndef VS_LAW_MODEL_H
#define VS_LAW_MODEL_H

#include "fit.h"
#include "replay/replay.h"
#include "read/tape.h"
#include "runs.h"

/* In the order of what is shown. */

struct law_row {                   /* blocks of one law */
    uint64_t sizes[LAW_RUNS_MOST]; /* in each run, 0: not there */
    uint32_t asked;                /* in which runs that is what was asked for, a bit each */
    uint32_t block;                /* one of them */
};

struct law_model {
    const struct law_runs *runs;
    const struct law_run *base; /* the largest run, whose sequence it is */
    uint32_t *law_of;           /* of each of its blocks, index into laws */
    struct law *laws;
    struct law_row *rows; /* of each law */
    size_t *blocks_of;    /* how many blocks have each law */
    size_t law_count;
    uint32_t *places; /* of each block: in how many runs it was found */
    size_t by_trust[3];
    size_t switching; /* blocks whose law is another one from some size on */
    size_t some;      /* blocks of the base that not all runs have */
    size_t missing;   /* blocks that other runs have and the base has not, and of them the most of one run */
    uint64_t missing_bytes;
    struct torch_settings settings; /* recorded ones, without a capacity */
    uint64_t unit;                  /* sizes are multiples of it: 512, or 1 */
    struct trace_tape work;         /* the sequence, whose sizes law_play sets */
    double lean;  /* blocks without a law: -1 at the least of their line that was recorded, 0 on it, 1 at the
                     most */
    bool in_turn; /* every other one towards the other end */
};

/* 0, or 2, said: the recordings are not of one program, or not of the sizes that are said of them. */
int law_model(struct law_model *m, const struct law_runs *runs);
void law_free_model(struct law_model *m);

struct law_answer {
    uint64_t bytes;     /* live: what is asked for; else the most that is held of the driver */
    uint64_t allocated; /* as the allocator counts it: whole blocks; 0 of the arena */
    uint64_t retries;
    bool fits;
};

/* What POLICY holds at most at AT, if the program makes the steps that the recordings made.  CAPACITY 0: no
 * end. */
struct law_answer law_play(struct law_model *m, struct law_point at, enum feed_policy policy,
                           uint64_t capacity);

/* The least and the most that blocks without a law make of that; both are a.bytes where all have one. */
struct law_span {
    uint64_t least, most;
};
struct law_span law_play_span(struct law_model *m, struct law_point at, enum feed_policy policy);

/* ---- two sequences of keys laid beside each other (align.c) ---- */

#define ALIGN_NONE UINT32_MAX
#define ALIGN_MOST 1500 /* differences; beyond, the sequences are of different programs */

/* OUT[i] gets the index in B of element i of A, or ALIGN_NONE; indices rise.  As many elements as possible
 * find their counterpart.  False: more than ALIGN_MOST elements have none. */
bool align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, uint32_t *out);

#endif
