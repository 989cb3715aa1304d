/* stacks.h - taking call stacks, and what may be set and asked about them. */
#ifndef VS_STACKS_STACKS_H
#define VS_STACKS_STACKS_H

#include "trace/journal/journal.h"

/* The interned call stack of the caller, `skip` innermost frames left out; 0 where stacks are off, the thread
 * is already unwinding, or nothing is known. */
uint32_t vs_stack_capture(struct vs_journal *j, int skip);
/* The calling thread's Python frames alone, interned; 0 where no Python code is running, or where it cannot
 * be told which. */
uint32_t vs_python_capture(struct vs_journal *j);
/* The same with the frame of a layer as its innermost, which FRAME_OF makes of the number LAYER where the
 * stack is new to the thread; 0: in none.  0 also where no Python code is running in the layer. */
typedef uint32_t vs_layer_frame_fn(struct vs_journal *j, uint32_t layer);
uint32_t vs_python_capture_in(struct vs_journal *j, uint32_t layer, vs_layer_frame_fn *frame_of);
/* For benchmarks and tests: every walk goes to the outermost frame. */
void vs_python_walk_whole(bool on);
/* What an allocation's stack says beside what code ran: frame ids, 0: nothing. */
struct vs_stack_place {
    uint32_t node;    /* the autograd node that ran */
    uint32_t forward; /* the stack that made it; 0: not known */
    uint32_t layer;
};
/* STACK, taken at this moment, with that.  Where a node ran its frames inside of the run stay, under them is
 * the node, and under that the stack that made it, in the place of what called backward.  The layer is
 * innermost. */
uint32_t vs_stack_placed(struct vs_journal *j, uint32_t stack, const struct vs_stack_place *place);
/* Loads the unwinder and looks for an interpreter, once: before the first event, from a place where loading a
 * library is safe. */
void vs_stack_prepare(void);

/* Frames kept of a stack, counted from the innermost, 1 to 256.  To be set before the first capture. */
void vs_stack_set_depth(unsigned depth);

/* Called by the drain thread in every round: notices objects that were loaded, looks for an interpreter that
 * came with them, and unmaps the blocks of threads that have ended. */
void vs_stack_refresh(struct vs_journal *j);

/* Why there are no call stacks, one line; "" where there are or nobody has asked yet. */
const char *vs_stack_why_off(void);

#endif
