/*
 * whatif_answers.h - what changes of the program come to: each is made, replayed and measured, several at a
 * time.
 *
 * A change can mean more than one program; its figures lie between those of `low` and `high`, which an edited
 * order may turn round.
 */
#ifndef VS_CLI_WHATIF_ANSWERS_H
#define VS_CLI_WHATIF_ANSWERS_H

#include "edit/answer.h"
#include "whatif_edits.h"

/* One change, or several made one after the other; of the first row none: the program as it was recorded. */
struct answered {
    struct edit *edits; /* owned */
    size_t edit_count;
    char *name, *assumes, *cost; /* owned */
    char *why;                   /* it cannot be told; NULL: it can, and the rest is meant */
    bool nothing;                /* because there is nothing to change */
    struct answer low, high;
};

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
/* What the change saves for certain, against BASE. */
int64_t answered_saves(const struct answered *base, const struct answered *row);

enum fit { FIT_NO, FIT_PERHAPS, FIT_YES };
enum fit answered_fit(const struct answered *row, int policy);
/* The end that ran out; NULL: none did. */
const struct answer_policy *answered_out(const struct answered *row, int policy);

/* ---- printing; rows[0] is the program as it was recorded ---- */

void answered_print_text(const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n);
void answered_print_json(struct json *j, const struct program *from, const struct edits_question *q,
                         const struct answered *rows, size_t n);

#endif
