/*
 * hidden.h - classifies the frames of a call stack that do not inform a reader: the twenty or so calls of
 * PyTorch's dispatcher, its allocator and the interpreter between a line of Python and its allocation, the
 * same for every operator.
 */
#ifndef VS_SHOW_REPORT_HIDDEN_H
#define VS_SHOW_REPORT_HIDDEN_H

#include <stdbool.h>

enum frame_use {
    FRAME_TELLS,       /* none of the others: informative */
    FRAME_OPERATOR,    /* at::_ops::addmm::call: the operator that the program called */
    FRAME_ALLOCATOR,   /* the allocator, the same for every caller */
    FRAME_DISPATCHER,  /* finds the function of an operator, runs the nodes of autograd */
    FRAME_INTERPRETER, /* Python's interpreter, and the glue between it and PyTorch */
    FRAME_START,       /* the start of a process or a thread */
    FRAME_LIBC         /* another function of libc; as the outermost frame it counts as FRAME_START */
};

/* The class of the function NAME (short, cxx_name.h; NULL: unknown) in the file MODULE (without folders). */
enum frame_use frame_use(const char *name, const char *module);

/* Whether a line of Python only passes a call on to a module or optimizer. */
bool frame_is_wrapper(const char *file, const char *function);

#endif
