/*
 * counts.h - how many blocks of a size there are of a kind: gradients, states and parameters come in numbers
 * that must agree, since each parameter has one gradient, and as many states as its optimizer keeps.
 */
#ifndef VS_IMPORT_COUNTS_H
#define VS_IMPORT_COUNTS_H

#include "lives.h"
#include "trace/event.h"
#include "trace/ledger/addresses.h"

struct count { /* of the blocks of one size on one device */
    uint64_t size;
    uint32_t built;     /* there before the first phase, and still there when the last step ended */
    uint32_t gradients; /* the most that lived at once */
    uint32_t kept;      /* born in backward, lived through an optimizer's step (if there is one) and stayed */
    uint32_t states;    /* born in an optimizer's step, and stayed */
    uint32_t now;
    bool replaced; /* an optimizer's step freed one that it had not made */
    bool later;    /* of kept: they stayed though backward came again, or no optimizer ever ran */
};

struct counts {
    struct count *at;
    size_t n;
    struct vs_table index;
};

struct count *counts_of(struct counts *c, const struct life *x);
void counts_free(struct counts *c);

/* The most gradients of each size that live at once, of those that have a rule by now. */
void counts_gradients(struct counts *c, const struct lives *l);

/* Whether what was kept of a size are gradients.  Each has a parameter of its size, and FACTOR states. */
bool counts_are_gradients(const struct count *c, uint32_t factor);
/* The factor by which most of what was kept, and more than one size of it, fits; UINT32_MAX: none does. */
uint32_t counts_factor(const struct counts *c);

#endif
