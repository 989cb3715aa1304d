/*
 * reply.h - the answer to one question, under one allocator: a run, where values were read or sizes guessed
 * at further ones under other assumptions, and what all say.
 */
#ifndef VS_FIT_REPLY_H
#define VS_FIT_REPLY_H

#include "verdict.h"

struct span {
    int64_t least, most;
};

struct reply {
    const struct attempt_setup *setup;
    struct attempt_setup launched;    /* that `setup` is where a launcher says how many ranks there are */
    struct attempt runs[ASSUMPTIONS]; /* under the first assumption, and `n` - 1 others */
    struct verdict verdicts[ASSUMPTIONS];
    size_t n;
    char *path; /* where the recording lies for the user; NULL: nowhere */
};

/* Runs the program in FOLDER.  0, or 2, said. */
int reply_find(struct reply *a, const struct attempt_setup *s, enum attempt_allocator allocator,
               const char *folder);
/* Which run has the verdict of all: what does not fit under one of the assumptions does not fit. */
size_t reply_decides(const struct reply *a);
const struct verdict *reply_verdict(const struct reply *a);
/* Of the run that held most. */
const struct peaks *reply_peaks(const struct reply *a);
int reply_status(const struct reply *a);
/* What PyTorch's figures lie between; both the same: they are exact as far as anybody knows. */
struct span reply_allocated(const struct reply *a);
struct span reply_reserved(const struct reply *a);
bool reply_is_exact(const struct reply *a);
/* Whether the verdict is the same for all that the figures may be.  For values that only a GPU computes, and
 * sizes that are guessed, there are further runs: all have the same verdict.  For sizes that no table has
 * there is none: a fit is certain if they would find room, too, and a refusal if more was missing than they
 * may take. */
bool reply_is_certain(const struct reply *a);
/* Whether what is counted beside PyTorch's figures was measured on such a card. */
bool reply_beside_is_measured(const struct reply *a);
void reply_free(struct reply *a);

/* "an H200 (139.8 GiB)"; the caller frees it. */
char *device_words(const struct attempt_setup *s);
void reply_text(const struct reply *a, FILE *out);
void reply_json(const struct reply *a, FILE *out);

#endif
