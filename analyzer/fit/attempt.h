/*
 * attempt.h - one dry run of the program: what it is told, how it ended, what it left.
 *
 *      FOLDER/run*.db     the recordings
 *      FOLDER/facts       what the stand-ins told
 */
#ifndef VS_FIT_ATTEMPT_H
#define VS_FIT_ATTEMPT_H

#include "base/base.h"
#include "contain.h"
#include "facts.h"
#include "ranks.h"

/* ---- the GPUs that a dry run can be of, as the simulated driver has them (dry/driver/cards.def) ---- */

struct fit_card {
    const char *key, *synonyms; /* with commas between */
    const char *name;           /* as the driver says it */
    int64_t bytes;
    int64_t context, code; /* that a process and PyTorch's kernels take beside what they ask for */
    bool measured;         /* these figures, on such a card */
};

/* By its key, or one of its synonyms, in any case; NULL: there is none. */
const struct fit_card *card_find(const char *key);
/* "H200, H100 and L40S"; the caller frees it. */
char *card_keys(void);

/* ---- a run ---- */

enum attempt_allocator { ALLOCATOR_OWN, ALLOCATOR_NATIVE, ALLOCATOR_EXPANDABLE, ALLOCATOR_ARENA };

struct attempt_setup { /* the same for all runs of a question */
    char **command;
    const struct fit_card *card;
    int64_t capacity; /* of the device; UNKNOWN: as the card has it */
    const char *steps, *skew, *keep, *overflow;
    const char *keep_writes; /* where copies go of what it writes; NULL */
    bool whole;              /* to its end, its output untouched */
    bool contained;          /* what it writes goes nowhere */
    struct ranks ranks;
};

/* Of values the first or the second, of guesses at sizes a likely figure, the most or the least. */
enum assumption { ASSUME_FIRST, ASSUME_SECOND, ASSUME_THIRD, ASSUMPTIONS };

struct attempt {
    enum attempt_allocator allocator;
    enum assumption assumption;
    int error;  /* it did not start: errno */
    int status; /* as waitpid gives it */
    char *said; /* the last lines of its standard error; NULL: they were not looked at */
    struct facts facts;
    struct written written;
    char **files; /* recordings */
    size_t n;
    bool compiled; /* by torch.compile, whose caches are not empty now */
};

/* Whether what a dry run stands on is there; 0, or 2, said. */
int attempt_check(void);
/* A->allocator and A->assumption say which.  CACHES: a folder for the caches of torch.compile, as an earlier
 * attempt left them; it is made where it is not there.  SHOWN: the program's output is.  0, or 2, said. */
int attempt_run(struct attempt *a, const struct attempt_setup *s, const char *folder, const char *caches,
                bool shown);
void attempt_free(struct attempt *a);
const char *attempt_allocator_name(enum attempt_allocator a);
const char *attempt_assumption_name(enum assumption a);

#endif
