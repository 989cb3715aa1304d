/*
 * tail.h - what a program says on its standard error: shown as it comes, or not, and its last lines kept.
 */
#ifndef VS_FIT_TAIL_H
#define VS_FIT_TAIL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

enum { TAIL_BYTES = 8192 };

struct tail {
    int ends[2]; /* of the pipe; the program has the second as its standard error */
    bool shown, running;
    atomic_bool over;
    pthread_t thread;
    char last[2 * TAIL_BYTES]; /* what was read, the old half thrown away when it is full */
    size_t n;
};

/* 0, or an errno. */
int tail_begin(struct tail *t, bool shown);
/* The program has started and has its end of the pipe. */
void tail_started(struct tail *t);
/* The program has ended; what others hold the pipe for is not waited for.  Its last LINES, which the caller
 * frees. */
char *tail_end(struct tail *t, int lines);

#endif
