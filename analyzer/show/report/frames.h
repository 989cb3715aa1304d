/*
 * frames.h - places in code as a person reads them.
 *
 *      a native frame     at::empty  (libtorch_cuda.so)
 *      ... nobody named   libtorch_cuda.so+0x91000
 *      a Python frame     transformers/models/llama/modeling_llama.py:288 LlamaAttention.forward
 *
 * A Python file in site-packages is named from its package on; any other by its whole path, so that it can be
 * opened.
 */
#ifndef VS_SHOW_REPORT_FRAMES_H
#define VS_SHOW_REPORT_FRAMES_H

#include <stdio.h>

#include "read/trace.h"

/* One frame.  WHERE adds the source line of a native frame that has one.  The caller frees it. */
char *frame_text(const struct trace_frame *f, bool where);

/* The column `line` of the views, "FILE:LINE FUNCTION", with the file's name alone: for tables, where the
 * whole path has no room.  "__init__.py" keeps its folder.  The caller frees it. */
char *line_text(const char *line);

/* Where STACK is, for the end of a line: " model.py:41 Model.forward", "" where it has no Python frame.  The
 * caller frees it. */
char *stack_line_text(struct trace *t, int64_t stack);

#endif
