/*
 * reply.h - the answer to one question, under one allocator: a run, further ones under other assumptions
 * where values were read or sizes guessed, and what all say.
 */
#ifndef VS_FIT_REPLY_H
#define VS_FIT_REPLY_H

#include "attempt.h"
#include "replay/layouts.h"

/* ---- of one run: whether the program fits, and what it held (verdict.c) ---- */

enum verdict_kind {
    VERDICT_FITS,
    VERDICT_REFUSED, /* memory ran out */
    VERDICT_FAILED,  /* the program ended by itself, and not well */
    VERDICT_UNKNOWN
};

struct peaks {      /* of the device where most is reserved; UNKNOWN: not recorded */
    bool framework; /* these two are PyTorch's own counters; else all that was asked of the driver */
    int64_t allocated, reserved;
    int64_t step; /* of allocated */
    char *phase;
    int64_t total, steps;
    int64_t driver;   /* asked of the driver in all, at the highest */
    int64_t residual; /* context, code and libraries beyond that, as the driver's figures say */
    int64_t device, rank, world_size;
    struct layouts layouts; /* what the first two lie between, wherever the driver puts memory */
};

struct verdict {
    enum verdict_kind kind;
    char *why;     /* REFUSED: the request; FAILED, UNKNOWN: the reason, a sentence */
    char *what;    /* to do about it, a sentence; NULL */
    char *limited; /* a request that PyTorch refused at the program's own limit, and not the device; NULL */
    struct peaks peaks;
    int64_t least, most;  /* allocated by PyTorch on a device of any rank; UNKNOWN */
    bool unread;          /* a recording can't be read */
    bool whole;           /* no event was lost */
    int64_t refused_file; /* which recording ran out of memory; UNKNOWN */
    bool went_on;         /* after that the program did */
    int64_t given_back;   /* how often PyTorch gave cached memory back, and then got what it asked for */
};

/* What the bytes beside PyTorch's are at the fullest, and what is left of the device; UNKNOWN. */
int64_t verdict_beside(const struct peaks *p);
int64_t verdict_left(const struct peaks *p);

void verdict_of(struct verdict *v, const struct attempt *a);
void verdict_free(struct verdict *v);

/* ---- of all ---- */

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
