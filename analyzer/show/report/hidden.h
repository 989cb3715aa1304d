/*
 * hidden.h - which frames of a call stack tell a reader nothing.
 *
 * Between a line of Python and the memory that it asks for lie some twenty calls of PyTorch's dispatcher, its
 * allocator and the interpreter, the same ones for every operator.  What is left without them are the
 * operators, the functions that compute them, and the libraries.
 */
#ifndef VS_SHOW_REPORT_HIDDEN_H
#define VS_SHOW_REPORT_HIDDEN_H

#include <stdbool.h>

enum frame_use {
    FRAME_TELLS,       /* whatever is none of the others */
    FRAME_OPERATOR,    /* at::_ops::addmm::call: what the program asked for by name */
    FRAME_ALLOCATOR,   /* makes room, whoever asked */
    FRAME_DISPATCHER,  /* finds the function of an operator, runs the nodes of autograd */
    FRAME_INTERPRETER, /* Python's own, and what stands between it and PyTorch */
    FRAME_START,       /* of a process, of a thread */
    FRAME_LIBC         /* no name of the others, but in their library: outermost it is of FRAME_START */
};

/* What the function NAME (short, cxx_name.h; NULL: nobody named it) in the file MODULE (without folders) is
 * for. */
enum frame_use frame_use(const char *name, const char *module);

/* Whether a line of Python only hands a call on to the module or optimizer that is called. */
bool frame_is_wrapper(const char *file, const char *function);

#endif
