/*
 * autograd.h - which node of PyTorch's backward the calling thread runs, and which call of the forward made
 * it.
 */
#ifndef VS_FRAMEWORK_AUTOGRAD_H
#define VS_FRAMEWORK_AUTOGRAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/contracts.h"
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

/* ---- torch_node.c, for autograd.c ---- */

#define VS_NODE_NO_NUMBER UINT64_MAX /* of a node that no call of the forward made */

struct vs_torch_node {
    uintptr_t table; /* its virtual table: its type */
    uint64_t number, thread;
    uintptr_t words[3]; /* the pointer to it, which the caller has no business with */
};

/* Finds the function in LIBRARY, and how nodes are held there.  AT_REST: the calling thread runs no backward.
 * False: it is not known. */
bool vs_torch_node_find(void *library, bool at_rest);
/* Whether a node runs on the calling thread, and which.  No lock, no allocation. */
bool vs_torch_node_now(struct vs_torch_node *out);
/* A birth was seen with the number and the thread of a node that runs: its fields are where they should be.
 */
void vs_torch_node_met(void);

#endif
