/*
 * stack.h - formats a call stack for people, innermost frame first; all commands show the same text.
 *
 *      at::addmm  (libtorch_cpu.so)                    an operator
 *      torch/nn/modules/linear.py:125 Linear.forward   a line of Python, of a package
 *      /home/ada/model.py:41 Model.forward             ... of the program
 *      allocate  (trainer)  /home/ada/trainer.c:12     a native function whose file has line numbers
 *      libcublasLt.so.13+0x91000, and 4 more           frames of one library without names
 *      descend ×3  (trainer)                           a function that called itself
 *
 * Uninformative frames are left out; if that would leave nothing between two lines of Python,
 * the operator stays.  FULL shows every frame, and its name as it is stored.
 */
#ifndef VS_SHOW_REPORT_STACK_H
#define VS_SHOW_REPORT_STACK_H

#include <stdio.h>
#include <stdbool.h>

#include "read/trace.h"
#include "read/stacks.h"

struct stack_lines {
    char **line;
    size_t count;
    size_t hidden; /* frames that are in no line */
};

struct stack_lines stack_lines_of(const struct trace_frame *frames, size_t n, bool full);
void stack_lines_free(struct stack_lines *s);

/* The place of the first informative one of N frames and, in the program's own code, its caller:
 * "trainer.c:40 forward → allocate", "cublasCreate_v2  (libcublas.so.13)".  NULL if there is no frame. The
 * caller frees it. */
char *stack_place(const struct trace_frame *frames, size_t n);

/* The line of Python of call stack STACK ("train.py:41 main"), else its stack_place; the caller frees it. */
char *stack_where(struct trace *t, int64_t stack);

/* Prints the MOST innermost lines (0: all) of call stack STACK, each at INDENT.  Returns the number of
 * frames that were left out as uninformative. */
size_t stack_print(struct trace *t, int64_t stack, size_t most, bool full, int indent, FILE *out);

/* Prints that HIDDEN frames were left out, and how to see them; nothing if HIDDEN is 0. */
void stack_print_hidden(size_t hidden, FILE *out);

/* ---- frames that tell nothing ---- */

/* Classifies the frames of a call stack that do not inform a reader: the twenty or so calls of
 * PyTorch's dispatcher, its allocator and the interpreter between a line of Python and its allocation, the
 * same for every operator. */
enum frame_use {
    FRAME_TELLS,       /* none of the others: informative */
    FRAME_OPERATOR,    /* at::_ops::addmm::call: the operator that the program called */
    FRAME_ALLOCATOR,   /* the allocator, the same for every caller */
    FRAME_DISPATCHER,  /* finds the function of an operator, runs the nodes of autograd */
    FRAME_INTERPRETER, /* Python's interpreter, and the glue between it and PyTorch */
    FRAME_START,       /* the start of a process or a thread */
    FRAME_LIBC         /* another function of libc; as the outermost frame it counts as FRAME_START */
};

/* The class of the function NAME (short, cxx_name; NULL: unknown) in the file MODULE (without folders). */
enum frame_use frame_use(const char *name, const char *module);

/* Whether a line of Python only passes a call on to a module or optimizer. */
bool frame_is_wrapper(const char *file, const char *function);

/* ---- places ---- */

/* Formats places in code for people: "at::empty  (libtorch_cuda.so)",
 * "libtorch_cuda.so+0x91000", and of a Python file in site-packages the path from its package on, of any
 * other the whole path, so that it can be opened. */
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
