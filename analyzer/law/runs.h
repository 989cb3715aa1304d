/*
 * runs.h - short recordings of one program at several sizes, as sequences of blocks that can be laid beside
 * each other.
 *
 *      a run    FILE:batch=4,seq=1024; its blocks in the order of their births, up to the end of some step
 *      key      of a block: a number made of its call stack (texts, not addresses) and its phase, the same
 *               for the same place of the program in every recording
 *      section  the blocks that were born up to the end of step 1, in step 2, in step 3 ...
 */
#ifndef VS_LAW_RUNS_H
#define VS_LAW_RUNS_H

#include "fit.h"
#include "read/lives.h"
#include "read/trace.h"
#include "read/tape.h"

#define LAW_RUNS_LEAST 3
#define LAW_RUNS_MOST  LAW_SAMPLES_MOST
#define LAW_ROUND      512                 /* PyTorch rounds requests up to it */
#define LAW_UNSPLIT    (UINT64_C(1) << 20) /* its native allocator leaves as much of a large block unsplit */
#define LAW_STEPS      4 /* of each run at most: an allocator's cache has met all sizes by then */

struct law_block {
    uint64_t key, size; /* size as recorded, or what was asked for, rounded */
    uint32_t stack;     /* 0 none */
    uint16_t phase;     /* index into trace.phase_names */
    bool asked;         /* it is what was asked for */
};

struct law_run {
    struct trace t;
    struct trace_tape tape; /* of t, cut behind the last step that is used */
    struct trace_stacks stacks;
    struct law_block *blocks; /* by their ids in the tape */
    size_t ends[LAW_STEPS];   /* blocks born up to the end of step i + 1 */
    size_t steps;
    char *path;
    bool open; /* t is */
    int64_t batch, seq;
    int64_t peak_used;      /* of its blocks in the steps that are used */
    size_t later;           /* blocks that were born behind them */
    int64_t peak, reserved; /* of the framework's blocks, recorded over the whole run; reserved UNKNOWN */
    size_t unasked;         /* large blocks of which that is not known */
    bool requests; /* sizes are what was asked for, rounded to 512 at most; else up to 1 MiB more where large
                    */
};

struct law_runs {
    struct law_run *at;
    size_t n;
    int64_t device;
    size_t largest; /* by tokens: the index of the run that others are laid beside */
};

/* What the labels of T's run say, `run --label batch=4`; UNKNOWN. */
void law_label_sizes(const struct trace *t, int64_t *batch, int64_t *seq);
/* Reads FILES ("run.db:batch=4,seq=1024"), DEVICE UNKNOWN: the first that has blocks; NULL: what is wrong was
 * said.  0, or 2, said. */
int law_load(struct law_runs *runs, char **files, size_t n, int64_t device);
void law_free_runs(struct law_runs *runs);

/*
 * A file of many processes (`sweep`, `merge`) as the recordings that a law can be made of (expand.c):
 *
 *      sweep.db    4 points of 2 ranks, one of which ran out of memory
 *      -->         sweep.db#1 sweep.db#3 sweep.db#5: of the rank that held most, at each batch and length
 *
 * The words, of which those that name a file of several processes became one for each batch and length that
 * its labels say; for trace_free_files.  What is left out is said on stderr.  NULL, said: nothing of
 * them can be taken, or one has recordings of different programs by its other labels. */
char **law_expand(char **words, size_t n, size_t *count);

#endif
