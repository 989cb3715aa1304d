/*
 * facts.h - what the stand-ins and the Python package told of a dry run: lines of a file (dry/facts.h).
 */
#ifndef VS_FIT_FACTS_H
#define VS_FIT_FACTS_H

#include "base/base.h"

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

#endif
