/* norms.h - norms that are written in Python, and what 16 bits make of theirs (norms.c). */
#ifndef VS_EDIT_NORMS_H
#define VS_EDIT_NORMS_H

#include "program.h"

struct norms {
    bool *by_hand; /* by layer: code in Python that takes a square */
    bool *given;   /* by block: what such a norm of a library was given */
};

struct norms norms_read(const struct program *p);
void norms_free(struct norms *n);

#endif
