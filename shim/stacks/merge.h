/*
 * merge.h - a native stack and the Python frames of the same thread as one stack.
 *
 *      native                                  Python             merged
 *      cuMemAlloc's caller in libtorch                            cuMemAlloc's caller in libtorch
 *      at::empty                                                  at::empty
 *      _PyEval_EvalFrameDefault            ┌── f                  f
 *                                          └── g                  g
 *      PyObject_Call                                              PyObject_Call
 *      _PyEval_EvalFrameDefault            ─── <module>           <module>
 *      main                                                       main
 *
 * Each call of the interpreter's loop runs one Python frame or several, and says where it was entered:
 * in 3.10 every frame is a call of its own, in 3.11 the entry frame is marked, later a frame of no code
 * stands between. Where calls and runs do not pair off (parts of the loop that lie elsewhere, an interpreter
 * without that function), all Python frames take the place of what lies in the interpreter.
 */
#ifndef VS_STACKS_MERGE_H
#define VS_STACKS_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "block.h"

/* The frames of both, innermost first, into OUT, MAX at most; the number of them, 0 where the journal is
 * full.  The PYTHON frames are block->python->walked's.  CUT: the native stack may go on. */
int vs_merge(struct vs_block *block, struct vs_journal *j, const struct vs_native_frame *native, int count,
             bool cut, int python, uint32_t *out, int max);

#endif
