/*
 * stack.h - a call stack as a person reads it, innermost frame first; the same text wherever one is shown.
 *
 *      at::addmm  (libtorch_cpu.so)                    an operator
 *      torch/nn/modules/linear.py:125 Linear.forward   a line of Python, of a package
 *      /home/ada/model.py:41 Model.forward             ... of the program
 *      allocate  (trainer)  /home/ada/trainer.c:12     a native function whose file has line numbers
 *      libcublasLt.so.13+0x91000, and 4 more           frames of one library that nobody named
 *      descend ×3  (trainer)                           a function that called itself
 *
 * Names of C++ are short (cxx_name.h), and the frames that tell nothing (hidden.h) are left out; where that
 * would leave nothing between two lines of Python, the operator stays.  FULL shows every frame, and its name
 * as it is stored.
 */
#ifndef VS_SHOW_REPORT_STACK_H
#define VS_SHOW_REPORT_STACK_H

#include <stdio.h>

#include "read/trace.h"

struct stack_lines {
    char **line;
    size_t count;
    size_t hidden; /* frames that are in no line */
};

struct stack_lines stack_lines_of(const struct trace_frame *frames, size_t n, bool full);
void stack_lines_free(struct stack_lines *s);

/* Where the first of N frames is that tells something, and in a program of one's own who called it:
 * "trainer.c:40 forward → allocate", "cublasCreate_v2  (libcublas.so.13)".  NULL where there is no frame. The
 * caller frees it. */
char *stack_place(const struct trace_frame *frames, size_t n);

/* The lines of call stack STACK of the file, the MOST innermost ones (0: all), each at INDENT.  The number of
 * frames that were left out as telling nothing. */
size_t stack_print(struct trace *t, int64_t stack, size_t most, bool full, int indent, FILE *out);

/* Says that HIDDEN frames were left out, and how to see them; nothing where none were. */
void stack_print_hidden(size_t hidden, FILE *out);

#endif
