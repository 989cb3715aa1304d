/*
 * stacks.h - what the rest of the shim may set and ask about call stacks; capturing itself is in record.h.
 */
#ifndef VS_STACKS_STACKS_H
#define VS_STACKS_STACKS_H

/* Frames kept of a stack, counted from the innermost, 1 to 256.  Before the first capture. */
void vs_stack_set_depth(unsigned depth);

/* Why there are no call stacks, one line; "" where there are or nobody has asked yet. */
const char *vs_stack_why_off(void);

#endif
