/*
 * refusal.h - a run that ended in an out-of-memory: would another allocator, or a change of the program, have
 * let that request pass?
 *
 * The program up to the refusal is replayed under each allocator as it is, and edited under its own.  A
 * replay may hold what the run could: its limit, or what it held then and what the driver had free.  What
 * passes only where blocks happen to fit is no advice: it must pass with a 100th of the memory to spare, and
 * with each large block's size up to a 100th off.  Nothing is said of what comes after the request.
 */
#ifndef VS_EDIT_REFUSAL_H
#define VS_EDIT_REFUSAL_H

#include "edits.h"
#include "replay/replay.h"
#include "read/ooms.h"

#define SHAKEN_DRAWS 8
#define SHAKEN_PART  100 /* a size is up to a 100th of it larger or smaller */

/* Blocks of P, in draw DRAW, as an array of their own.  Equal sizes stay equal; small ones stay as they are.
 * Whether a request passes can hang on one block that happens to fit a hole of its size; another batch,
 * library or GPU has other sizes, and that luck is gone. */
struct edit_block *shaken_blocks(const struct program *p, unsigned draw);

enum refusal_verdict { REFUSAL_PASSES, REFUSAL_MAY_PASS, REFUSAL_LUCKY, REFUSAL_SHORT };

struct refusal_policy { /* the program as it is under an allocator */
    bool asked;
    enum refusal_verdict verdict;
    int64_t room; /* as of a change */
};

struct refusal_change {
    char *name; /* "loss=fused", "states=8bit checkpoint=2" */
    enum refusal_verdict verdict;
    bool made;      /* the request is; without it nothing is asked for there */
    int64_t frees;  /* bytes less that the allocator would count as allocated with the request (without it,
                       where it is not made), at the least; below 0: more */
    int64_t room;   /* the largest request that passes next; below 0: it is short by so much; UNKNOWN */
    unsigned draws; /* LUCKY: of SHAKEN_DRAWS in which it passes */
    bool earlier;   /* short of another request before it */
    bool held;      /* passes in memory that is held, and free */
    int64_t pieces; /* passes: less that is held and free then than when it was refused; UNKNOWN */
    char *assumes;  /* what is taken for granted; NULL: nothing */
};

struct refusal_answer {
    char *why;    /* nothing is known, and why; NULL */
    char *unmade; /* WHY is that this change, or these, can't be made; NULL */
    bool nothing; /* as there is nothing to change */
    struct refusal_policy of[FEED_POLICIES];
    struct refusal_change *changes; /* those that let it pass first, then by what they free */
    size_t count;
    int64_t capacity; /* that the framework's allocator could have had, or was asked about */
    enum feed_policy policy;
    int64_t missing; /* bytes that the request was short of; UNKNOWN */
    bool passes;     /* without a change, under what was asked about; WHY says so */
};

/* Another allocator, or another end, than those of the run. */
struct refusal_under {
    const struct torch_settings *settings; /* its capacity UINT64_MAX: that of the run */
    int policy;                            /* an enum feed_policy; -1: the run's */
};

/* What each allocator, and changes of the program, would have made of the refusal O, a framework's.  The
 * changes are the N EDITS, one after the other; 0: none.  EDITS is NULL: each edit that is tried, and pairs
 * where none is enough.  UNDER is NULL: as the run was.  0, or -1 with t->why. */
int refusal_answer(struct trace *t, const struct trace_oom_kept *o, const struct refusal_under *under,
                   const struct edit *const *edits, size_t n, struct refusal_answer *out);
/* The same of a program that ends with a request, under POLICY; SETTINGS have the capacity.  OUT->why: it
 * passes, and no change is asked about. */
void refusal_ask(const struct program *p, enum feed_policy policy, const struct torch_settings *settings,
                 const struct edit *const *edits, size_t n, struct refusal_answer *out);
void refusal_free(struct refusal_answer *a);

/* "this request would have passed"; static. */
const char *refusal_says(const struct refusal_change *c);
/* How a run gets POLICY: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"; NULL: it is none to be had. */
const char *refusal_cure(enum feed_policy policy);
/* "this request would have passed, 11.06 GiB left": of POLICY; owned. */
char *refusal_policy_text(const struct refusal_answer *a, enum feed_policy policy, bool exact);
/* "states=8bit frees 1.2 GiB: this request would have passed, 120 MiB left": of the answer A; owned. */
char *refusal_text(const struct refusal_answer *a, const struct refusal_change *c, bool exact);

#endif
