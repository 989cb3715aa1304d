/*
 * attempt.h - one dry run of the program: what it is told, how it ended, what it left.
 *
 *      FOLDER/run*.db     the recordings
 *      FOLDER/facts       what the stand-ins told
 */
#ifndef VS_FIT_ATTEMPT_H
#define VS_FIT_ATTEMPT_H

#include <stdio.h>

#include "base/args.h"
#include "base/json.h"
#include "contain.h"

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

/* ---- what the stand-ins and the Python package told: lines of a file (facts.c; dry/facts.h) ---- */

enum fact_kind {
    FACT_MISSING, /* library, function: the program called what is not simulated */
    FACT_GUESS,   /* library, what, bytes, and least and most where other runs take these: no table has it */
    FACT_VALUE,   /* where, what, assumed, and how often since the last line: the program read what only a GPU
                     computes */
    FACT_WROTE,   /* path: a write that was stopped */
    FACT_ENDED,   /* steps: the process was ended after so many */
    FACT_BESIDE,  /* likewise, of memory that is in no figure of PyTorch's */
    FACT_TORCH,   /* version, CUDA's version or "none": PyTorch was imported */
    FACT_LAUNCH,  /* launcher, ranks that it would start by its own settings */
    FACT_KINDS
};

enum { FACT_FIELDS = 5 };

struct fact {
    enum fact_kind kind;
    const char *fields[FACT_FIELDS]; /* "" where there are fewer */
    int64_t times;                   /* that the same was said */
};

struct facts {
    char *text; /* that the fields point into */
    struct fact *all;
    size_t n;
};

void facts_read(struct facts *f, const char *path); /* no file, no facts */
void facts_free(struct facts *f);
const struct fact *facts_first(const struct facts *f, enum fact_kind kind); /* NULL: none */
size_t facts_count(const struct facts *f, enum fact_kind kind);

/* ---- some ranks of a job, one process each, in the place of the command (ranks.c) ----
 *
 * None waits for those that do not run (shim/framework/python/vramscope/_dry_ranks.py). */

enum { RANKS_MOST = 1 << 20, RANKS_RUN_MOST = 64 };

struct ranks {
    int world;               /* 0: nothing was asked, the command runs as it is */
    int local;               /* of one machine */
    int run[RANKS_RUN_MOST]; /* those that run */
    size_t n;
};

/* ALL: how many ranks there are.  RUN: "0,1,63"; NULL: the first two and the last.  LOCAL: how many are on
 * one machine; NULL: the most up to 8 that divides them.  0, or 2, said. */
int ranks_read(struct ranks *r, const char *all, const char *run, const char *local);
/* `run` of struct start_child: COMMAND once for each rank of CONTEXT, as many at a time as there are cores;
 * ends as the first that did not end well. */
_Noreturn void ranks_become(void *context, char **command);
/* What each of the N recordings of FILES holds, beside each other. */
void fit_ranks_text(char *const *files, size_t n, FILE *out);
void fit_ranks_json(char *const *files, size_t n, struct json *j);

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

/* ---- where dry runs leave their files until they are looked at (folder.c) ---- */

struct folder {
    char *path;     /* NULL: there is none */
    char *journals; /* in memory; NULL */
};

/* OUTPUT: the file that is wanted, NULL: none.  0, or 2, said. */
int folder_make(struct folder *f, const char *output);
/* With all that is in it. */
void folder_remove(struct folder *f);
/* One in FOLDER for NAME; the caller frees its path. */
char *folder_in(const char *folder, const char *name);

/* ---- `vramscope fit config.json`: a model without a program, trained by one of ours (model.c) ---- */

/* Whether PATH is a config.json, or a directory with one. */
bool model_is(const char *path);
/* The command that trains the model of WORDS[0] by the others of N words, of which those that are options of
 * FIT go into OPTIONS; of "--zero=3:8", DeepSpeed's stage 3 over 8 ranks, these into *RANKS.  For free(),
 * NULL at its end; the words stay the caller's and may be cut.  NULL: an option is wrong, said. */
char **model_command(const struct command *fit, char **words, int n, void *options, const char **ranks);

#endif
