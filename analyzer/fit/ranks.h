/*
 * ranks.h - some ranks of a job, one process each, in the place of the command: none waits for those that do
 * not run (shim/framework/python/vramscope/_dry_ranks.py).
 */
#ifndef VS_FIT_RANKS_H
#define VS_FIT_RANKS_H

#include <stdio.h>

#include "base/base.h"
#include "base/json.h"

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

#endif
