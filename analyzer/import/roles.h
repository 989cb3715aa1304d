/*
 * roles.h - what the blocks of a snapshot are for: what PyTorch's own code was doing when a block came and
 * went shows it, and where in the steps that was.  Where both do not suffice the role is unknown.  The rules
 * are those of enum vs_life_rule, in words in schema.sql (view life_role):
 *
 *  - An optimizer's state is born in an optimizer's step and outlives it.
 *  - A gradient is born in backward.  zero_grad frees it, or it outlives the optimizer's step and not the
 * next backward.  A block that stays for ever may be a workspace, which is born in backward too: it is a
 * gradient if there are as many optimizer states, or parameters, as such blocks of its size.
 *  - A parameter was there before the first step and stays.  There are as many blocks of its size as
 * gradients. Where Module._apply moved a model, all that the same line moved is the same.
 *  - An activation is born in forward and freed inside of backward, when Python is not free to drop anything.
 *  - A temporary is born and freed in one stretch of a phase.
 *  - A block that had no time to end, as memory ran out, is what all of its stack and size were before it.
 *
 * Not told are inputs, logits, and anything of a trace in which nobody trains.
 */
#ifndef VS_IMPORT_ROLES_H
#define VS_IMPORT_ROLES_H

#include "lives.h"
#include "trace/event.h"
#include "trace/ledger/addresses.h"

struct roles {
    uint8_t
        *of_entry[SNAPSHOT_DEVICES]; /* enum vs_life_rule of the block that an entry of the trace allocates */
    uint8_t *of_block[SNAPSHOT_DEVICES]; /* of one that was there before the trace */
    bool any;                            /* a role is known */
    uint32_t *ends; /* the entries after which a phase's own are over, ascending, counted as in lives.h */
    size_t end_count;
};

void roles_find(struct roles *r, const struct snapshot *s, const struct rewound *start,
                const struct phases *phases);
void roles_free(struct roles *r);

/*
 * How many blocks of a size there are of a kind (counts.c).  The numbers must agree: each parameter has one
 * gradient, and as many states as its optimizer keeps.
 */
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
