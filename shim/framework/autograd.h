/*
 * autograd.h - which node of PyTorch's backward the calling thread runs, and which call of the forward made
 * that node.
 */
#ifndef VS_FRAMEWORK_AUTOGRAD_H
#define VS_FRAMEWORK_AUTOGRAD_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/journal/journal.h"

struct vs_autograd_run {
    uint32_t node;    /* frame id of the node that runs (VS_FRAME_NODE) */
    uint32_t forward; /* the call stack that made the node; 0: not known */
};

/* Whether an autograd node runs on the calling thread, and which.  Any thread; no lock, no allocation.  Calls
 * two functions of torch that read thread-local words. */
bool vs_autograd_running(struct vs_journal *j, struct vs_autograd_run *out);

/* The number of the backward that the calling thread runs; -1: none. */
int vs_autograd_task(void);

#endif
