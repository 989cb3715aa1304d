/*
 * answers.h - what changes of the program come to.  A change can mean more than one program (edits.h).  Of
 * each peak the lower end is in `low` and the higher one in `high`, whichever program gave it.
 */
#ifndef VS_WHATIF_ANSWERS_H
#define VS_WHATIF_ANSWERS_H

#include "edit/answer.h"
#include "base/args.h"
#include "replay/torch.h"

struct edits_question {
    const struct arg_list *edits;          /* one after the other; none: each of all alone */
    const struct torch_settings *settings; /* of PyTorch's policies; its capacity is every policy's */
    const bool *wanted;                    /* by enum feed_policy */
    enum feed_policy column;               /* the one that changes are compared under */
    int policy;                            /* the one that is named, -1: none is, FEED_POLICIES: several */
    bool other;                            /* a policy, a capacity or a setting is */
    bool changed;                          /* a capacity or a setting is */
    bool late;                             /* the framework held memory before the recording */
    bool bytes;                            /* exact */
};

/* One change, or several made one after the other; of the first row none: the program as it was recorded. */
struct answered {
    struct edit *edits; /* owned */
    size_t edit_count;
    char *name, *assumes, *cost; /* owned */
    char *why;                   /* it cannot be told; NULL: it can, and the rest is meant */
    bool nothing;                /* because there is nothing to change */
    struct answer low, high;
};

/* A row for the program as it was recorded, and one for the changes NAMES, made one after the other; NAMES is
 * empty: for each that `whatif` tries by itself. */
struct answered *answered_rows(const struct arg_list *names, size_t *n);
/* Answers N ROWS for the program FROM, in as many threads as there are processors. */
void answered_work(const struct program *from, const struct edits_question *q, struct answered *rows,
                   size_t n);
void answered_free(struct answered *rows, size_t n);

/* ---- figures ---- */

uint64_t answered_allocated(const struct answer *a);
/* The lower of A and B, and the higher. */
void answered_ends(uint64_t a, uint64_t b, int64_t *low, int64_t *high);
/* "no phase" where it is none. */
const char *answered_phase(const struct program *p, uint16_t phase);
/* The most that it reserves under POLICY. */
int64_t answered_reserved(const struct answered *row, enum feed_policy policy);
/* What the change saves of allocated for certain, against BASE. */
int64_t answered_saves(const struct answered *base, const struct answered *row);

enum fit { FIT_NO, FIT_PERHAPS, FIT_YES };
enum fit answered_fit(const struct answered *row, int policy);
/* The end that ran out; NULL: none did. */
const struct answer_policy *answered_out(const struct answered *row, int policy);

#endif
