/*
 * frames.h - formats places in code for people: "at::empty  (libtorch_cuda.so)",
 * "libtorch_cuda.so+0x91000", and of a Python file in site-packages the path from its package on, of any
 * other the whole path, so that it can be opened.
 */
#ifndef VS_SHOW_REPORT_FRAMES_H
#define VS_SHOW_REPORT_FRAMES_H

#include <stdio.h>

#include "read/trace.h"
#include "read/stacks.h"

/* The text of one frame.  WHERE adds the source line of a native frame, if it has one.  The caller frees
 * it. */
char *frame_text(const struct trace_frame *f, bool where);

/* The column `line` of the views, "FILE:LINE FUNCTION", without the file's directory, for tables, which have
 * no room for paths.  "__init__.py" keeps its folder.  The caller frees it. */
char *line_text(const char *line);

/* The place of STACK, to be appended to a line: " model.py:41 Model.forward"; "" if it has no Python frame.
 * The caller frees it. */
char *stack_line_text(struct trace *t, int64_t stack);

#endif
