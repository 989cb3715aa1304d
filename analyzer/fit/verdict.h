/*
 * verdict.h - what a dry run says: whether the program fits, and what it held.
 */
#ifndef VS_FIT_VERDICT_H
#define VS_FIT_VERDICT_H

#include "attempt.h"
#include "replay/layouts.h"

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

#endif
