/*
 * torch_node.h - the autograd node that the calling thread runs, by PyTorch's own word, however it holds its
 * nodes.
 *
 *      torch::autograd::get_current_node()     the node, with a reference more, which is given back at once
 *
 *                   a pointer is         its count              number, thread
 *      shared       std::shared_ptr      in a control block     24, 48 bytes into the node     1.8 to 2.12
 *      intrusive    c10::intrusive_ptr   8 bytes into the node  16, 40                         2.13 to 2.15
 *
 * Which of them it is is proven when the library is found: by the base class of a node, which decides where
 * its members begin; by the names of exported functions that take one; and by an answer while no node runs.
 * The first nodes that do run are looked at, too, and only where the kernel says that they can be read.  What
 * does not hold switches off the lines of backward and nothing else.
 */
#ifndef VS_FRAMEWORK_TORCH_NODE_H
#define VS_FRAMEWORK_TORCH_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/contracts.h"

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
